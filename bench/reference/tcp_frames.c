/* The physical limit of requests and replies: frames of fixed sizes through loopback TCP.
 *
 *   tcp_frames REQUEST REPLY COUNT WINDOW [RATE]
 *
 * A child process answers every REQUEST bytes with REPLY bytes, in one write for all that
 * one read brought. This process sends COUNT requests, at most WINDOW of them without
 * a reply, by the schedule of RATE per second if there is one. It prints the replies per
 * second and, in microseconds from the intended send times, the 50th, 99th and 99.9th
 * percentile of the round trips.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  BUFFER = 256 * 1024,
  BURST = 256
};

static char input[BUFFER];

static void check(int failed, const char *what) {
  if (!failed) return;
  perror(what);
  exit(1);
}

static long long now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  const long long x = *(const long long *) a, y = *(const long long *) b;
  return (x > y) - (x < y);
}

static void write_all(int fd, const char *bytes, size_t size) {
  while (size > 0) {
    ssize_t written = write(fd, bytes, size);
    check(written < 0, "write");
    bytes += written;
    size -= (size_t) written;
  }
}

static void answer(int fd, size_t request, size_t reply) {
  char *output = calloc(BUFFER / request + 1, reply);
  size_t partial = 0;
  check(!output, "calloc");
  for (ssize_t got; (got = read(fd, input, sizeof input)) > 0;) {
    const size_t there = partial + (size_t) got;
    const size_t whole = there / request;
    partial = there % request;
    write_all(fd, output, whole * reply);
  }
}

struct run {
  int fd;
  size_t request, reply;
  long long count, window, rate, start;
  long long sent, answered, *times;
};

static long long due(const struct run *run, long long i) {
  return run->rate ? run->start + i * 1000000000LL / run->rate : 0;
}

/* Queue what window and schedule allow; return how many bytes of output there are now. */
static size_t produce(struct run *run, size_t pending) {
  const long long now = now_ns();
  for (int i = 0; i < BURST && run->sent < run->count; ++i) {
    if (run->sent - run->answered >= run->window || due(run, run->sent) > now) break;
    run->times[run->sent] = run->rate ? due(run, run->sent) : now;
    ++run->sent;
    pending += run->request;
  }
  return pending;
}

static void take_replies(struct run *run, size_t *partial) {
  const ssize_t got = recv(run->fd, input, sizeof input, MSG_DONTWAIT);
  check(got == 0 || (got < 0 && errno != EAGAIN), "recv");
  if (got < 0) return;
  const long long now = now_ns();
  for (*partial += (size_t) got; *partial >= run->reply; *partial -= run->reply, ++run->answered)
    run->times[run->answered] = now - run->times[run->answered];
}

static void wait_for_peer(const struct run *run, size_t pending) {
  struct pollfd watched = {run->fd, POLLIN | (pending ? POLLOUT : 0), 0};
  const int scheduled = run->rate && run->sent < run->count;
  const long long rest = scheduled ? due(run, run->sent) - now_ns() : 1000000000LL;
  if (rest <= 0 && run->sent - run->answered < run->window) return;
  const struct timespec span = {
    rest > 0 ? rest / 1000000000LL : 1, rest > 0 ? rest % 1000000000LL : 0};
  ppoll(&watched, 1, &span, NULL);
}

static void ask(struct run *run) {
  static char output[BUFFER];
  size_t pending = 0, partial = 0;
  run->start = now_ns();
  while (run->answered < run->count) {
    if (pending + BURST * run->request <= sizeof output) pending = produce(run, pending);
    const ssize_t written = pending ? send(run->fd, output, pending, MSG_DONTWAIT) : 0;
    check(written < 0 && errno != EAGAIN, "send");
    if (written > 0) pending -= (size_t) written;
    const long long before = run->answered;
    take_replies(run, &partial);
    if (run->answered == before) wait_for_peer(run, pending);
  }
}

static void report(struct run *run, double seconds) {
  static const double percents[] = {50, 99, 99.9};
  qsort(run->times, (size_t) run->count, sizeof *run->times, ascending);
  printf("%.0f", (double) run->count / seconds);
  for (int i = 0; i < 3; ++i)
    printf(" %.3f",
      (double) run->times[(long long) (percents[i] / 100 * (double) (run->count - 1))] / 1e3);
  printf("\n");
}

int main(int argc, char **argv) {
  struct run run = {0};
  if (argc == 5 || argc == 6) {
    run.request = strtoull(argv[1], NULL, 10);
    run.reply = strtoull(argv[2], NULL, 10);
    run.count = atoll(argv[3]);
    run.window = atoll(argv[4]);
    run.rate = argc == 6 ? atoll(argv[5]) : 0;
  }
  if (!run.request || run.request > BUFFER / BURST || !run.reply || run.count <= 0 ||
    run.window <= 0 || run.rate < 0) {
    fprintf(stderr, "usage: tcp_frames REQUEST REPLY COUNT WINDOW [RATE] (REQUEST <= %d)\n",
      BUFFER / BURST);
    return 2;
  }
  run.times = calloc((size_t) run.count, sizeof *run.times);
  check(!run.times, "calloc");
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  const int one = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  check(bind(listener, (struct sockaddr *) &address, length), "bind");
  check(listen(listener, 1), "listen");
  check(getsockname(listener, (struct sockaddr *) &address, &length), "getsockname");
  pid_t server = fork();
  check(server < 0, "fork");
  if (server == 0) {
    const int fd = accept(listener, NULL, NULL);
    check(fd < 0, "accept");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    answer(fd, run.request, run.reply);
    return 0;
  }
  run.fd = socket(AF_INET, SOCK_STREAM, 0);
  check(connect(run.fd, (struct sockaddr *) &address, length), "connect");
  setsockopt(run.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  prctl(PR_SET_TIMERSLACK, 1UL);
  ask(&run);
  const double seconds = (double) (now_ns() - run.start) / 1e9;
  close(run.fd);
  int status;
  waitpid(server, &status, 0);
  if (status != 0) return 1;
  report(&run, seconds);
  return 0;
}
