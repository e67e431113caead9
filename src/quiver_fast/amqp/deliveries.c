/* Records of deliveries: their lists, their incoming bytes, and outcomes. */

#include "deliveries_parts.h"

#include <stdlib.h>
#include <string.h>

/* The number of records that are kept for the next deliveries. */
#define SPARES_MAX 262144
#define LEAST_BUCKETS 64
/* Short frames of a delivery share chunks, which grow with its unread bytes within these bounds.
 * So the room that is not used is not larger than the unread bytes or AMQP_LEAST_CHUNK. */
#define LARGEST_SHARED 4096

typedef struct amqp_chunk {
  struct amqp_chunk *next;
  size_t capacity, size; /* in bytes: its room, and the used part of it */
  uint8_t bytes[];
} amqp_chunk_t;

/* ---- Registers */

static amqp_delivery_t **bucket_of(const amqp_register_t *deliveries, uint32_t id) {
  return deliveries->buckets + (id & (deliveries->capacity - 1));
}

static amqp_delivery_t *find(const amqp_register_t *deliveries, uint32_t id) {
  amqp_delivery_t *delivery = *bucket_of(deliveries, id);
  while (delivery && delivery->id != id) delivery = delivery->beside;
  return delivery;
}

static void put(amqp_register_t *deliveries, amqp_delivery_t *delivery) {
  amqp_delivery_t **bucket = bucket_of(deliveries, delivery->id);
  delivery->beside = *bucket;
  *bucket = delivery;
}

static bool grow(amqp_register_t *deliveries) {
  const uint32_t capacity = deliveries->capacity ? deliveries->capacity * 2 : LEAST_BUCKETS;
  amqp_delivery_t **buckets = calloc(capacity, sizeof(amqp_delivery_t *));
  if (!buckets) return false;
  free(deliveries->buckets);
  deliveries->buckets = buckets;
  deliveries->capacity = capacity;
  for (amqp_delivery_t *each = deliveries->oldest; each; each = each->newer) put(deliveries, each);
  return true;
}

static bool enter(amqp_register_t *deliveries, amqp_delivery_t *delivery) {
  if (deliveries->count == deliveries->capacity && !grow(deliveries)) return false;
  put(deliveries, delivery);
  delivery->older = deliveries->newest;
  delivery->newer = NULL;
  if (deliveries->newest) deliveries->newest->newer = delivery;
  else deliveries->oldest = delivery;
  deliveries->newest = delivery;
  deliveries->count++;
  return true;
}

static void leave(amqp_register_t *deliveries, amqp_delivery_t *delivery) {
  amqp_delivery_t **at = bucket_of(deliveries, delivery->id);
  while (*at != delivery) at = &(*at)->beside;
  *at = delivery->beside;
  if (delivery->older) delivery->older->newer = delivery->newer;
  else deliveries->oldest = delivery->newer;
  if (delivery->newer) delivery->newer->older = delivery->older;
  else deliveries->newest = delivery->older;
  deliveries->count--;
}

void amqp_session_deliveries_free(amqp_session_deliveries_t *session) {
  for (int role = 0; role < 2; role++) {
    free(session->registers[role].buckets);
    session->registers[role] = (amqp_register_t) {0};
  }
}

/* ---- Walks */

/* Cut a range to the ids from the oldest delivery to the newest; false if it has none of them. */
static bool clip(const amqp_register_t *deliveries, uint32_t *first, uint32_t *last) {
  /* A range whose end comes before its beginning is empty. */
  if (!deliveries->oldest || (int32_t) (*last - *first) < 0) return false;
  const uint32_t oldest = deliveries->oldest->id;
  const uint32_t span = deliveries->newest->id - oldest;
  uint32_t length = *last - *first;
  if (*first - oldest > span) {
    const uint32_t before = oldest - *first;
    if (before > length) return false;
    *first = oldest;
    length -= before;
  }
  const uint32_t left = span - (*first - oldest);
  *last = *first + (length < left ? length : left);
  return true;
}

void amqp_walk(
  amqp_session_deliveries_t *session, enum amqp_role role, uint32_t first, uint32_t last) {
  const amqp_register_t *deliveries = &session->registers[role];
  const bool any = clip(deliveries, &first, &last);
  session->walk = any ? deliveries->oldest : NULL;
  session->walk_role = role;
  session->walk_first = session->walk_probe = first;
  session->walk_last = last;
  session->walk_begins = true;
}

/* Look for the first delivery of the range by the range's ids, and at the same time by the list:
 * the range may begin with many ids of no delivery, and the list with many deliveries before it. */
bool amqp_walk_seek(amqp_session_deliveries_t *session) {
  if (!session->walk || !session->walk_begins) return true;
  amqp_delivery_t *found = find(&session->registers[session->walk_role], session->walk_probe);
  if (!found && amqp_walk_has(session, session->walk)) found = session->walk;
  session->walk_begins = !found;
  if (found) session->walk = found;
  else session->walk = session->walk_probe == session->walk_last ? NULL : session->walk->newer;
  session->walk_probe++;
  return found;
}

/* ---- Records */

static amqp_delivery_t *new_record(amqp_spares_t *spares) {
  amqp_delivery_t *record = spares->first;
  if (!record) return calloc(1, sizeof *record);
  spares->first = record->next;
  __builtin_prefetch(spares->first);
  spares->count--;
  return record;
}

/* Keep a record for another delivery, cleared except for the bytes of our state. */
static void spare_record(amqp_spares_t *spares, amqp_delivery_t *record) {
  if (record->peer_state_copy) free(record->peer_state_copy);
  if (record->our_state.many) free(record->our_state.many);
  if (spares->count == SPARES_MAX) {
    free(record);
    return;
  }
  memset(record, 0, offsetof(amqp_delivery_t, our_state) + offsetof(amqp_encoded_state_t, few));
  record->next = spares->first;
  spares->first = record;
  spares->count++;
}

void amqp_spares_free(amqp_spares_t *spares) {
  while (spares->first) free(new_record(spares));
}

void amqp_deliveries_free(amqp_deliveries_t *all) {
  free(all->outcome.many);
  all->outcome.many = NULL;
}

static amqp_register_t *register_of(const amqp_link_deliveries_t *link) {
  return &link->session->registers[link->end->role];
}

amqp_delivery_t *amqp_delivery_add(amqp_link_deliveries_t *link) {
  amqp_delivery_t *delivery = new_record(link->all->spares);
  if (!delivery) return NULL;
  delivery->next = NULL;
  delivery->link = link;
  delivery->prev = link->last;
  if (link->last) link->last->next = delivery;
  else link->first = delivery;
  link->last = delivery;
  return delivery;
}

bool amqp_delivery_number(amqp_delivery_t *delivery, uint32_t id) {
  delivery->id = id;
  delivery->numbered = enter(register_of(delivery->link), delivery);
  return delivery->numbered;
}

static void drop_chunk(amqp_delivery_t *delivery) {
  amqp_chunk_t *chunk = delivery->chunk;
  delivery->chunk = chunk->next;
  if (!chunk->next) delivery->last_chunk = NULL;
  free(chunk);
}

static void unread_no_more(amqp_delivery_t *delivery) {
  delivery->link->session->unread -= delivery->pending;
  delivery->pending = delivery->run = 0;
  while (delivery->chunk) drop_chunk(delivery);
}

static void read_no_more(amqp_link_deliveries_t *link, amqp_delivery_t *delivery) {
  amqp_delivery_advance(delivery);
  unread_no_more(delivery);
  if (link->fresh == delivery) link->fresh = NULL;
}

/* Take a delivery out of all lists. */
static inline void unlist(amqp_delivery_t *delivery) {
  amqp_link_deliveries_t *link = delivery->link;
  if (link->end->role == AMQP_RECEIVER) read_no_more(link, delivery);
  if (link->session->walk == delivery) link->session->walk = delivery->newer;
  if (delivery->numbered) leave(register_of(link), delivery);
  if (delivery->prev) delivery->prev->next = delivery->next;
  else link->first = delivery->next;
  if (delivery->next) delivery->next->prev = delivery->prev;
  else link->last = delivery->prev;
}

void amqp_delivery_drop(amqp_delivery_t *delivery) {
  amqp_deliveries_t *all = delivery->link->all;
  unlist(delivery);
  spare_record(all->spares, delivery);
}

void amqp_delivery_owe(amqp_delivery_t *delivery) {
  amqp_session_deliveries_t *session = delivery->link->session;
  unlist(delivery);
  delivery->next = session->owed;
  session->owed = delivery;
}

void amqp_delivery_forgive(amqp_delivery_t **owed) {
  amqp_delivery_t *delivery = *owed;
  *owed = delivery->next;
  spare_record(delivery->link->all->spares, delivery);
}

void amqp_link_deliveries_drop(amqp_link_deliveries_t *link) {
  amqp_delivery_t **owed = &link->session->owed;
  while (link->first) amqp_delivery_drop(link->first);
  while (*owed) {
    if ((*owed)->link == link) amqp_delivery_forgive(owed);
    else owed = &(*owed)->next;
  }
}

/* ---- Incoming bytes */

static void open_arriving(amqp_link_deliveries_t *link, amqp_delivery_t *delivery) {
  if (!link->current) link->current = delivery;
  link->untaken++;
}

static size_t shared_capacity(size_t pending, size_t size) {
  size_t capacity = pending < LARGEST_SHARED ? pending : LARGEST_SHARED;
  if (capacity < AMQP_LEAST_CHUNK) capacity = AMQP_LEAST_CHUNK;
  return size < capacity ? capacity : size;
}

/* Have room for `size` bytes in the last chunk; false without memory. */
static bool make_room(amqp_delivery_t *delivery, size_t size) {
  const amqp_chunk_t *last = delivery->last_chunk;
  if (last && last->capacity - last->size >= size) return true;
  const size_t capacity = delivery->partial ? shared_capacity(delivery->pending, size) : size;
  amqp_chunk_t *chunk = malloc(sizeof *chunk + capacity);
  if (!chunk) return false;
  chunk->next = NULL;
  chunk->capacity = capacity;
  chunk->size = 0;
  if (delivery->last_chunk) delivery->last_chunk->next = chunk;
  else delivery->chunk = chunk;
  delivery->last_chunk = chunk;
  return true;
}

/* Append bytes to the chunks. */
static bool append(amqp_delivery_t *delivery, amqp_bytes_t bytes) {
  if (!make_room(delivery, bytes.size)) return false;
  amqp_chunk_t *last = delivery->last_chunk;
  memcpy(last->bytes + last->size, bytes.start, bytes.size);
  last->size += bytes.size;
  if (last == delivery->chunk) delivery->run += bytes.size;
  delivery->pending += bytes.size;
  return true;
}

/* Append the bytes if others wait already; else leave them in the input for now. */
static bool take_payload(
  amqp_link_deliveries_t *link, amqp_delivery_t *delivery, const amqp_arrival_t *arrival) {
  if (arrival->aborted) {
    unread_no_more(delivery);
    return true;
  }
  if (delivery->pending) {
    if (!append(delivery, arrival->payload)) return false;
  } else {
    delivery->at = arrival->payload.start;
    delivery->run = delivery->pending = arrival->payload.size;
    link->fresh = delivery;
  }
  link->session->unread += arrival->payload.size;
  return true;
}

static bool take_state(amqp_delivery_t *delivery, amqp_bytes_t encoded) {
  amqp_state_t state;
  if (!encoded.start || amqp_read_state(encoded, &state)) return true;
  delivery->code = state.code;
  delivery->peer_state = encoded;
  return amqp_delivery_keep_said(delivery);
}

bool amqp_delivery_arrive(amqp_link_deliveries_t *link, const amqp_arrival_t *arrival) {
  amqp_delivery_t *delivery = link->last;
  link->fresh = NULL;
  if (arrival->first) {
    delivery = amqp_delivery_add(link);
    if (!delivery) return false;
    delivery->format = arrival->message_format;
    open_arriving(link, delivery);
    if (!amqp_delivery_number(delivery, arrival->delivery_id)) {
      amqp_delivery_drop(delivery);
      return false;
    }
  }
  /* The delivery was dropped before its end: nobody reads the rest. */
  if (!delivery || delivery->id != arrival->delivery_id) return true;
  delivery->partial = arrival->more;
  delivery->aborted |= arrival->aborted;
  delivery->settled_by_peer |= arrival->settled || arrival->aborted;
  return take_state(delivery, arrival->state) && take_payload(link, delivery, arrival);
}

bool amqp_delivery_keep(amqp_link_deliveries_t *link) {
  amqp_delivery_t *delivery = link->fresh;
  link->fresh = NULL;
  if (!delivery || delivery->pending == 0) return true;
  const amqp_bytes_t rest = {delivery->at, delivery->pending};
  delivery->pending = delivery->run = 0;
  if (!append(delivery, rest)) return false;
  delivery->at = delivery->chunk->bytes;
  return true;
}

/* Go on to the next chunk at the end of a run. */
static void next_run(amqp_delivery_t *delivery) {
  if (delivery->chunk) drop_chunk(delivery);
  if (!delivery->chunk) return;
  delivery->at = delivery->chunk->bytes;
  delivery->run = delivery->chunk->size;
}

void amqp_delivery_take(amqp_delivery_t *delivery, size_t size) {
  delivery->link->session->unread -= size;
  delivery->pending -= size;
  while (size) {
    const size_t taken = size < delivery->run ? size : delivery->run;
    delivery->at += taken;
    delivery->run -= taken;
    size -= taken;
    if (delivery->run == 0) next_run(delivery);
  }
}

size_t amqp_delivery_read(amqp_delivery_t *delivery, void *out, size_t size) {
  uint8_t *at = out;
  if (size > delivery->pending) size = delivery->pending;
  for (size_t left = size; left;) {
    const size_t taken = left < delivery->run ? left : delivery->run;
    memcpy(at, delivery->at, taken);
    at += taken;
    left -= taken;
    amqp_delivery_take(delivery, taken);
  }
  return size;
}

void amqp_delivery_advance(amqp_delivery_t *delivery) {
  amqp_link_deliveries_t *link = delivery->link;
  if (delivery->taken || link->end->role == AMQP_SENDER) return;
  delivery->taken = true;
  link->untaken--;
  while (link->current && link->current->taken) link->current = link->current->next;
}

bool amqp_delivery_keep_said(amqp_delivery_t *delivery) {
  const amqp_bytes_t state = delivery->peer_state;
  if (state.size == 0 || state.start == delivery->peer_state_copy) return true;
  uint8_t *copy = malloc(state.size);
  if (!copy) return false;
  memcpy(copy, state.start, state.size);
  free(delivery->peer_state_copy);
  delivery->peer_state_copy = copy;
  delivery->peer_state.start = copy;
  return true;
}
