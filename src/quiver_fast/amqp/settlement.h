/* Deliveries that a sender has not settled, and runs of equal outcomes (part 2.7.6).
 *
 * No allocation and no hash per delivery: a ring has one byte for each delivery-id from the
 * oldest unsettled one on, and grows while that one stays unsettled. */
#ifndef QUIVER_AMQP_SETTLEMENT_H
#define QUIVER_AMQP_SETTLEMENT_H

#include "frames.h"

/* ---- Our deliveries */

typedef struct amqp_unsettled {
  uint8_t *waits;    /* by delivery-id: 1 until it is settled */
  uint32_t capacity; /* a power of two */
  uint32_t limit;    /* the largest capacity */
  uint32_t oldest;   /* all ids before it are settled */
  uint32_t next;     /* the id of the next delivery */
} amqp_unsettled_t;

/* Make a ring of `capacity`, a power of two, that may grow to `limit`, another of at most
 * 2^31: ids that are further apart have no order. False for lack of memory. */
bool amqp_unsettled_init(
  amqp_unsettled_t *unsettled, uint32_t first_id, uint32_t capacity, uint32_t limit);
void amqp_unsettled_free(amqp_unsettled_t *unsettled);

/* Note that the next delivery goes out, unsettled or settled at once. False, and nothing is
 * noted, if there is no room: the sender has to wait for dispositions. */
bool amqp_unsettled_add(amqp_unsettled_t *unsettled, bool settled);

/* Note `count` deliveries that go out unsettled. Returns how many of them there is room for. */
uint32_t amqp_unsettled_add_all(amqp_unsettled_t *unsettled, uint32_t count);

/* Cut a range of a disposition down to ids that may be unsettled; false if none is left. Ranges
 * may name ids that were never sent or were settled long ago (part 2.7.6). */
bool amqp_unsettled_clip(const amqp_unsettled_t *unsettled, uint32_t *first, uint32_t *last);

/* Settle an id of a clipped range; false if it was settled already. */
bool amqp_unsettled_settle(amqp_unsettled_t *unsettled, uint32_t id);

/* Settle a clipped range; returns how many of its ids were unsettled. */
uint32_t amqp_unsettled_settle_all(amqp_unsettled_t *unsettled, uint32_t first, uint32_t last);

/* ---- Our outcomes */

typedef struct amqp_run {
  uint32_t first, last;
  enum amqp_code code; /* AMQP_CODE_NONE while the run is empty */
  bool settled;
} amqp_run_t;

/* Add an outcome without fields to a run; false, and nothing is added, if it does not continue
 * the run: then send a disposition for the run, and empty it. */
bool amqp_run_add(amqp_run_t *run, uint32_t id, enum amqp_code code, bool settled);

#endif
