/* The clocks of the reference programs. */
#ifndef QUIVER_BENCH_CLOCK_H
#define QUIVER_BENCH_CLOCK_H

#include <sys/resource.h>
#include <time.h>

/* Return the monotonic time in seconds. */
static inline double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double) now.tv_sec + (double) now.tv_nsec * 1e-9;
}

/* Return the CPU time of this process (RUSAGE_SELF) or its ended children in ns. */
static inline double cpu_ns(int who) {
  struct rusage usage;
  getrusage(who, &usage);
  const struct timeval *user = &usage.ru_utime, *kernel = &usage.ru_stime;
  return (double) (user->tv_sec + kernel->tv_sec) * 1e9 +
    (double) (user->tv_usec + kernel->tv_usec) * 1e3;
}

#endif
