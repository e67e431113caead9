/* Writing frames. */

#include "constructors.h"
#include "frames_out.h"

#include <string.h>

static uint8_t *put32(uint8_t *out, uint32_t number) {
  number = __builtin_bswap32(number);
  memcpy(out, &number, sizeof number);
  return out + sizeof number;
}

static uint8_t *put_byte(uint8_t *out, uint8_t byte) {
  *out = byte;
  return out + 1;
}

static uint8_t *put_bytes(uint8_t *out, amqp_bytes_t bytes) {
  memcpy(out, bytes.start, bytes.size);
  return out + bytes.size;
}

/* ---- Fields */

static uint8_t *put_boolean(uint8_t *out, bool value) {
  return put_byte(out, value ? TRUE_ : FALSE_);
}

static uint8_t *put_uint(uint8_t *out, uint32_t number) {
  if (number == 0) return put_byte(out, UINT0);
  if (number < 256) return put_byte(put_byte(out, SMALL_UINT), (uint8_t) number);
  return put32(put_byte(out, UINT), number);
}

static uint8_t *put_optional_uint(uint8_t *out, bool there, uint32_t number) {
  return there ? put_uint(out, number) : put_byte(out, NULL_);
}

static uint8_t *put_binary8(uint8_t *out, amqp_bytes_t bytes) {
  if (!bytes.start) return put_byte(out, NULL_);
  out = put_byte(put_byte(out, BINARY8), (uint8_t) bytes.size);
  return put_bytes(out, bytes);
}

static uint8_t *put_any(uint8_t *out, amqp_bytes_t value) {
  return value.start ? put_bytes(out, value) : put_byte(out, NULL_);
}

/* ---- A frame with a list. Its sizes are known at its end. */

typedef struct list {
  uint8_t *frame;
  uint8_t *size; /* the place of the list's own size */
  bool wide;
} list_t;

/* Begin a frame of `code`; `extra` bytes come on top of the fields of known size. */
static uint8_t *begin(
  list_t *list, uint8_t *out, uint16_t channel, enum amqp_code code, size_t extra) {
  *list = (list_t) {.frame = out, .wide = extra + AMQP_FRAME_ROOM > 255};
  out += AMQP_FRAME_HEADER;
  out[-4] = AMQP_FRAME_HEADER / 4;
  out[-3] = 0;
  out[-2] = (uint8_t) (channel >> 8);
  out[-1] = (uint8_t) channel;
  out = put_byte(put_byte(put_byte(out, 0), SMALL_ULONG), (uint8_t) code);
  out = put_byte(out, list->wide ? LIST32 : LIST8);
  list->size = out;
  return out + (list->wide ? 8 : 2);
}

static uint8_t *end(const list_t *list, uint8_t *out, uint8_t count, size_t payload) {
  if (list->wide) {
    put32(list->size, (uint32_t) (out - list->size - 4));
    put32(list->size + 4, count);
  } else {
    list->size[0] = (uint8_t) (out - list->size - 1);
    list->size[1] = count;
  }
  put32(list->frame, (uint32_t) ((size_t) (out - list->frame) + payload));
  return out;
}

uint8_t *amqp_write_empty(uint8_t *out) {
  static const uint8_t EMPTY[AMQP_FRAME_HEADER] = {0, 0, 0, 8, 2, 0, 0, 0};
  memcpy(out, EMPTY, sizeof EMPTY);
  return out + sizeof EMPTY;
}

/* Say whether a transfer has fields after `more`. */
static bool has_rare_fields(const amqp_transfer_t *transfer) {
  return transfer->has_rcv_settle_mode || transfer->state.start || transfer->resume ||
    transfer->aborted || transfer->batchable;
}

static uint8_t *put_rare_fields(uint8_t *out, const amqp_transfer_t *transfer) {
  if (transfer->has_rcv_settle_mode)
    out = put_byte(put_byte(out, UBYTE), transfer->rcv_settle_mode);
  else out = put_byte(out, NULL_);
  out = put_any(out, transfer->state);
  out = put_boolean(out, transfer->resume);
  out = put_boolean(out, transfer->aborted);
  return put_boolean(out, transfer->batchable);
}

uint8_t *amqp_write_transfer(uint8_t *out, uint16_t channel, const amqp_transfer_t *transfer) {
  list_t list;
  uint8_t count = 6;
  out = begin(&list, out, channel, AMQP_CODE_TRANSFER, transfer->state.size);
  out = put_uint(out, transfer->handle);
  out = put_optional_uint(out, transfer->has_delivery_id, transfer->delivery_id);
  out = put_binary8(out, transfer->tag);
  out = put_optional_uint(out, transfer->has_message_format, transfer->message_format);
  out = transfer->has_settled ? put_boolean(out, transfer->settled) : put_byte(out, NULL_);
  out = put_boolean(out, transfer->more);
  if (has_rare_fields(transfer)) {
    out = put_rare_fields(out, transfer);
    count = 11;
  }
  return end(&list, out, count, transfer->payload.size);
}

uint8_t *amqp_write_flow(uint8_t *out, uint16_t channel, const amqp_flow_t *flow) {
  list_t list;
  uint8_t count = 4;
  out = begin(&list, out, channel, AMQP_CODE_FLOW, 0);
  out = put_optional_uint(out, flow->has_next_incoming_id, flow->next_incoming_id);
  out = put_uint(out, flow->incoming_window);
  out = put_uint(out, flow->next_outgoing_id);
  out = put_uint(out, flow->outgoing_window);
  if (flow->has_handle || flow->echo) {
    out = put_optional_uint(out, flow->has_handle, flow->handle);
    out = put_optional_uint(out, flow->has_delivery_count, flow->delivery_count);
    out = put_optional_uint(out, flow->has_link_credit, flow->link_credit);
    out = put_optional_uint(out, flow->has_available, flow->available);
    out = put_boolean(out, flow->drain);
    out = put_boolean(out, flow->echo);
    count = 10;
  }
  return end(&list, out, count, 0);
}

uint8_t *amqp_write_disposition(
  uint8_t *out, uint16_t channel, const amqp_disposition_t *disposition) {
  list_t list;
  const bool ranged = disposition->last != disposition->first;
  out = begin(&list, out, channel, AMQP_CODE_DISPOSITION, disposition->state.encoded.size);
  out = put_boolean(out, disposition->role == AMQP_RECEIVER);
  out = put_uint(out, disposition->first);
  out = put_optional_uint(out, ranged, disposition->last);
  out = put_boolean(out, disposition->settled);
  out = put_any(out, disposition->state.encoded);
  out = put_boolean(out, disposition->batchable);
  return end(&list, out, 6, 0);
}

/* ---- States */

static uint8_t *put_descriptor(uint8_t *out, enum amqp_code code) {
  return put_byte(put_byte(put_byte(out, 0), SMALL_ULONG), (uint8_t) code);
}

static uint8_t *put_modified(uint8_t *out, const amqp_state_t *state) {
  out = put_byte(put_byte(put_byte(out, LIST8), 3), 2);
  return put_boolean(put_boolean(out, state->delivery_failed), state->undeliverable_here);
}

static uint8_t *put_transactional(uint8_t *out, const amqp_state_t *state) {
  out = put_byte(out, LIST32);
  uint8_t *const size = out;
  out = put32(out + 4, 2);
  out = put_binary8(out, state->txn_id);
  if (state->outcome) out = put_byte(put_descriptor(out, state->outcome), LIST0);
  else out = put_byte(out, NULL_);
  put32(size, (uint32_t) (out - size - 4));
  return out;
}

uint8_t *amqp_write_state(uint8_t *out, const amqp_state_t *state) {
  out = put_descriptor(out, state->code);
  switch (state->code) {
  case AMQP_CODE_MODIFIED:
    return put_modified(out, state);
  case AMQP_CODE_TRANSACTIONAL:
    return put_transactional(out, state);
  default:
    return put_byte(out, LIST0);
  }
}

/* ---- The default outcome in an engine's attach frame */

/* The place of the source in an attach, and of the default outcome in a source (parts 2.7.3 and
 * 3.5.3). */
#define SOURCE 5
#define DEFAULT_OUTCOME 8

/* Begin a list32 of `count` fields. */
static uint8_t *begin_list(uint8_t *out, uint32_t count) {
  return put32(put32(put_byte(out, LIST32), 0), count);
}

static uint8_t *end_list(uint8_t *list, uint8_t *out) {
  put32(list + 1, (uint32_t) (out - list - 5));
  return out;
}

static uint8_t *put_source(uint8_t *out, amqp_bytes_t source, amqp_bytes_t outcome) {
  amqp_reader_t in = {source.start, source.start + source.size, AMQP_FINE};
  amqp_read_descriptor(&in);
  out = put_bytes(out, (amqp_bytes_t) {source.start, (size_t) (in.at - source.start)});
  amqp_fields_t fields = amqp_read_list(&in);
  const uint32_t count = fields.left > DEFAULT_OUTCOME ? fields.left : DEFAULT_OUTCOME + 1;
  uint8_t *const list = out;
  out = begin_list(out, count);
  for (uint32_t i = 0; i < count; i++) {
    const amqp_bytes_t field = amqp_field_any(&fields);
    out = put_any(out, i == DEFAULT_OUTCOME ? outcome : field);
  }
  return end_list(list, out);
}

uint8_t *amqp_write_attach(uint8_t *out, const amqp_frame_t *frame, amqp_bytes_t outcome) {
  amqp_reader_t in = {frame->fields.start, frame->fields.start + frame->fields.size, AMQP_FINE};
  amqp_fields_t fields = amqp_read_list(&in);
  const uint8_t head[] = {
    AMQP_FRAME_HEADER / 4, 0, (uint8_t) (frame->channel >> 8), (uint8_t) frame->channel};
  uint8_t *const start = out;
  out = put_bytes(put32(out, 0), (amqp_bytes_t) {head, sizeof head});
  out = put_descriptor(out, AMQP_CODE_ATTACH);
  uint8_t *const list = out;
  const uint32_t count = fields.left;
  out = begin_list(out, count);
  for (uint32_t i = 0; i < count; i++) {
    const amqp_bytes_t field = amqp_field_any(&fields);
    out = i == SOURCE && field.start ? put_source(out, field, outcome) : put_any(out, field);
  }
  out = end_list(list, out);
  put32(start, (uint32_t) (out - start));
  return out;
}
