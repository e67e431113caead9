/* A spin that pauses while it does not pay. */

#define _GNU_SOURCE
#include "wait.h"

#include <sched.h>

/* About the time to wake a sleeping process. */
#define SPAN INT64_C(30000)
/* A spin that was in vain n times in a row is left out 2^n times, up to 2^10. */
#define MOST_FAILURES 10

int amqp_wait_cpus(void) {
  cpu_set_t set;
  /* More CPUs than the set holds: there are two. */
  if (sched_getaffinity(0, sizeof set, &set) != 0) return CPU_SETSIZE;
  return CPU_COUNT(&set);
}

void amqp_wait_init(amqp_wait_t *wait, bool allowed) {
  *wait = (amqp_wait_t) {.may_spin = allowed && amqp_wait_cpus() > 1};
}

int64_t amqp_wait_span(amqp_wait_t *wait) {
  if (!wait->may_spin) return 0;
  if (wait->pause == 0) return SPAN;
  wait->pause--;
  return 0;
}

void amqp_wait_paid(amqp_wait_t *wait, bool paid) {
  if (paid) {
    wait->failures = 0;
    return;
  }
  if (wait->failures < MOST_FAILURES) wait->failures++;
  wait->pause = UINT64_C(1) << wait->failures;
}

void amqp_wait_gave_way(amqp_wait_t *wait) {
  wait->failures = MOST_FAILURES;
  wait->pause = UINT64_C(1) << MOST_FAILURES;
}

void amqp_wait_yield(void) {
  sched_yield();
}
