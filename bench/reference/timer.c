/* How late this machine wakes a process that sleeps until each time of a schedule.
 *
 *   timer RATE COUNT      prints the 99th percentile of the lateness in microseconds
 *
 * It does what an open-loop sender must, and nothing else: the physical limit
 * that a schedule's own lateness is compared with, in the same run.
 */

#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

static long long now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static int ascending(const void *a, const void *b) {
  const long long x = *(const long long *) a, y = *(const long long *) b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: timer RATE COUNT\n");
    return 2;
  }
  const long long rate = atoll(argv[1]), count = atoll(argv[2]);
  long long *late = malloc((size_t) count * sizeof(*late));
  if (rate <= 0 || count <= 0 || !late) return 1;
  prctl(PR_SET_TIMERSLACK, 1UL);
  const long long start = now_ns();
  for (long long i = 0; i < count; ++i) {
    const long long due = start + i * 1000000000LL / rate;
    for (long long rest; (rest = due - now_ns()) > 0;) {
      const struct timespec span = {rest / 1000000000LL, rest % 1000000000LL};
      ppoll(NULL, 0, &span, NULL);
    }
    late[i] = now_ns() - due;
  }
  qsort(late, (size_t) count, sizeof(*late), ascending);
  printf("%.3f\n", (double) late[(count * 99 + 99) / 100 - 1] / 1e3);
  free(late);
  return 0;
}
