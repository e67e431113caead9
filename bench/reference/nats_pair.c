/* One publisher and one subscriber of core NATS: at most once, nothing is acknowledged.
 *
 *   nats_pair PORT COUNT SIZE
 *
 * A child process publishes COUNT messages of SIZE bytes at the server on PORT, as bursts
 * that one write takes. This process subscribes and looks at the number in each message.
 * It prints the messages per second from the first to the last, and the CPU time of
 * publisher and subscriber in ns per message. All messages together must be larger than
 * what one read takes: a single read has no rate.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

enum {
  BUFFER = 256 * 1024,
  BURST = 64 * 1024,
  HEAD = 64,
  SILENCE = 10 /* seconds after which a message is taken as lost */
};

static const char connect_line[] = "CONNECT {\"verbose\":false,\"pedantic\":false}\r\n";

static void check(int failed, const char *what) {
  if (!failed) return;
  perror(what);
  exit(1);
}

static void refuse(const char *what, int64_t number) {
  fprintf(stderr, "nats_pair: %s, at message %lld\n", what, (long long) number);
  exit(1);
}

static void write_all(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    const ssize_t written = write(fd, bytes, size);
    check(written < 0, "write");
    bytes += written;
    size -= (size_t) written;
  }
}

static void say(int fd, const char *text) {
  write_all(fd, text, strlen(text));
}

/* Read lines one byte at a time until one is this: only before there are messages. */
static void await(int fd, const char *wanted) {
  char line[4096];
  size_t length = 0;
  for (char byte; read(fd, &byte, 1) == 1;) {
    if (length < sizeof line) line[length++] = byte;
    if (byte != '\n') continue;
    if (length >= strlen(wanted) && memcmp(line, wanted, strlen(wanted)) == 0) return;
    length = 0;
  }
  fprintf(stderr, "nats_pair: the server does not say %s\n", wanted);
  exit(1);
}

/* Return a connection that the server has greeted. */
static int greet(uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
  const struct timeval silence = {.tv_sec = SILENCE};
  struct sockaddr_in address = {
    .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
  check(connect(fd, (struct sockaddr *) &address, sizeof address), "connect");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
  await(fd, "INFO");
  say(fd, connect_line);
  return fd;
}

static void publish(int fd, int64_t count, size_t size) {
  char head[HEAD];
  const size_t before = (size_t) snprintf(head, sizeof head, "PUB q %zu\r\n", size);
  const size_t whole = before + size + 2, most = BURST / whole + 1;
  char *burst = calloc(most, whole);
  check(!burst, "calloc");
  for (size_t i = 0; i < most; ++i) {
    memcpy(burst + i * whole, head, before);
    memcpy(burst + (i + 1) * whole - 2, "\r\n", 2);
  }
  for (int64_t i = 0; i < count;) {
    size_t filled = 0;
    for (; filled < most && i < count; ++filled, ++i)
      memcpy(burst + filled * whole + before, &i, sizeof i);
    write_all(fd, burst, filled * whole);
  }
  say(fd, "PING\r\n");
  await(fd, "PONG");
  free(burst);
}

struct subscriber {
  int fd;
  size_t before, whole; /* bytes of a message's head, and of all of it */
  char head[HEAD];
  int64_t taken;
};

/* Take what is whole; return the bytes taken. */
static size_t take(struct subscriber *to, const char *bytes, size_t size) {
  static const char ping[] = "PING\r\n";
  const size_t ping_size = sizeof ping - 1;
  size_t at = 0;
  while (size - at >= ping_size) {
    int64_t number;
    if (memcmp(bytes + at, ping, ping_size) == 0) {
      say(to->fd, "PONG\r\n");
      at += ping_size;
      continue;
    }
    if (size - at < to->whole) break;
    memcpy(&number, bytes + at + to->before, sizeof number);
    if (memcmp(bytes + at, to->head, to->before) != 0 || number != to->taken)
      refuse("something else than what was sent came", to->taken);
    ++to->taken;
    at += to->whole;
  }
  return at;
}

/* Return the messages per second. */
static double subscribe(struct subscriber *to, int64_t count) {
  static char input[BUFFER];
  size_t filled = 0;
  int64_t at_first = 0;
  double begin = 0;
  while (to->taken < count) {
    const ssize_t got = read(to->fd, input + filled, sizeof input - filled);
    if (got <= 0) refuse("the server brings no more", to->taken);
    filled += (size_t) got;
    const size_t used = take(to, input, filled);
    memmove(input, input + used, filled -= used);
    if (begin == 0) {
      begin = seconds();
      at_first = to->taken;
    }
  }
  return (double) (count - at_first) / (seconds() - begin);
}

int main(int argc, char **argv) {
  const long port = argc == 4 ? atol(argv[1]) : 0;
  const int64_t count = argc == 4 ? atoll(argv[2]) : 0;
  const size_t size = argc == 4 ? strtoull(argv[3], NULL, 10) : 0;
  if (port < 1 || port > 65535 || count < 1 || size < sizeof count || size > BUFFER / 2 ||
    (size_t) count <= BUFFER / size) {
    fprintf(stderr, "usage: nats_pair PORT COUNT SIZE (%zu to %d bytes, more than %d in all)\n",
      sizeof count, BUFFER / 2, BUFFER);
    return 2;
  }
  struct subscriber to = {.fd = greet((uint16_t) port)};
  to.before = (size_t) snprintf(to.head, sizeof to.head, "MSG q 1 %zu\r\n", size);
  to.whole = to.before + size + 2;
  say(to.fd, "SUB q 1\r\nPING\r\n");
  await(to.fd, "PONG");
  const pid_t publisher = fork();
  check(publisher < 0, "fork");
  if (publisher == 0) {
    close(to.fd);
    publish(greet((uint16_t) port), count, size);
    return 0;
  }
  const double rate = subscribe(&to, count);
  int status;
  waitpid(publisher, &status, 0);
  if (status != 0) return 1;
  printf("%.0f %.1f %.1f\n", rate, cpu_ns(RUSAGE_CHILDREN) / (double) count,
    cpu_ns(RUSAGE_SELF) / (double) count);
  return 0;
}
