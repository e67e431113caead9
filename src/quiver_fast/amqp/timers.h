/* Idle time-outs (part 2.4.5), in monotonic nanoseconds.
 *
 * The engine does not see transfers, so it cannot tell which side is idle. */
#ifndef QUIVER_AMQP_TIMERS_H
#define QUIVER_AMQP_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct amqp_timers {
  int64_t patience; /* the longest silence of the peer; 0 for no limit */
  int64_t period;   /* our longest silence; 0 for no limit */
  int64_t heard;    /* when bytes came last */
  int64_t spoken;   /* when bytes went out last */
} amqp_timers_t;

/* Begin now. We give up a peer that is silent for `patience_ms`: our open names half of it, so
 * that a correct peer has a margin (part 2.4.5). */
void amqp_timers_init(amqp_timers_t *timers, uint32_t patience_ms, int64_t now);

/* The peer's open named a time-out, in ms; 0 for none. */
void amqp_timers_take_open(amqp_timers_t *timers, uint32_t idle_timeout_ms);

/* Say whether the peer was silent beyond its time. */
bool amqp_timers_is_silent(const amqp_timers_t *timers, int64_t now);

/* Say whether we must send a frame now: an empty one, if there is no other. */
bool amqp_timers_owes(const amqp_timers_t *timers, int64_t now);

/* Return when the first of both comes true, if no byte moves; INT64_MAX for never. */
int64_t amqp_timers_next(const amqp_timers_t *timers);

#endif
