/* Waiting for a peer that answers at once: poll the socket for a moment before sleeping.
 *
 * Waking a sleeper takes longer than a peer needs for a small window. But a spin takes a CPU, so
 * it is short, needs a second CPU, and is left out for a while after it was in vain. */
#ifndef QUIVER_AMQP_WAIT_H
#define QUIVER_AMQP_WAIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct amqp_wait {
  bool may_spin;
  uint32_t failures; /* in a row */
  uint64_t pause;    /* number of next waits that sleep at once */
} amqp_wait_t;

/* Begin. It spins if `allowed` by the user and if there is a second CPU. */
void amqp_wait_init(amqp_wait_t *wait, bool allowed);

/* Return how long to poll before the next sleep, in ns; 0 to sleep at once. */
int64_t amqp_wait_span(amqp_wait_t *wait);

/* Note whether polling found bytes. */
void amqp_wait_paid(amqp_wait_t *wait, bool paid);

/* Note that a yield gave the CPU to another process for longer than the spin. The kernel would
 * have woken a sleeper in time, so the longest pause begins. */
void amqp_wait_gave_way(amqp_wait_t *wait);

/* Let other processes run, between two polls. */
void amqp_wait_yield(void);

/* Return how many CPUs this process may use. */
int amqp_wait_cpus(void);

#endif
