/* Idle time-outs (part 2.4.5), in monotonic nanoseconds.
 *
 * The engine does not see transfers, so it cannot tell which side is idle. */
#ifndef QUIVER_AMQP_TIMERS_H
#define QUIVER_AMQP_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct amqp_timers {
  int64_t patience; /* how long the peer may be silent; 0 for ever */
  int64_t period;   /* how long we may be; 0 for ever */
  int64_t heard;    /* when bytes came last */
  int64_t spoken;   /* when bytes went out last */
} amqp_timers_t;

/* Begin now. `patience_ms` is the time after which we give up a silent peer: our open names
 * half of it, so that a peer that is on time has a margin (part 2.4.5). */
void amqp_timers_init(amqp_timers_t *timers, uint32_t patience_ms, int64_t now);

/* The peer's open named a time-out, in ms; 0 for none. */
void amqp_timers_take_open(amqp_timers_t *timers, uint32_t idle_timeout_ms);

/* Say whether the peer was silent beyond its time. */
bool amqp_timers_is_silent(const amqp_timers_t *timers, int64_t now);

/* Say whether the peer is owed a frame: an empty one, if there is nothing else. */
bool amqp_timers_owes(const amqp_timers_t *timers, int64_t now);

/* Return when one of both will be so, if no byte moves; INT64_MAX for never. */
int64_t amqp_timers_next(const amqp_timers_t *timers);

#endif
