/* The ring of unsettled deliveries, and runs of outcomes. */

#include "settlement.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *place(const amqp_unsettled_t *unsettled, uint32_t id) {
  return unsettled->waits + (id & (unsettled->capacity - 1));
}

/* Return how many of `count` ids from `id` on lie before the ring's end. */
static uint32_t straight(const amqp_unsettled_t *unsettled, uint32_t id, uint32_t count) {
  const uint32_t row = unsettled->capacity - (id & (unsettled->capacity - 1));
  return count < row ? count : row;
}

bool amqp_unsettled_init(
  amqp_unsettled_t *unsettled, uint32_t first_id, uint32_t capacity, uint32_t limit) {
  *unsettled = (amqp_unsettled_t) {
    .waits = calloc(capacity, 1),
    .capacity = capacity,
    .limit = limit,
    .oldest = first_id,
    .next = first_id,
  };
  return unsettled->waits != NULL;
}

void amqp_unsettled_free(amqp_unsettled_t *unsettled) {
  free(unsettled->waits);
  unsettled->waits = NULL;
}

/* Double the ring. An id's new place is in either half. */
static bool grow(amqp_unsettled_t *unsettled) {
  if (unsettled->capacity >= unsettled->limit) return false;
  amqp_unsettled_t larger = *unsettled;
  larger.capacity *= 2;
  larger.waits = calloc(larger.capacity, 1);
  if (!larger.waits) return false;
  for (uint32_t id = unsettled->oldest; id != unsettled->next; id++)
    *place(&larger, id) = *place(unsettled, id);
  free(unsettled->waits);
  *unsettled = larger;
  return true;
}

/* Begin the ring at its oldest unsettled id. */
static void advance(amqp_unsettled_t *unsettled) {
  while (unsettled->oldest != unsettled->next && !*place(unsettled, unsettled->oldest))
    unsettled->oldest++;
}

bool amqp_unsettled_add(amqp_unsettled_t *unsettled, bool settled) {
  const uint32_t held = unsettled->next - unsettled->oldest;
  if (held == unsettled->capacity && !grow(unsettled)) return false;
  *place(unsettled, unsettled->next++) = !settled;
  if (settled) advance(unsettled);
  return true;
}

uint32_t amqp_unsettled_add_all(amqp_unsettled_t *unsettled, uint32_t count) {
  uint32_t room = unsettled->capacity - (unsettled->next - unsettled->oldest);
  while (room < count && grow(unsettled)) {
    room = unsettled->capacity - (unsettled->next - unsettled->oldest);
  }
  if (count > room) count = room;
  uint32_t left = count;
  while (left) {
    const uint32_t size = straight(unsettled, unsettled->next, left);
    memset(place(unsettled, unsettled->next), 1, size);
    unsettled->next += size;
    left -= size;
  }
  return count;
}

bool amqp_unsettled_clip(const amqp_unsettled_t *unsettled, uint32_t *first, uint32_t *last) {
  const uint32_t held = unsettled->next - unsettled->oldest;
  /* Distances from the oldest id; negative before it. */
  const int32_t from = (int32_t) (*first - unsettled->oldest);
  const int32_t to = (int32_t) (*last - unsettled->oldest);
  if (held == 0 || to < 0 || from > to || (from >= 0 && (uint32_t) from >= held)) return false;
  if (from < 0) *first = unsettled->oldest;
  if ((uint32_t) to >= held) *last = unsettled->next - 1;
  return true;
}

bool amqp_unsettled_settle(amqp_unsettled_t *unsettled, uint32_t id) {
  uint8_t *waits = place(unsettled, id);
  if (!*waits) return false;
  *waits = 0;
  if (id == unsettled->oldest) advance(unsettled);
  return true;
}

uint32_t amqp_unsettled_settle_all(amqp_unsettled_t *unsettled, uint32_t first, uint32_t last) {
  uint32_t waited = 0;
  uint32_t left = last - first + 1;
  for (uint32_t id = first; left;) {
    const uint32_t size = straight(unsettled, id, left);
    uint8_t *waits = place(unsettled, id);
    for (uint32_t i = 0; i < size; i++) waited += waits[i];
    memset(waits, 0, size);
    id += size;
    left -= size;
  }
  if (first == unsettled->oldest) {
    unsettled->oldest = last + 1;
    advance(unsettled);
  }
  return waited;
}

bool amqp_run_add(amqp_run_t *run, uint32_t id, enum amqp_code code, bool settled) {
  if (run->code == AMQP_CODE_NONE) {
    *run = (amqp_run_t) {id, id, code, settled};
    return true;
  }
  if (id != run->last + 1 || code != run->code || settled != run->settled) return false;
  run->last = id;
  return true;
}
