/* Syncs that do not end, as on a disk that is very busy.

   Preloaded before the system's library. As long as the file that QUIVER_HELD names exists,
   fsync and fdatasync wait. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static const char *held;

__attribute__((constructor)) static void prepare(void) {
  held = getenv("QUIVER_HELD");
  if (!held) abort();
  *(void **) &real_fsync = dlsym(RTLD_NEXT, "fsync");
  *(void **) &real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
}

static void wait_while_held(void) {
  const struct timespec moment = {0, 1000000};
  while (access(held, F_OK) == 0) nanosleep(&moment, NULL);
}

int fsync(int file) {
  wait_while_held();
  return real_fsync(file);
}

int fdatasync(int file) {
  wait_while_held();
  return real_fdatasync(file);
}
