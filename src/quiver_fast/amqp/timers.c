/* Idle time-outs. */

#include "timers.h"

#define MILLISECOND INT64_C(1000000)

void amqp_timers_init(amqp_timers_t *timers, uint32_t patience_ms, int64_t now) {
  *timers = (amqp_timers_t) {
    .patience = patience_ms * MILLISECOND,
    .heard = now,
    .spoken = now,
  };
}

void amqp_timers_take_open(amqp_timers_t *timers, uint32_t idle_timeout_ms) {
  /* Half of it, because the frame takes time, and so does our loop. */
  timers->period = idle_timeout_ms * MILLISECOND / 2;
}

static int64_t end_of(int64_t since, int64_t span) {
  return span ? since + span : INT64_MAX;
}

bool amqp_timers_is_silent(const amqp_timers_t *timers, int64_t now) {
  return now >= end_of(timers->heard, timers->patience);
}

bool amqp_timers_owes(const amqp_timers_t *timers, int64_t now) {
  return now >= end_of(timers->spoken, timers->period);
}

int64_t amqp_timers_next(const amqp_timers_t *timers) {
  const int64_t silence = end_of(timers->heard, timers->patience);
  const int64_t debt = end_of(timers->spoken, timers->period);
  return silence < debt ? silence : debt;
}
