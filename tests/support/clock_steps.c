/* Steps of a process's wall clock, which time synchronisation may make at any moment.

   Preloaded before the system's library. QUIVER_CLOCK names a file of eight bytes, a signed
   number of nanoseconds that is added to the wall clock; who writes to it steps the clock.
   The monotonic clock goes on as it does. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t BILLION = 1000000000;

static int (*real_clock)(clockid_t, struct timespec *);
static const int64_t *step;

__attribute__((constructor)) static void prepare(void) {
  const char *path = getenv("QUIVER_CLOCK");
  const int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  void *shared = mmap(NULL, sizeof(*step), PROT_READ, MAP_SHARED, file, 0);
  if (file < 0 || shared == MAP_FAILED) abort();
  close(file);
  step = shared;
  *(void **) &real_clock = dlsym(RTLD_NEXT, "clock_gettime");
}

static int64_t wall(clockid_t clock) {
  struct timespec now;
  real_clock(clock, &now);
  return now.tv_sec * BILLION + now.tv_nsec + __atomic_load_n(step, __ATOMIC_RELAXED);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE) return real_clock(clock, time);
  const int64_t now = wall(clock);
  *time = (struct timespec) {now / BILLION, now % BILLION};
  return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  const int64_t now = wall(CLOCK_REALTIME);
  (void) zone;
  *time = (struct timeval) {now / BILLION, now % BILLION / 1000};
  return 0;
}

time_t time(time_t *where) {
  const time_t now = wall(CLOCK_REALTIME) / BILLION;
  if (where) *where = now;
  return now;
}
