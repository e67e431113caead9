/* Mapped files that another process truncates.
 *
 * An access to a page beyond the end of a file raises SIGBUS, which ends the process. The
 * handler maps a page of zeros there and marks the file as truncated. The reader or writer
 * checks the mark and reports an error; all other files go on. The previous handler gets any
 * other SIGBUS.
 */
#ifndef QUIVER_GUARD_H
#define QUIVER_GUARD_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* One mapped file; `base` is NULL for a free entry. */
typedef struct quiver_guard {
  char *base;
  size_t size;
  /* Odd while the two change: the handler may run in any thread meanwhile. */
  unsigned moves;
  bool cut;
  struct quiver_guard *next;
  struct quiver_guard *next_idle;
} quiver_guard;

static struct {
  pthread_mutex_t lock;
  pthread_once_t once;
  /* All entries ever made: the handler may walk them at any time, so none is freed. */
  quiver_guard *all;
  quiver_guard *idle;
  uintptr_t page;
  struct sigaction before;
} quiver_guards = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* Find the file that has an address, and its end. The acquires keep the order of the loads. */
static quiver_guard *quiver_guard_of(const char *address, const char **end) {
  quiver_guard *guard = __atomic_load_n(&quiver_guards.all, __ATOMIC_ACQUIRE);
  for (; guard; guard = guard->next) {
    const unsigned moves = __atomic_load_n(&guard->moves, __ATOMIC_ACQUIRE);
    const char *base = __atomic_load_n(&guard->base, __ATOMIC_ACQUIRE);
    const size_t size = __atomic_load_n(&guard->size, __ATOMIC_ACQUIRE);
    /* A file that moves is not read meanwhile. */
    if (moves % 2 || moves != __atomic_load_n(&guard->moves, __ATOMIC_RELAXED)) continue;
    if (base && address >= base && address < base + size) {
      *end = base + size;
      return guard;
    }
  }
  return NULL;
}

static void quiver_on_sigbus(int number, siginfo_t *info, void *context) {
  const int kept = errno;
  const char *end;
  quiver_guard *guard = quiver_guard_of((const char *) info->si_addr, &end);
  (void) number;
  (void) context;
  /* An address that an instruction needs aligned, and is not, is our fault and no cut. */
  if (guard && info->si_code != BUS_ADRALN) {
    char *from = (char *) ((uintptr_t) info->si_addr & ~(quiver_guards.page - 1));
    const size_t size = (size_t) (end - from);
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    /* To the end of the mapping: all later bytes are gone too. */
    if (mmap(from, size, PROT_READ | PROT_WRITE, flags, -1, 0) != MAP_FAILED) {
      __atomic_store_n(&guard->cut, true, __ATOMIC_RELEASE);
      errno = kept;
      return;
    }
  }
  /* Not ours: it is raised again, and the previous handler gets it. */
  sigaction(SIGBUS, &quiver_guards.before, NULL);
  errno = kept;
}

static void quiver_watch_sigbus(void) {
  struct sigaction action = {0};
  quiver_guards.page = (uintptr_t) sysconf(_SC_PAGESIZE);
  action.sa_sigaction = quiver_on_sigbus;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &quiver_guards.before);
}

/* Note a new place or size of the mapping; NULL for none. The releases keep the order. */
static void quiver_guard_move(quiver_guard *guard, void *base, size_t size) {
  const unsigned moves = guard->moves;
  __atomic_store_n(&guard->moves, moves + 1, __ATOMIC_RELAXED);
  __atomic_store_n(&guard->base, (char *) base, __ATOMIC_RELEASE);
  __atomic_store_n(&guard->size, size, __ATOMIC_RELEASE);
  __atomic_store_n(&guard->moves, moves + 2, __ATOMIC_RELEASE);
}

/* Guard a mapped file; NULL for lack of memory. */
static quiver_guard *quiver_guard_new(void *base, size_t size) {
  quiver_guard *guard;
  pthread_once(&quiver_guards.once, quiver_watch_sigbus);
  pthread_mutex_lock(&quiver_guards.lock);
  guard = quiver_guards.idle;
  if (guard) {
    quiver_guards.idle = guard->next_idle;
  } else if ((guard = (quiver_guard *) calloc(1, sizeof(*guard)))) {
    guard->next = quiver_guards.all;
    __atomic_store_n(&quiver_guards.all, guard, __ATOMIC_RELEASE);
  }
  if (guard) {
    guard->cut = false;
    quiver_guard_move(guard, base, size);
  }
  pthread_mutex_unlock(&quiver_guards.lock);
  return guard;
}

/* End the guard: the file is unmapped. */
static void quiver_guard_end(quiver_guard *guard) {
  quiver_guard_move(guard, NULL, 0);
  pthread_mutex_lock(&quiver_guards.lock);
  guard->next_idle = quiver_guards.idle;
  quiver_guards.idle = guard;
  pthread_mutex_unlock(&quiver_guards.lock);
}

static bool quiver_guard_cut(const quiver_guard *guard) {
  return __atomic_load_n(&guard->cut, __ATOMIC_ACQUIRE);
}

#endif
