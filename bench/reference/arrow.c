/* The reference: an arrow as a good C programmer writes it with Proton.
 *
 * It is deliberately the idiomatic way, because that is what the product is
 * compared with: events from pn_connection_driver_next_event, a pn_message_t
 * that is encoded and decoded for every message, one printf per record into a
 * large stdio buffer, credit topped up and every delivery accepted and settled
 * as it arrives, one clock reading per message. Nothing is slowed down on
 * purpose: -O2, TCP_NODELAY, a write for as much output as there is, no
 * allocation per message. The tricks of the product do not belong here.
 *
 * Arguments are the key=value contract of the arrows. Records are those of its
 * current revision, or of the one before (ids and S/s lines) when "settlement"
 * is given. "time-unit=us" prints microseconds. Errors end the run with one
 * line on standard error and exit code 1.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/event.h>
#include <proton/link.h>
#include <proton/message.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>

enum {
  RECORD_BUFFER_SIZE = 1 << 20,
  FIRST_MESSAGE_BUFFER_SIZE = 4096,
  SETTLEMENT_SAMPLE = 256, /* every 256th settlement line starts with S */
};

static const int64_t NANOSECONDS = 1000000000;
static const char SEND_TIME[] = "SendTime";

typedef struct {
  bool server, passive, sender;
  const char *id, *host, *port, *path;
  int64_t duration, count, rate, credit_window;
  size_t body_size;
  bool durable, set_message_id;
  bool with_ids;   /* records carry message ids: the revision with "settlement" */
  bool settlement; /* and settlement times are tracked */
  int64_t unit;    /* nanoseconds per unit of the records' times */
} options_t;

typedef struct {
  options_t options;
  pn_connection_driver_t driver;
  pn_session_t *session;
  pn_link_t *link;
  pn_message_t *message;
  pn_rwbytes_t buffer; /* one encoded message */
  char *body;
  int64_t deadline; /* end of the duration, 0 without one */
  int64_t start;    /* of the open-loop schedule: when the first credit came */
  int64_t next_due; /* when the schedule wants the next message, 0 to not wait */
  int64_t sent, received, acknowledged;
  bool stopping;
  bool failed;
} arrow_t;

__attribute__((noreturn, format(printf, 1, 2))) static void die(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("reference-arrow: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  exit(1);
}

static int64_t now_nanoseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t) now.tv_sec * NANOSECONDS + now.tv_nsec;
}

/* ---- Arguments ---------------------------------------------------------- */

static int64_t parse_integer(const char *key, const char *value) {
  char *end;
  errno = 0;
  long long number = strtoll(value, &end, 10);
  if (errno || end == value || *end || number < 0) die("%s=%s: not a count", key, value);
  return number;
}

static bool parse_choice(const char *key, const char *value, const char *no, const char *yes) {
  if (strcmp(value, yes) == 0) return true;
  if (strcmp(value, no) != 0) die("%s=%s: expected %s or %s", key, value, no, yes);
  return false;
}

static void require(const char *key, const char *value, const char *only) {
  if (strcmp(value, only) != 0) die("%s=%s: only %s is supported", key, value, only);
}

static int64_t parse_unit(const char *key, const char *value) {
  if (strcmp(value, "ms") == 0) return 1000000;
  if (strcmp(value, "us") == 0) return 1000;
  if (strcmp(value, "ns") == 0) return 1;
  die("%s=%s: expected ms, us or ns", key, value);
}

static void set_option(options_t *options, const char *key, const char *value) {
  if (!strcmp(key, "connection-mode"))
    options->server = parse_choice(key, value, "client", "server");
  else if (!strcmp(key, "channel-mode"))
    options->passive = parse_choice(key, value, "active", "passive");
  else if (!strcmp(key, "operation")) options->sender = parse_choice(key, value, "receive", "send");
  else if (!strcmp(key, "id")) options->id = value;
  else if (!strcmp(key, "host")) options->host = value;
  else if (!strcmp(key, "port")) options->port = strcmp(value, "-") ? value : "5672";
  else if (!strcmp(key, "path")) options->path = value;
  else if (!strcmp(key, "duration")) options->duration = parse_integer(key, value);
  else if (!strcmp(key, "count")) options->count = parse_integer(key, value);
  else if (!strcmp(key, "rate")) options->rate = parse_integer(key, value);
  else if (!strcmp(key, "body-size")) options->body_size = (size_t) parse_integer(key, value);
  else if (!strcmp(key, "credit-window")) options->credit_window = parse_integer(key, value);
  else if (!strcmp(key, "durable")) options->durable = parse_integer(key, value) != 0;
  else if (!strcmp(key, "set-message-id")) options->set_message_id = parse_integer(key, value) != 0;
  else if (!strcmp(key, "time-unit")) options->unit = parse_unit(key, value);
  else if (!strcmp(key, "scheme")) require(key, value, "amqp");
  else if (!strcmp(key, "transaction-size")) require(key, value, "0");
  else if (!strcmp(key, "settlement")) {
    options->with_ids = options->set_message_id = true;
    options->settlement = parse_integer(key, value) != 0;
  } else die("unknown argument %s", key);
}

static options_t parse_options(int argc, char **argv) {
  options_t options = {
    .id = "reference",
    .host = "localhost",
    .port = "5672",
    .path = "q",
    .credit_window = 1000,
    .body_size = 100,
    .unit = 1000000,
  };
  for (int i = 1; i < argc; i++) {
    char *equals = strchr(argv[i], '=');
    if (!equals) die("%s: expected key=value", argv[i]);
    *equals = 0;
    set_option(&options, argv[i], equals + 1);
  }
  return options;
}

/* ---- Stopping ----------------------------------------------------------- */

static void stop(arrow_t *arrow) {
  arrow->stopping = true;
  pn_link_close(arrow->link);
  pn_session_close(arrow->session);
  pn_connection_close(arrow->driver.connection);
}

static bool all_sent(const arrow_t *arrow) {
  const options_t *options = &arrow->options;
  if (options->count && arrow->sent >= options->count) return true;
  return arrow->deadline && now_nanoseconds() >= arrow->deadline;
}

static void stop_when_done(arrow_t *arrow) {
  if (arrow->stopping || !arrow->link) return;
  if (arrow->options.sender) {
    if (all_sent(arrow) && arrow->acknowledged == arrow->sent) stop(arrow);
  } else if (arrow->deadline && now_nanoseconds() >= arrow->deadline) {
    stop(arrow);
  }
}

/* ---- Sending ------------------------------------------------------------ */

static void fill_message(arrow_t *arrow, int64_t sequence, int64_t send_time) {
  pn_message_t *message = arrow->message;
  pn_message_clear(message);
  if (arrow->options.durable) pn_message_set_durable(message, true);
  if (arrow->options.set_message_id) {
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRId64, sequence);
    pn_message_set_id(
      message, (pn_msgid_t) {.type = PN_STRING, .u.as_bytes = pn_bytes((size_t) length, text)});
  }
  pn_data_t *properties = pn_message_properties(message);
  pn_data_put_map(properties);
  pn_data_enter(properties);
  pn_data_put_string(properties, pn_bytes(sizeof SEND_TIME - 1, SEND_TIME));
  pn_data_put_long(properties, send_time);
  pn_data_exit(properties);
  pn_data_put_binary(pn_message_body(message), pn_bytes(arrow->options.body_size, arrow->body));
}

static size_t encode_message(arrow_t *arrow) {
  for (;;) {
    size_t size = arrow->buffer.size;
    int error = pn_message_encode(arrow->message, arrow->buffer.start, &size);
    if (error == 0) return size;
    if (error != PN_OVERFLOW) die("cannot encode: %s", pn_code(error));
    arrow->buffer.size *= 2;
    arrow->buffer.start = realloc(arrow->buffer.start, arrow->buffer.size);
    if (!arrow->buffer.start) die("out of memory");
  }
}

static void print_sent(const arrow_t *arrow, int64_t sequence, int64_t send_time) {
  if (arrow->options.with_ids) printf("%" PRId64 ",%" PRId64 "\n", sequence, send_time);
  else printf("%" PRId64 ",0\n", send_time);
}

static void send_message(arrow_t *arrow, int64_t send_time) {
  int64_t sequence = ++arrow->sent;
  fill_message(arrow, sequence, send_time);
  size_t size = encode_message(arrow);
  pn_delivery(arrow->link, pn_dtag((const char *) &sequence, sizeof sequence));
  pn_link_send(arrow->link, arrow->buffer.start, size);
  pn_link_advance(arrow->link);
  print_sent(arrow, sequence, send_time);
}

/* Time of sending in record units, or -1 if the schedule wants the message later.
 * Under rate it is the intended time, so that a late sender shows as latency. */
static int64_t next_send_time(arrow_t *arrow) {
  const options_t *options = &arrow->options;
  int64_t now = now_nanoseconds();
  if (!options->rate) return now / options->unit;
  if (!arrow->start) arrow->start = now;
  int64_t whole = arrow->sent / options->rate, rest = arrow->sent % options->rate;
  int64_t due = arrow->start + whole * NANOSECONDS + rest * NANOSECONDS / options->rate;
  arrow->next_due = due > now ? due : 0;
  return due > now ? -1 : due / options->unit;
}

static void send_messages(arrow_t *arrow) {
  arrow->next_due = 0;
  while (pn_link_credit(arrow->link) > 0 && !arrow->stopping && !all_sent(arrow)) {
    int64_t send_time = next_send_time(arrow);
    if (send_time < 0) return;
    send_message(arrow, send_time);
  }
}

static void print_settlement(const arrow_t *arrow, pn_delivery_t *delivery) {
  pn_delivery_tag_t tag = pn_delivery_tag(delivery);
  int64_t sequence;
  memcpy(&sequence, tag.start, sizeof sequence);
  char prefix = (sequence - 1) % SETTLEMENT_SAMPLE == 0 ? 'S' : 's';
  printf("%c%" PRId64 ",%" PRId64 "\n", prefix, sequence, now_nanoseconds() / arrow->options.unit);
}

static void on_acknowledgement(arrow_t *arrow, pn_delivery_t *delivery) {
  if (!pn_delivery_updated(delivery)) return;
  if (pn_delivery_remote_state(delivery) != PN_ACCEPTED) {
    fprintf(stderr, "reference-arrow: a message was not accepted\n");
    arrow->failed = true;
  }
  if (arrow->options.settlement) print_settlement(arrow, delivery);
  pn_delivery_settle(delivery);
  arrow->acknowledged++;
}

/* ---- Receiving ---------------------------------------------------------- */

static int64_t get_send_time(pn_message_t *message) {
  pn_data_t *properties = pn_message_properties(message);
  pn_data_rewind(properties);
  pn_data_next(properties);
  pn_data_enter(properties);
  while (pn_data_next(properties)) {
    pn_bytes_t key = pn_data_get_string(properties);
    if (!pn_data_next(properties)) break;
    if (key.size == sizeof SEND_TIME - 1 && !memcmp(key.start, SEND_TIME, key.size))
      return pn_data_get_long(properties);
  }
  die("a message has no SendTime");
}

static void decode_delivery(arrow_t *arrow, pn_delivery_t *delivery) {
  size_t size = pn_delivery_pending(delivery);
  if (size > arrow->buffer.size) {
    arrow->buffer.size = size;
    arrow->buffer.start = realloc(arrow->buffer.start, size);
    if (!arrow->buffer.start) die("out of memory");
  }
  ssize_t received = pn_link_recv(arrow->link, arrow->buffer.start, size);
  if (received < 0 || pn_message_decode(arrow->message, arrow->buffer.start, (size_t) received))
    die("cannot decode a message");
}

static void print_received(const arrow_t *arrow, int64_t send_time, int64_t receive_time) {
  if (!arrow->options.with_ids) {
    printf("%" PRId64 ",%" PRId64 "\n", send_time, receive_time);
    return;
  }
  pn_bytes_t id = pn_message_get_id(arrow->message).u.as_bytes;
  printf("%.*s,%" PRId64 ",%" PRId64 "\n", (int) id.size, id.start, send_time, receive_time);
}

static void on_message(arrow_t *arrow, pn_delivery_t *delivery) {
  if (arrow->stopping || !pn_delivery_readable(delivery) || pn_delivery_partial(delivery)) return;
  int64_t receive_time = now_nanoseconds() / arrow->options.unit;
  decode_delivery(arrow, delivery);
  print_received(arrow, get_send_time(arrow->message), receive_time);
  pn_delivery_update(delivery, PN_ACCEPTED);
  pn_delivery_settle(delivery);
  pn_link_flow(arrow->link, 1);
  if (++arrow->received == arrow->options.count) stop(arrow);
}

/* ---- Events ------------------------------------------------------------- */

static void open_channel(arrow_t *arrow) {
  pn_connection_t *connection = arrow->driver.connection;
  const char *path = arrow->options.path;
  pn_connection_set_container(connection, arrow->options.id);
  pn_connection_open(connection);
  if (arrow->options.passive) return;
  arrow->session = pn_session(connection);
  pn_session_open(arrow->session);
  arrow->link =
    arrow->options.sender ? pn_sender(arrow->session, path) : pn_receiver(arrow->session, path);
  pn_terminus_t *far =
    arrow->options.sender ? pn_link_target(arrow->link) : pn_link_source(arrow->link);
  pn_terminus_set_address(far, path);
  pn_link_open(arrow->link);
}

static void confirm_link(arrow_t *arrow, pn_link_t *link) {
  if (pn_link_state(link) & PN_LOCAL_UNINIT) {
    pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link));
    pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link));
    pn_link_open(link);
    arrow->link = link;
    arrow->session = pn_link_session(link);
  }
  if (!arrow->options.sender) pn_link_flow(link, (int) arrow->options.credit_window);
}

static void check_condition(arrow_t *arrow, pn_condition_t *condition) {
  if (!condition || !pn_condition_is_set(condition)) return;
  fprintf(stderr, "reference-arrow: %s: %s\n", pn_condition_get_name(condition),
    pn_condition_get_description(condition));
  arrow->failed = true;
}

static void on_remote_close(arrow_t *arrow, pn_condition_t *condition) {
  check_condition(arrow, condition);
  if (arrow->stopping) return;
  const options_t *options = &arrow->options;
  int64_t done = options->sender ? arrow->acknowledged : arrow->received;
  if (options->count ? done < options->count : done < arrow->sent) {
    fprintf(stderr, "reference-arrow: the peer closed after %" PRId64 " messages\n", done);
    arrow->failed = true;
  }
  pn_connection_close(arrow->driver.connection);
  arrow->stopping = true;
}

static void on_delivery(arrow_t *arrow, pn_delivery_t *delivery) {
  if (arrow->options.sender) on_acknowledgement(arrow, delivery);
  else on_message(arrow, delivery);
}

static void on_event(arrow_t *arrow, pn_event_t *event) {
  switch (pn_event_type(event)) {
  case PN_CONNECTION_INIT:
    open_channel(arrow);
    break;
  case PN_SESSION_REMOTE_OPEN:
    if (pn_session_state(pn_event_session(event)) & PN_LOCAL_UNINIT)
      pn_session_open(pn_event_session(event));
    break;
  case PN_LINK_REMOTE_OPEN:
    confirm_link(arrow, pn_event_link(event));
    break;
  case PN_LINK_FLOW:
    if (arrow->options.sender) send_messages(arrow);
    break;
  case PN_DELIVERY:
    on_delivery(arrow, pn_event_delivery(event));
    break;
  case PN_LINK_REMOTE_CLOSE:
    on_remote_close(arrow, pn_link_remote_condition(pn_event_link(event)));
    break;
  case PN_CONNECTION_REMOTE_CLOSE:
    on_remote_close(arrow, pn_connection_remote_condition(pn_event_connection(event)));
    break;
  case PN_TRANSPORT_ERROR:
    check_condition(arrow, pn_transport_condition(pn_event_transport(event)));
    break;
  default:
    break;
  }
}

/* ---- The socket and the loop -------------------------------------------- */

static int listen_once(const struct addrinfo *address) {
  int listener = socket(address->ai_family, address->ai_socktype, 0);
  int on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, address->ai_addr, address->ai_addrlen) || listen(listener, 1))
    die("cannot listen: %s", strerror(errno));
  int socket_ = accept(listener, NULL, NULL);
  close(listener);
  return socket_;
}

static int connect_once(const struct addrinfo *address) {
  int socket_ = socket(address->ai_family, address->ai_socktype, 0);
  if (connect(socket_, address->ai_addr, address->ai_addrlen))
    die("cannot connect: %s", strerror(errno));
  return socket_;
}

static int open_socket(const options_t *options) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_INET};
  struct addrinfo *address;
  int error = getaddrinfo(options->host, options->port, &hints, &address);
  if (error) die("%s:%s: %s", options->host, options->port, gai_strerror(error));
  int socket_ = options->server ? listen_once(address) : connect_once(address);
  freeaddrinfo(address);
  int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(socket_, F_SETFL, fcntl(socket_, F_GETFL) | O_NONBLOCK);
  return socket_;
}

static void dispatch_events(arrow_t *arrow) {
  pn_event_t *event;
  while ((event = pn_connection_driver_next_event(&arrow->driver))) on_event(arrow, event);
}

static void write_output(arrow_t *arrow, int socket_) {
  pn_bytes_t output = pn_connection_driver_write_buffer(&arrow->driver);
  while (output.size > 0) {
    ssize_t written = send(socket_, output.start, output.size, MSG_NOSIGNAL);
    if (written < 0) {
      if (errno != EAGAIN && errno != EINTR) pn_connection_driver_write_close(&arrow->driver);
      return;
    }
    output = pn_connection_driver_write_done(&arrow->driver, (size_t) written);
  }
}

static void read_input(arrow_t *arrow, int socket_) {
  pn_rwbytes_t input = pn_connection_driver_read_buffer(&arrow->driver);
  if (input.size == 0) return;
  ssize_t count = read(socket_, input.start, input.size);
  if (count > 0) pn_connection_driver_read_done(&arrow->driver, (size_t) count);
  else if (count == 0 || (errno != EAGAIN && errno != EINTR))
    pn_connection_driver_read_close(&arrow->driver);
}

/* Nanoseconds until the schedule, the deadline or the engine's heartbeat, or -1. */
static int64_t next_timeout(arrow_t *arrow) {
  int64_t now = now_nanoseconds();
  int64_t heartbeat = pn_transport_tick(arrow->driver.transport, now / 1000000) * 1000000;
  int64_t times[] = {arrow->next_due, arrow->stopping ? 0 : arrow->deadline, heartbeat};
  int64_t next = 0;
  for (int i = 0; i < 3; i++)
    if (times[i] && (!next || times[i] < next)) next = times[i];
  if (!next) return -1;
  return next > now ? next - now : 0;
}

static short wait_for_socket(arrow_t *arrow, int socket_) {
  struct pollfd waited = {.fd = socket_};
  int64_t timeout = next_timeout(arrow);
  if (pn_connection_driver_read_buffer(&arrow->driver).size) waited.events |= POLLIN;
  if (pn_connection_driver_write_buffer(&arrow->driver).size) waited.events |= POLLOUT;
  struct timespec limit = {timeout / NANOSECONDS, timeout % NANOSECONDS};
  ppoll(&waited, 1, timeout < 0 ? NULL : &limit, NULL);
  return waited.revents;
}

static void run(arrow_t *arrow, int socket_) {
  while (!pn_connection_driver_finished(&arrow->driver)) {
    dispatch_events(arrow);
    if (arrow->next_due) send_messages(arrow);
    stop_when_done(arrow);
    write_output(arrow, socket_);
    if (pn_connection_driver_has_event(&arrow->driver)) continue;
    if (pn_connection_driver_finished(&arrow->driver)) break;
    if (wait_for_socket(arrow, socket_) & ~POLLOUT) read_input(arrow, socket_);
  }
}

static void open_driver(arrow_t *arrow) {
  if (pn_connection_driver_init(&arrow->driver, NULL, NULL)) die("out of memory");
  pn_transport_t *transport = arrow->driver.transport;
  if (arrow->options.server) pn_transport_set_server(transport);
  pn_sasl_allowed_mechs(pn_sasl(transport), "ANONYMOUS");
  pn_connection_driver_bind(&arrow->driver);
}

int main(int argc, char **argv) {
  arrow_t arrow = {.options = parse_options(argc, argv)};
  setvbuf(stdout, NULL, _IOFBF, RECORD_BUFFER_SIZE);
  arrow.message = pn_message();
  arrow.body = malloc(arrow.options.body_size + 1);
  arrow.buffer = pn_rwbytes(FIRST_MESSAGE_BUFFER_SIZE, malloc(FIRST_MESSAGE_BUFFER_SIZE));
  if (!arrow.message || !arrow.body || !arrow.buffer.start) die("out of memory");
  memset(arrow.body, 'x', arrow.options.body_size);

  int socket_ = open_socket(&arrow.options);
  open_driver(&arrow);
  if (arrow.options.duration)
    arrow.deadline = now_nanoseconds() + arrow.options.duration * NANOSECONDS;
  run(&arrow, socket_);

  pn_connection_driver_destroy(&arrow.driver);
  close(socket_);
  pn_message_free(arrow.message);
  free(arrow.buffer.start);
  free(arrow.body);
  if (fflush(stdout)) die("cannot write records: %s", strerror(errno));
  return arrow.failed;
}
