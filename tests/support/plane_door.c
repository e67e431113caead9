/* The data plane for tests in Python: its inline functions, and its events in flat records. */

#include "deliveries.h"
#include "plane.h"
#include "stamp.h"
#include "timers.h"
#include "wait.h"

#include <stdlib.h>
#include <string.h>

typedef struct door_event {
  enum amqp_event kind;
  uint32_t channel, handle; /* the peer's */
  bool has_link;
  uint32_t delivery_id, message_format;
  bool first, more, aborted, settled;
  amqp_bytes_t tag, payload, control;
  enum amqp_role role;
  uint32_t first_id, last_id;
  enum amqp_code code, outcome;
  amqp_bytes_t txn_id;
  enum amqp_extent extent;
  const char *condition;
} door_event_t;

typedef struct door_link {
  enum amqp_role role;
  enum amqp_phase phase[2];
  uint32_t handle[2];
  uint64_t max_message_size[2];
  uint32_t delivery_count, credit;
  bool drain;
} door_link_t;

amqp_plane_t *door_new(uint32_t max_frame_size, uint64_t seed, bool lenient) {
  amqp_plane_t *plane = malloc(sizeof *plane);
  amqp_plane_init(plane, max_frame_size, seed);
  plane->lenient = lenient;
  return plane;
}

void door_hold(amqp_plane_t *plane, bool held) {
  plane->held = held;
}

void door_free(amqp_plane_t *plane) {
  amqp_plane_free(plane);
  free(plane);
}

/* A source of bytes in memory. */
static ssize_t read_bytes(void *from, void *buffer, size_t size) {
  amqp_bytes_t *bytes = from;
  if (size > bytes->size) size = bytes->size;
  memcpy(buffer, bytes->start, size);
  return (ssize_t) size;
}

ssize_t door_fill(amqp_plane_t *plane, const uint8_t *data, size_t size) {
  amqp_bytes_t bytes = {data, size};
  return amqp_plane_fill(plane, read_bytes, &bytes);
}

size_t door_state_room(void) {
  return AMQP_STATE_ROOM;
}

size_t door_capacity(const amqp_plane_t *plane) {
  return plane->input.capacity;
}

void door_next(amqp_plane_t *plane, door_event_t *event) {
  *event = (door_event_t) {.kind = amqp_plane_next(plane)};
  if (event->kind == AMQP_ARRIVAL) {
    const amqp_arrival_t *arrival = &plane->arrival;
    event->delivery_id = arrival->delivery_id;
    event->message_format = arrival->message_format;
    event->first = arrival->first;
    event->more = arrival->more;
    event->aborted = arrival->aborted;
    event->settled = arrival->settled;
    event->tag = arrival->tag;
    event->payload = arrival->payload;
  }
  if (event->kind == AMQP_OUTCOME) {
    event->role = plane->disposition.role;
    event->first_id = plane->disposition.first;
    event->last_id = plane->disposition.last;
    event->settled = plane->disposition.settled;
    event->code = plane->disposition.state.code;
    event->outcome = plane->disposition.state.outcome;
    event->txn_id = plane->disposition.state.txn_id;
  }
  if (event->kind == AMQP_ARRIVAL || event->kind == AMQP_OUTCOME || event->kind == AMQP_CREDIT)
    event->channel = plane->session->channel[AMQP_THEIRS];
  event->has_link = plane->link && (event->kind == AMQP_ARRIVAL || event->kind == AMQP_CREDIT);
  if (event->has_link) event->handle = plane->link->handle[AMQP_THEIRS];
  if (event->kind == AMQP_FOR_ENGINE) event->control = plane->control;
  if (event->kind == AMQP_REFUSED) {
    event->extent = plane->refusal.extent;
    event->condition = plane->refusal.condition;
  }
}

bool door_link(const amqp_plane_t *plane, enum amqp_side side, uint16_t channel, uint32_t handle,
  door_link_t *found) {
  const amqp_link_end_t *link = amqp_endpoints_link(&plane->endpoints, side, channel, handle);
  if (!link) return false;
  *found = (door_link_t) {
    .role = link->role,
    .phase = {link->phase[0], link->phase[1]},
    .handle = {link->handle[0], link->handle[1]},
    .max_message_size = {link->max_message_size[0], link->max_message_size[1]},
    .delivery_count = link->counts.delivery_count,
    .credit = link->counts.credit,
    .drain = link->counts.drain,
  };
  return true;
}

bool door_session(
  const amqp_plane_t *plane, enum amqp_side side, uint16_t channel, amqp_session_t *counts) {
  const amqp_session_end_t *session = amqp_endpoints_session(&plane->endpoints, side, channel);
  if (session) *counts = session->counts;
  return session != NULL;
}

/* How many sessions and links are kept, so that a test sees what is never freed. */
void door_kept(const amqp_plane_t *plane, uint32_t *sessions, uint32_t *links) {
  *sessions = *links = 0;
  for (const amqp_session_end_t *session = plane->endpoints.sessions; session;
    session = session->next) {
    ++*sessions;
    for (const amqp_link_end_t *link = session->links; link; link = link->next) ++*links;
  }
}

bool door_drain(amqp_plane_t *plane, const uint8_t *data, size_t size) {
  return amqp_plane_drain(plane, (amqp_bytes_t) {data, size});
}

bool door_credit(
  amqp_plane_t *plane, uint16_t channel, uint32_t handle, uint32_t more, bool drain) {
  amqp_link_end_t *link = amqp_endpoints_link(&plane->endpoints, AMQP_OURS, channel, handle);
  return link && amqp_plane_credit(plane, link, more, drain);
}

bool door_answer_run(amqp_plane_t *plane, uint16_t channel, uint32_t first, uint32_t last) {
  amqp_run_t run = {first, last, AMQP_CODE_ACCEPTED, true};
  amqp_session_end_t *session = amqp_endpoints_session(&plane->endpoints, AMQP_OURS, channel);
  return amqp_plane_answer_run(plane, session, &run) && run.code == AMQP_CODE_NONE;
}

/* ---- The output by itself */

amqp_output_t *door_output_new(void) {
  return calloc(1, sizeof(amqp_output_t));
}

void door_output_free(amqp_output_t *output) {
  amqp_output_free(output);
  free(output);
}

size_t door_output_waiting(const amqp_output_t *output) {
  return amqp_output_waiting(output);
}

bool door_output_add(amqp_output_t *output, const uint8_t *data, size_t size) {
  uint8_t *room = amqp_output_room(output, size);
  if (!room) return false;
  memcpy(room, data, size);
  amqp_output_add(output, room + size);
  return true;
}

bool door_output_lend(amqp_output_t *output, const uint8_t *data, size_t size) {
  return amqp_output_refer(output, (amqp_bytes_t) {data, size}, AMQP_LENT);
}

bool door_output_refer(amqp_output_t *output, const uint8_t *data, size_t size, amqp_hold_t *hold) {
  return amqp_output_refer(output, (amqp_bytes_t) {data, size}, hold);
}

/* Where the output of a plane is. */
amqp_output_t *door_output(amqp_plane_t *plane) {
  return &plane->output;
}

/* ---- Stamps */

/* Write the stamp of a payload, numbered, at `out`, and return the frame's size. */
size_t door_stamp(uint8_t *out, const uint8_t *payload, size_t size, uint16_t channel,
  uint32_t handle, bool settled, uint32_t delivery_id, uint64_t sequence) {
  amqp_stamp_t stamp;
  uint8_t *memory = malloc(AMQP_STAMP_ROOM + size);
  memcpy(memory + AMQP_STAMP_ROOM, payload, size);
  amqp_stamp_lay(&stamp, memory + AMQP_STAMP_ROOM, size, channel, handle, settled);
  amqp_stamp_number(&stamp, delivery_id, sequence);
  memcpy(out, stamp.frame, stamp.size);
  free(memory);
  return stamp.size;
}

/* ---- Deliveries of one session, with a link each way */

typedef struct door_deliveries {
  amqp_spares_t spares;
  amqp_deliveries_t all;
  amqp_session_deliveries_t session;
  amqp_link_deliveries_t in, out;
  amqp_delivery_t *sending;
  amqp_hold_t *hold; /* of what is sent */
} door_deliveries_t;

typedef struct door_delivery {
  uint32_t id;
  size_t pending;
  bool partial, aborted, settled;
} door_delivery_t;

/* The session is that of our channel 0, whose handle 0 receives and whose handle 1 sends. */
door_deliveries_t *door_deliveries_new(amqp_plane_t *plane) {
  door_deliveries_t *made = calloc(1, sizeof *made);
  made->all.plane = plane;
  made->all.spares = &made->spares;
  made->session.end = amqp_endpoints_session(&plane->endpoints, AMQP_OURS, 0);
  made->in.all = made->out.all = &made->all;
  made->in.session = made->out.session = &made->session;
  made->in.end = amqp_endpoints_link(&plane->endpoints, AMQP_OURS, 0, 0);
  made->out.end = amqp_endpoints_link(&plane->endpoints, AMQP_OURS, 0, 1);
  return made;
}

/* Lend what is sent from now on, instead of having it copied. */
void door_lend(door_deliveries_t *made) {
  made->hold = AMQP_LENT;
}

/* Says whether all bytes that were unread are accounted for. */
bool door_deliveries_free(door_deliveries_t *made) {
  amqp_link_deliveries_drop(&made->in);
  amqp_link_deliveries_drop(&made->out);
  const bool empty = made->session.unread == 0 && !made->session.owed && made->in.untaken == 0 &&
    made->session.registers[0].count == 0 && made->session.registers[1].count == 0;
  amqp_session_deliveries_free(&made->session);
  amqp_deliveries_free(&made->all);
  amqp_spares_free(&made->spares);
  free(made);
  return empty;
}

bool door_arrive(door_deliveries_t *made) {
  return amqp_delivery_arrive(&made->in, &made->all.plane->arrival);
}

bool door_keep(door_deliveries_t *made) {
  return amqp_delivery_keep(&made->in);
}

bool door_current(const door_deliveries_t *made, door_delivery_t *found) {
  const amqp_delivery_t *delivery = made->in.current;
  if (!delivery) return false;
  *found = (door_delivery_t) {delivery->id, delivery->pending, delivery->partial, delivery->aborted,
    delivery->settled_by_peer};
  return true;
}

size_t door_read(door_deliveries_t *made, uint8_t *out, size_t size) {
  return amqp_delivery_read(made->in.current, out, size);
}

void door_advance(door_deliveries_t *made) {
  amqp_delivery_advance(made->in.current);
}

static amqp_delivery_t *find(const amqp_link_deliveries_t *link, uint32_t id) {
  amqp_delivery_t *delivery = link->first;
  while (delivery && delivery->id != id) delivery = delivery->next;
  return delivery;
}

/* Settle a delivery that came, or one that went where `ours`. */
void door_settle(door_deliveries_t *made, uint32_t id, bool ours, enum amqp_code code) {
  amqp_delivery_t *delivery = find(ours ? &made->out : &made->in, id);
  if (code) amqp_delivery_say(delivery, code);
  amqp_delivery_settle(delivery);
}

/* Settle the delivery of the last event, which needs no record, as accepted. */
void door_accept(door_deliveries_t *made) {
  const uint32_t id = made->all.plane->arrival.delivery_id;
  amqp_deliveries_settle(&made->all, made->in.end, id, id, AMQP_CODE_ACCEPTED);
}

void door_tell(door_deliveries_t *made) {
  amqp_deliveries_tell(&made->all);
}

/* Begin a delivery where that is possible, and send bytes of it; returns how many went, or -1
 * where none may begin. */
ssize_t door_send(
  door_deliveries_t *made, const uint8_t *data, size_t first, size_t rest, bool last) {
  static const uint8_t TAG[] = "tag";
  const amqp_parts_t parts = {{data, first}, {data + first, rest}, made->hold};
  if (!made->sending) {
    if (!amqp_delivery_may_begin(&made->out)) return -1;
    made->sending = amqp_delivery_begin(&made->out);
  }
  const size_t sent =
    amqp_delivery_send(made->sending, (amqp_bytes_t) {TAG, 3}, &parts, last, false);
  if (!made->sending->partial) made->sending = NULL;
  return (ssize_t) sent;
}

/* Send all of a delivery in one frame; says whether that was possible. */
bool door_send_whole(door_deliveries_t *made, const uint8_t *data, size_t size, bool settled) {
  static const uint8_t TAG[] = "tag";
  const amqp_bytes_t tag = {TAG, 3}, payload = {data, size};
  return amqp_delivery_send_whole(&made->out, tag, payload, made->hold, settled);
}

void door_abort(door_deliveries_t *made) {
  if (made->sending) amqp_delivery_abort(made->sending);
  made->sending = NULL;
}

void door_catch_up(door_deliveries_t *made) {
  amqp_session_deliveries_catch_up(&made->session);
}

/* Walk over a range, dropping each `step`-th delivery and its follower; returns the ids, and the
 * number of steps. */
uint32_t door_walk(door_deliveries_t *made, bool ours, uint32_t first, uint32_t last, uint32_t step,
  uint32_t *ids, uint32_t *steps) {
  uint32_t count = 0;
  *steps = 0;
  amqp_walk(&made->session, ours ? AMQP_SENDER : AMQP_RECEIVER, first, last);
  while (!amqp_walk_seek(&made->session)) ++*steps;
  for (amqp_delivery_t *each; (each = amqp_walk_next(&made->session)); ++*steps) {
    ids[count++] = each->id;
    if (step == 0 || count % step) continue;
    if (each->newer) amqp_delivery_drop(each->newer);
    amqp_delivery_drop(each);
  }
  return count;
}
