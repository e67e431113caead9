/* libzmq over loopback TCP, PUSH to PULL: nothing is acknowledged, nothing is settled.
 *
 *   zmq_pair COUNT SIZE
 *
 * A child process pushes COUNT messages of SIZE bytes, this process pulls them and looks
 * at the number in each. It prints the messages per second from the first to the last,
 * and the CPU time of pusher and puller in ns per message.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "clock.h"

enum {
  ENDPOINT = 64
};

static void check(int failed, const char *what) {
  if (!failed) return;
  fprintf(stderr, "zmq_pair: %s: %s\n", what, zmq_strerror(zmq_errno()));
  exit(1);
}

static void *message_of(size_t size) {
  void *message = calloc(1, size);
  check(!message, "calloc");
  return message;
}

static void push(const char *endpoint, int64_t count, size_t size) {
  void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_PUSH);
  char *message = message_of(size);
  check(!socket || zmq_connect(socket, endpoint) != 0, "connect");
  for (int64_t i = 0; i < count; ++i) {
    memcpy(message, &i, sizeof i);
    check(zmq_send(socket, message, size, 0) < 0, "send");
  }
  /* Waits until all is written. */
  zmq_close(socket);
  zmq_ctx_term(context);
  free(message);
}

/* Return the messages per second. */
static double pull(void *socket, int64_t count, size_t size) {
  char *message = message_of(size);
  double begin = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t number;
    const int got = zmq_recv(socket, message, size, 0);
    check(got < 0, "receive");
    memcpy(&number, message, sizeof number);
    if ((size_t) got != size || number != i) {
      fprintf(stderr, "zmq_pair: message %lld is not what was sent\n", (long long) i);
      exit(1);
    }
    if (i == 0) begin = seconds();
  }
  free(message);
  return (double) (count - 1) / (seconds() - begin);
}

int main(int argc, char **argv) {
  const int64_t count = argc == 3 ? atoll(argv[1]) : 0;
  const size_t size = argc == 3 ? strtoull(argv[2], NULL, 10) : 0;
  if (count < 2 || size < sizeof count || size > 1 << 20) {
    fprintf(
      stderr, "usage: zmq_pair COUNT SIZE (2 messages and %zu bytes at least)\n", sizeof count);
    return 2;
  }
  int told[2];
  char endpoint[ENDPOINT];
  size_t length = sizeof endpoint;
  check(pipe(told) != 0, "pipe");
  /* A context has threads: the processes part before there is one. */
  const pid_t pusher = fork();
  check(pusher < 0, "fork");
  if (pusher == 0) {
    check(read(told[0], endpoint, sizeof endpoint) != sizeof endpoint, "endpoint");
    push(endpoint, count, size);
    return 0;
  }
  void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_PULL);
  memset(endpoint, 0, sizeof endpoint);
  check(!socket || zmq_bind(socket, "tcp://127.0.0.1:*") != 0, "bind");
  check(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, endpoint, &length) != 0, "endpoint");
  check(write(told[1], endpoint, sizeof endpoint) != sizeof endpoint, "endpoint");
  const double rate = pull(socket, count, size);
  int status;
  waitpid(pusher, &status, 0);
  if (status != 0) return 1;
  zmq_close(socket);
  zmq_ctx_term(context);
  printf("%.0f %.1f %.1f\n", rate, cpu_ns(RUSAGE_CHILDREN) / (double) count,
    cpu_ns(RUSAGE_SELF) / (double) count);
  return 0;
}
