/* The workload that the compiler learns the engine's hot paths from.
 *
 * A sending and a receiving engine in one process, joined in memory, used as
 * quiver_fast.engine uses them: no events, the work list, messages sent as
 * bytes, credit in halves, dispositions settled in batches. It runs between the
 * two compilations of a profile-guided build, and is not part of the product.
 */

#include <proton/connection.h>
#include <proton/connection_driver.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <proton/link.h>
#include <proton/object.h>
#include <proton/sasl.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  BURST = 256,
  READ_SIZE = 32768,
  FRAME_SIZE = 65536,
  OUTGOING_LIMIT = 131072
};

typedef struct {
  pn_connection_driver_t driver;
  pn_session_t *session;
  pn_link_t *link;
} endpoint_t;

typedef struct {
  int messages;
  size_t size;
  int window;
  bool presettled;
} workload_t;

static void fail(const char *what) {
  fprintf(stderr, "training: %s\n", what);
  exit(1);
}

static void open_endpoint(endpoint_t *end, bool server, const char *container) {
  memset(end, 0, sizeof(*end));
  if (pn_connection_driver_init(&end->driver, NULL, NULL)) fail("no memory");
  pn_connection_collect(end->driver.connection, NULL);
  if (server) pn_transport_set_server(end->driver.transport);
  pn_sasl_allowed_mechs(pn_sasl(end->driver.transport), "ANONYMOUS");
  pn_transport_set_max_frame(end->driver.transport, FRAME_SIZE);
  pn_connection_set_container(end->driver.connection, container);
  pn_connection_driver_bind(&end->driver);
  pn_connection_open(end->driver.connection);
}

/* Move what one engine wrote into the other, a socket read at a time. */
static void deliver(endpoint_t *from, endpoint_t *to) {
  pn_bytes_t out = pn_connection_driver_write_buffer(&from->driver);
  while (out.size > 0) {
    pn_rwbytes_t in = pn_connection_driver_read_buffer_sized(&to->driver, READ_SIZE);
    if (in.size == 0) in = pn_connection_driver_read_buffer(&to->driver);
    if (in.size == 0) fail("an engine stopped reading");
    size_t n = out.size < in.size ? out.size : in.size;
    memcpy(in.start, out.start, n);
    pn_connection_driver_read_done(&to->driver, n);
    pn_connection_driver_write_done(&from->driver, n);
    out = pn_connection_driver_write_buffer(&from->driver);
  }
}

static void exchange(endpoint_t *a, endpoint_t *b) {
  deliver(a, b);
  deliver(b, a);
}

static void attach(endpoint_t *sender, endpoint_t *receiver) {
  const int fresh = PN_LOCAL_UNINIT | PN_REMOTE_ACTIVE;
  sender->session = pn_session(sender->driver.connection);
  pn_session_open(sender->session);
  sender->link = pn_sender(sender->session, "training");
  pn_terminus_set_address(pn_link_target(sender->link), "training");
  pn_link_open(sender->link);
  for (int i = 0; i < 20 && !receiver->link; ++i) {
    exchange(sender, receiver);
    pn_session_t *session = pn_session_head(receiver->driver.connection, fresh);
    if (session) pn_session_open(session);
    receiver->link = pn_link_head(receiver->driver.connection, fresh);
  }
  if (!receiver->link) fail("no link was attached");
  pn_link_open(receiver->link);
  pn_incref(sender->link);
  pn_incref(receiver->link);
  exchange(receiver, sender);
}

static int send_some(endpoint_t *end, const workload_t *work, const char *message, int *sequence) {
  int sent = 0;
  while (sent < BURST && pn_link_credit(end->link) > 0 &&
    pn_session_outgoing_bytes(end->session) < OUTGOING_LIMIT) {
    ++*sequence;
    char tag[4];
    memcpy(tag, sequence, sizeof(tag));
    pn_delivery_t *delivery = pn_delivery(end->link, pn_dtag(tag, sizeof(tag)));
    pn_link_send(end->link, message, work->size);
    if (work->presettled) pn_delivery_settle(delivery);
    else pn_link_advance(end->link);
    ++sent;
  }
  return sent;
}

static void settle_outcomes(endpoint_t *end) {
  pn_delivery_t *delivery = pn_work_head(end->driver.connection);
  while (delivery) {
    pn_delivery_t *next = pn_work_next(delivery);
    if (pn_delivery_updated(delivery) && pn_delivery_remote_state(delivery) == PN_ACCEPTED) {
      (void) pn_delivery_tag(delivery);
      pn_delivery_settle(delivery);
    }
    delivery = next;
  }
}

static int receive_some(endpoint_t *end, int window, int left) {
  static char buffer[FRAME_SIZE];
  int received = 0;
  pn_delivery_t *delivery;
  while ((delivery = pn_link_current(end->link)) && pn_delivery_readable(delivery)) {
    while (pn_link_recv(end->link, buffer, sizeof(buffer)) > 0) {
    }
    if (pn_delivery_partial(delivery)) break;
    if (!pn_delivery_settled(delivery)) pn_delivery_update(delivery, PN_ACCEPTED);
    pn_delivery_settle(delivery);
    ++received;
  }
  int credit = pn_link_credit(end->link);
  int more = window - credit;
  if (more > left - received - credit) more = left - received - credit;
  if (credit <= window / 2 && more > 0) pn_link_flow(end->link, more);
  return received;
}

static void run(const workload_t *work) {
  endpoint_t sender, receiver;
  int sequence = 0, received = 0;
  char *message = (char *) calloc(1, work->size);
  if (!message) fail("no memory");
  open_endpoint(&sender, false, "sender");
  open_endpoint(&receiver, true, "receiver");
  attach(&sender, &receiver);
  for (int idle = 0; received < work->messages; ++idle) {
    int before = received + sequence;
    received += receive_some(&receiver, work->window, work->messages - received);
    exchange(&receiver, &sender);
    settle_outcomes(&sender);
    send_some(&sender, work, message, &sequence);
    exchange(&sender, &receiver);
    if (received + sequence != before) idle = 0;
    if (idle > 100) fail("nothing moves");
  }
  free(message);
  pn_decref(sender.link);
  pn_decref(receiver.link);
  pn_connection_driver_destroy(&sender.driver);
  pn_connection_driver_destroy(&receiver.driver);
}

int main(void) {
  /* Weighted as the arrow is used: small messages, a window of a thousand. */
  static const workload_t works[] = {
    {300000, 144, 1000, false},
    {30000, 144, 10, false},
    {30000, 144, 1000, true},
    {30000, 1044, 1000, false},
    {5000, 10044, 1000, false},
    {3000, 65580, 100, false},
  };
  for (size_t i = 0; i < sizeof(works) / sizeof(works[0]); ++i) run(&works[i]);
  return 0;
}
