/* Outgoing deliveries, and our states of deliveries. */

#include "constructors.h"
#include "deliveries_parts.h"

#include <stdlib.h>
#include <string.h>

/* A state's descriptor: a described value, a small ulong, the code. */
#define DESCRIPTOR_SIZE 3

/* ---- Transfers */

amqp_delivery_t *amqp_delivery_begin(amqp_link_deliveries_t *link) {
  amqp_delivery_t *delivery = amqp_delivery_add(link);
  if (delivery) delivery->partial = true;
  return delivery;
}

/* Give a delivery its id and use up credit, before its first frame. */
static bool count_delivery(amqp_delivery_t *delivery) {
  amqp_link_end_t *end = delivery->link->end;
  if (!amqp_delivery_number(delivery, end->session->counts.next_delivery_id)) return false;
  end->session->counts.next_delivery_id++;
  return amqp_sender_send(&end->counts);
}

/* Cut up to `*size` bytes that begin `from` bytes within a part; `*size` counts down. */
static amqp_bytes_t cut_part(amqp_bytes_t part, size_t from, size_t *size) {
  if (from >= part.size) return (amqp_bytes_t) {NULL, 0};
  const size_t length = part.size - from < *size ? part.size - from : *size;
  *size -= length;
  return (amqp_bytes_t) {part.start + from, length};
}

/* Cut `size` bytes that begin `from` bytes within both parts. */
static amqp_parts_t cut(const amqp_parts_t *parts, size_t from, size_t size) {
  amqp_parts_t piece = {.hold = parts->hold};
  piece.lead = cut_part(parts->lead, from, &size);
  piece.rest = cut_part(parts->rest, from > parts->lead.size ? from - parts->lead.size : 0, &size);
  return piece;
}

static uint8_t *put(uint8_t *out, amqp_bytes_t bytes) {
  if (bytes.size) memcpy(out, bytes.start, bytes.size);
  return out + bytes.size;
}

/* A transfer that continues a delivery. */
static amqp_transfer_t next_transfer(const amqp_delivery_t *delivery) {
  return (amqp_transfer_t) {.handle = delivery->link->end->handle[AMQP_OURS], .has_settled = true};
}

static amqp_transfer_t first_transfer(const amqp_delivery_t *delivery, amqp_bytes_t tag) {
  amqp_transfer_t transfer = next_transfer(delivery);
  transfer.has_delivery_id = transfer.has_message_format = true;
  transfer.delivery_id = delivery->id;
  transfer.message_format = delivery->format;
  transfer.tag = tag;
  return transfer;
}

static bool write_frame(amqp_output_t *output, uint16_t channel, const amqp_transfer_t *transfer,
  const amqp_parts_t *parts) {
  const size_t copied = parts->lead.size + (parts->hold ? 0 : parts->rest.size);
  uint8_t *out = amqp_output_room(output, AMQP_FRAME_ROOM + transfer->tag.size + copied);
  if (!out) return false;
  out = put(amqp_write_transfer(out, channel, transfer), parts->lead);
  amqp_output_add(output, parts->hold ? out : put(out, parts->rest));
  return !parts->hold || amqp_output_refer(output, parts->rest, parts->hold);
}

/* Frame bytes; false without memory. */
static bool send_frame(
  amqp_delivery_t *delivery, amqp_transfer_t *transfer, const amqp_parts_t *parts) {
  amqp_deliveries_t *all = delivery->link->all;
  amqp_session_end_t *session = delivery->link->end->session;
  transfer->payload.size = parts->lead.size + parts->rest.size;
  if (!write_frame(&all->plane->output, session->channel[AMQP_OURS], transfer, parts)) {
    all->failed = true;
    return false;
  }
  amqp_session_send(&session->counts);
  delivery->partial = transfer->more;
  delivery->sent_settled |= transfer->settled;
  return true;
}

/* The largest payload of the peer's frames. A frame that continues a delivery has a head of 24
 * bytes at most, so a payload that came in one frame goes out in one if both peers are alike. */
static size_t most_in_frame(const amqp_delivery_t *delivery, size_t tag_size) {
  const amqp_plane_t *plane = delivery->link->all->plane;
  const size_t head = delivery->numbered ? 32 : AMQP_FRAME_ROOM + tag_size;
  return plane->endpoints.opened[AMQP_THEIRS].max_frame_size - head;
}

size_t amqp_delivery_send(
  amqp_delivery_t *delivery, amqp_bytes_t tag, const amqp_parts_t *parts, bool last, bool settled) {
  const size_t total = parts->lead.size + parts->rest.size;
  size_t sent = 0;
  amqp_session_deliveries_catch_up(delivery->link->session);
  while (sent < total || (last && delivery->partial)) {
    if (!amqp_delivery_may_go(delivery)) return sent;
    const size_t most = most_in_frame(delivery, tag.size);
    const size_t size = total - sent < most ? total - sent : most;
    const bool first = !delivery->numbered;
    if (first && !count_delivery(delivery)) {
      delivery->link->all->failed = true;
      return sent;
    }
    amqp_transfer_t transfer = first ? first_transfer(delivery, tag) : next_transfer(delivery);
    transfer.settled = settled;
    transfer.more = !last || sent + size < total;
    const amqp_parts_t piece = cut(parts, sent, size);
    if (!send_frame(delivery, &transfer, &piece)) return sent;
    sent += size;
  }
  return sent;
}

static uint8_t *put_short_uint(uint8_t *out, uint32_t number) {
  if (number > 255) {
    *out = UINT;
    number = __builtin_bswap32(number);
    memcpy(out + 1, &number, sizeof number);
    return out + 1 + sizeof number;
  }
  if (number == 0) {
    *out = UINT0;
    return out + 1;
  }
  out[0] = SMALL_UINT;
  out[1] = (uint8_t) number;
  return out + 2;
}

/* Write the same as amqp_write_transfer for a delivery's only frame: only numbers and the tag, of
 * up to 32 bytes, vary. */
static uint8_t *put_only_transfer(uint8_t *out, const amqp_delivery_t *delivery, amqp_bytes_t tag,
  bool settled, size_t payload_size) {
  const amqp_link_end_t *end = delivery->link->end;
  const uint16_t channel = end->session->channel[AMQP_OURS];
  uint8_t *const frame = out;
  const uint8_t head[] = {AMQP_FRAME_HEADER / 4, 0, (uint8_t) (channel >> 8), (uint8_t) channel, 0,
    SMALL_ULONG, AMQP_CODE_TRANSFER, LIST8};
  memcpy(frame + 4, head, sizeof head);
  uint8_t *const list = frame + 4 + sizeof head;
  list[1] = 6; /* fields */
  out = put_short_uint(list + 2, end->handle[AMQP_OURS]);
  out = put_short_uint(out, delivery->id);
  *out++ = BINARY8;
  *out++ = (uint8_t) tag.size;
  memcpy(out, tag.start, tag.size);
  out += tag.size;
  *out++ = UINT0; /* message-format */
  *out++ = settled ? TRUE_ : FALSE_;
  *out++ = FALSE_; /* more */
  *list = (uint8_t) (out - list - 1);
  const uint32_t size = __builtin_bswap32((uint32_t) ((size_t) (out - frame) + payload_size));
  memcpy(frame, &size, sizeof size);
  return out;
}

amqp_delivery_t *amqp_delivery_send_whole(amqp_link_deliveries_t *link, amqp_bytes_t tag,
  amqp_bytes_t payload, amqp_hold_t *hold, bool settled) {
  amqp_plane_t *plane = link->all->plane;
  const size_t room = AMQP_FRAME_ROOM + tag.size + payload.size;
  /* Aborts that wait for the window go first. */
  if (!amqp_delivery_may_begin(link) || link->session->owed) return NULL;
  if (room > plane->endpoints.opened[AMQP_THEIRS].max_frame_size) return NULL;
  const bool copied = payload.size < AMQP_REFER_FROM;
  uint8_t *out = amqp_output_room(&plane->output, copied ? room : room - payload.size);
  amqp_delivery_t *delivery = out ? amqp_delivery_add(link) : NULL;
  if (!delivery) return NULL;
  if (!count_delivery(delivery)) {
    amqp_delivery_drop(delivery);
    return NULL;
  }
  delivery->sent_settled = settled;
  out = put_only_transfer(out, delivery, tag, settled, payload.size);
  amqp_output_add(&plane->output, copied ? put(out, payload) : out);
  if (!copied && !amqp_output_refer(&plane->output, payload, hold)) link->all->failed = true;
  amqp_session_send(&link->end->session->counts);
  return delivery;
}

/* Send the abort of a delivery whose first frames went out; false if it has to wait. */
static bool send_abort(amqp_delivery_t *delivery) {
  static const amqp_parts_t NOTHING;
  if (!amqp_delivery_may_go(delivery)) return false;
  amqp_transfer_t transfer = next_transfer(delivery);
  transfer.aborted = true;
  send_frame(delivery, &transfer, &NOTHING);
  return true;
}

/* Say whether the peer still gets states of a link's deliveries. Its own detach does not matter:
 * until we answer it, the peer may read them. */
static bool is_attached(const amqp_link_end_t *end) {
  return end->phase[AMQP_OURS] == AMQP_ACTIVE;
}

void amqp_delivery_abort(amqp_delivery_t *delivery) {
  const bool shows = delivery->numbered && delivery->partial && is_attached(delivery->link->end);
  if (shows && !send_abort(delivery)) amqp_delivery_owe(delivery);
  else amqp_delivery_drop(delivery);
}

void amqp_session_deliveries_catch_up(amqp_session_deliveries_t *session) {
  while (session->owed) {
    if (is_attached(session->owed->link->end) && !send_abort(session->owed)) return;
    amqp_delivery_forgive(&session->owed);
  }
}

/* ---- States */

static const uint8_t *bytes_of(const amqp_encoded_state_t *state) {
  return state->many ? state->many : state->few;
}

/* Make room for a state of `size` bytes; NULL without memory. */
static uint8_t *room_for(amqp_encoded_state_t *state, size_t size) {
  free(state->many);
  state->many = size > AMQP_SHORT_STATE ? malloc(size) : NULL;
  if (size > AMQP_SHORT_STATE && !state->many) return NULL;
  state->size = size;
  return state->many ? state->many : state->few;
}

static void say(amqp_delivery_t *delivery, const amqp_state_t *state) {
  uint8_t *out = room_for(&delivery->our_state, AMQP_SHORT_STATE);
  delivery->our_state.size = (size_t) (amqp_write_state(out, state) - out);
}

void amqp_delivery_say(amqp_delivery_t *delivery, enum amqp_code code) {
  say(delivery, &(amqp_state_t) {.code = code});
}

void amqp_delivery_say_modified(amqp_delivery_t *delivery, bool failed, bool undeliverable) {
  say(delivery,
    &(amqp_state_t) {
      .code = AMQP_CODE_MODIFIED, .delivery_failed = failed, .undeliverable_here = undeliverable});
}

void amqp_delivery_say_enlisted(amqp_delivery_t *delivery, const void *id, enum amqp_code outcome) {
  say(delivery,
    &(amqp_state_t) {
      .code = AMQP_CODE_TRANSACTIONAL, .outcome = outcome, .txn_id = {id, AMQP_OWN_TXN_ID}});
}

static uint8_t *put_descriptor(uint8_t *out, enum amqp_code code) {
  *out++ = 0;
  *out++ = SMALL_ULONG;
  *out++ = (uint8_t) code;
  return out;
}

void amqp_delivery_say_declared(amqp_delivery_t *delivery, const void *id) {
  uint8_t *out = room_for(&delivery->our_state, DESCRIPTOR_SIZE + 5 + AMQP_OWN_TXN_ID);
  out = put_descriptor(out, AMQP_CODE_DECLARED);
  *out++ = LIST8;
  *out++ = 1 + 2 + AMQP_OWN_TXN_ID;
  *out++ = 1;
  *out++ = BINARY8;
  *out++ = AMQP_OWN_TXN_ID;
  memcpy(out, id, AMQP_OWN_TXN_ID);
}

static uint8_t *put32(uint8_t *out, uint32_t number) {
  number = __builtin_bswap32(number);
  memcpy(out, &number, sizeof number);
  return out + sizeof number;
}

static uint8_t *put_text(uint8_t *out, uint8_t constructor, const char *text, size_t size) {
  *out++ = constructor;
  out = put32(out, (uint32_t) size);
  memcpy(out, text, size);
  return out + size;
}

/* A list32 with `size` bytes of fields. */
static uint8_t *put_list(uint8_t *out, size_t size, uint32_t count) {
  *out++ = LIST32;
  return put32(put32(out, (uint32_t) size + 4), count);
}

void amqp_delivery_say_rejected(
  amqp_delivery_t *delivery, const void *id, const char *condition, const char *description) {
  const size_t condition_size = strlen(condition);
  const size_t description_size = strlen(description);
  const size_t error = 5 + condition_size + 5 + description_size;
  const size_t rejected = DESCRIPTOR_SIZE + 9 + error;
  const size_t enlisted = 2 + AMQP_OWN_TXN_ID + DESCRIPTOR_SIZE + 9 + rejected;
  uint8_t *out = room_for(&delivery->our_state, DESCRIPTOR_SIZE + 9 + (id ? enlisted : rejected));
  if (!out) {
    if (id) amqp_delivery_say_enlisted(delivery, id, AMQP_CODE_REJECTED);
    else amqp_delivery_say(delivery, AMQP_CODE_REJECTED);
    return;
  }
  if (id) {
    out = put_list(put_descriptor(out, AMQP_CODE_TRANSACTIONAL), enlisted, 2);
    *out++ = BINARY8;
    *out++ = AMQP_OWN_TXN_ID;
    memcpy(out, id, AMQP_OWN_TXN_ID);
    out += AMQP_OWN_TXN_ID;
  }
  out = put_list(put_descriptor(out, AMQP_CODE_REJECTED), rejected, 1);
  out = put_list(put_descriptor(out, AMQP_CODE_ERROR), error, 2);
  out = put_text(out, SYMBOL32, condition, condition_size);
  put_text(out, STRING32, description, description_size);
}

void amqp_delivery_say_as(amqp_delivery_t *delivery, amqp_bytes_t state) {
  uint8_t *out = room_for(&delivery->our_state, state.size);
  if (out) memcpy(out, state.start, state.size);
  else delivery->link->all->failed = true;
}

/* ---- Dispositions */

static void write_disposition(amqp_deliveries_t *all, amqp_session_end_t *session,
  const amqp_encoded_state_t *state, amqp_disposition_t disposition) {
  if (session->phase[AMQP_OURS] != AMQP_ACTIVE) return;
  if (state->size) disposition.state.encoded = (amqp_bytes_t) {bytes_of(state), state->size};
  if (!amqp_plane_answer(all->plane, session, &disposition)) all->failed = true;
}

void amqp_deliveries_tell(amqp_deliveries_t *all) {
  amqp_session_end_t *session = all->session;
  all->session = NULL;
  if (!session) return;
  write_disposition(all, session, &all->outcome,
    (amqp_disposition_t) {
      .role = all->role, .first = all->first, .last = all->last, .settled = true});
}

/* Add an outcome to the run, or begin another one with it. The run of a session ends before our end
 * goes out, and nothing is added later: the session may be freed then. */
static void settle_in_run(amqp_deliveries_t *all, const amqp_link_end_t *end, uint32_t first,
  uint32_t last, const amqp_encoded_state_t *state) {
  if (end->session->phase[AMQP_OURS] != AMQP_ACTIVE) return;
  const bool continues = all->session == end->session && all->role == end->role &&
    first == all->last + 1 && state->size == all->outcome.size &&
    !memcmp(state->few, all->outcome.few, state->size);
  if (!continues) {
    amqp_deliveries_tell(all);
    all->session = end->session;
    all->role = end->role;
    all->first = first;
    all->plain = AMQP_CODE_NONE;
    all->outcome = *state;
  }
  all->last = last;
}

void amqp_deliveries_settle_apart(amqp_deliveries_t *all, const amqp_link_end_t *end,
  uint32_t first, uint32_t last, enum amqp_code code) {
  const amqp_state_t outcome = {.code = code, .delivery_failed = code == AMQP_CODE_MODIFIED};
  amqp_encoded_state_t state = {.many = NULL};
  state.size = (size_t) (amqp_write_state(state.few, &outcome) - state.few);
  settle_in_run(all, end, first, last, &state);
  if (all->session == end->session) all->plain = code;
}

static void tell_alone(const amqp_delivery_t *delivery, bool settled) {
  amqp_deliveries_tell(delivery->link->all);
  write_disposition(delivery->link->all, delivery->link->end->session, &delivery->our_state,
    (amqp_disposition_t) {.role = delivery->link->end->role,
      .first = delivery->id,
      .last = delivery->id,
      .settled = settled});
}

void amqp_delivery_tell(amqp_delivery_t *delivery) {
  if (!delivery->settled_by_peer) tell_alone(delivery, false);
}

void amqp_delivery_settle(amqp_delivery_t *delivery) {
  const bool is_known = delivery->settled_by_peer || delivery->sent_settled;
  if (!is_known && delivery->our_state.many) tell_alone(delivery, true);
  else if (!is_known)
    settle_in_run(
      delivery->link->all, delivery->link->end, delivery->id, delivery->id, &delivery->our_state);
  amqp_delivery_drop(delivery);
}
