/* Waiting for a peer that answers at once: look at the socket for a moment before sleeping.
 *
 * To wake a sleeper takes longer than a peer needs for a small window. But who spins takes a
 * CPU: so only for a moment, only where there are two, and not where it was in vain. */
#ifndef QUIVER_AMQP_WAIT_H
#define QUIVER_AMQP_WAIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct amqp_wait {
  bool may_spin;
  uint32_t failures; /* in a row */
  uint64_t pause;    /* waits that are to sleep at once */
} amqp_wait_t;

/* Spinning is allowed by the user, and there is a CPU beside ours. */
void amqp_wait_init(amqp_wait_t *wait, bool allowed);

/* Return how long to look before the next sleep, in ns; 0 to sleep at once. */
int64_t amqp_wait_span(amqp_wait_t *wait);

/* Say what came of looking for so long. */
void amqp_wait_paid(amqp_wait_t *wait, bool paid);

/* Let others run, between two looks. */
void amqp_wait_yield(void);

/* Return how many CPUs this process may use. */
int amqp_wait_cpus(void);

#endif
