/* Reading frames: every legal encoding, and a shorter way for the common ones. */

#include "constructors.h"
#include "frames.h"

#include <string.h>

static uint32_t number32(const uint8_t *at) {
  uint32_t number;
  memcpy(&number, at, sizeof number);
  return __builtin_bswap32(number);
}

/* ---- The frame's header (part 2.3.1) */

static enum amqp_frame_kind kind_of(enum amqp_code code) {
  switch (code) {
  case AMQP_CODE_TRANSFER:
    return AMQP_FRAME_TRANSFER;
  case AMQP_CODE_FLOW:
    return AMQP_FRAME_FLOW;
  case AMQP_CODE_DISPOSITION:
    return AMQP_FRAME_DISPOSITION;
  default:
    return AMQP_FRAME_CONTROL;
  }
}

static void classify(amqp_frame_t *frame) {
  const uint8_t *end = frame->body.start + frame->body.size;
  amqp_reader_t in = {frame->body.start, end, AMQP_FINE};
  frame->code = amqp_read_descriptor(&in);
  frame->kind = kind_of(frame->code);
  frame->fields = (amqp_bytes_t) {in.at, (size_t) (end - in.at)};
}

enum amqp_fault amqp_read_frame(
  const uint8_t *data, size_t size, uint32_t max_frame_size, amqp_frame_t *frame) {
  *frame = (amqp_frame_t) {.kind = AMQP_FRAME_CONTROL};
  if (size < AMQP_FRAME_HEADER) return AMQP_FINE;
  const uint32_t whole = number32(data);
  const size_t offset = (size_t) data[4] * 4;
  if (whole < AMQP_FRAME_HEADER || whole > max_frame_size) return AMQP_FRAMING_ERROR;
  if (offset < AMQP_FRAME_HEADER || offset > whole) return AMQP_FRAMING_ERROR;
  if (whole > size) return AMQP_FINE;
  frame->size = whole;
  frame->body = (amqp_bytes_t) {data + offset, whole - offset};
  const bool amqp = data[5] == 0;
  if (!amqp) return AMQP_FINE;
  frame->channel = (uint16_t) (data[6] << 8 | data[7]);
  if (frame->body.size == 0) frame->kind = AMQP_FRAME_EMPTY;
  else classify(frame);
  return AMQP_FINE;
}

static amqp_reader_t reader(amqp_bytes_t bytes) {
  return (amqp_reader_t) {bytes.start, bytes.start + bytes.size, AMQP_FINE};
}

/* ---- Transfer */

enum amqp_fault amqp_read_transfer(const amqp_frame_t *frame, amqp_transfer_t *transfer) {
  amqp_reader_t in = reader(frame->fields);
  amqp_fields_t fields = amqp_read_list(&in);
  *transfer = (amqp_transfer_t) {0};
  transfer->handle = amqp_field_mandatory_uint(&fields);
  transfer->delivery_id = amqp_field_optional_uint(&fields, &transfer->has_delivery_id);
  transfer->tag = amqp_field_binary(&fields);
  transfer->message_format = amqp_field_optional_uint(&fields, &transfer->has_message_format);
  transfer->settled = amqp_field_optional_boolean(&fields, &transfer->has_settled);
  transfer->more = amqp_field_boolean(&fields, false);
  transfer->rcv_settle_mode = amqp_field_optional_ubyte(&fields, &transfer->has_rcv_settle_mode);
  transfer->state = amqp_field_any(&fields);
  transfer->resume = amqp_field_boolean(&fields, false);
  transfer->aborted = amqp_field_boolean(&fields, false);
  transfer->batchable = amqp_field_boolean(&fields, false);
  amqp_end_fields(&in, &fields);
  if (in.fault) return in.fault;
  transfer->payload = (amqp_bytes_t) {in.at, (size_t) (in.end - in.at)};
  if (transfer->tag.size > AMQP_TAG_MAX || transfer->rcv_settle_mode > AMQP_SECOND)
    return AMQP_INVALID_FIELD;
  return AMQP_FINE;
}

/* ---- The short way: the encodings that peers use */

/* The size of the fields that it reads: three uints, a tag, two booleans. */
#define SWIFT_FIELDS (3 * 5 + 2 + AMQP_TAG_MAX + 2)

/* Read a uint without a check of the bounds, which the caller has made. */
static const uint8_t *swift_uint(const uint8_t *at, uint32_t *number) {
  switch (*at) {
  case UINT0:
    *number = 0;
    return at + 1;
  case SMALL_UINT:
    *number = at[1];
    return at + 2;
  case UINT:
    *number = number32(at + 1);
    return at + 5;
  default:
    return NULL;
  }
}

static const uint8_t *swift_tag(const uint8_t *at, amqp_bytes_t *tag) {
  if (at[0] != BINARY8 || at[1] > AMQP_TAG_MAX) return NULL;
  *tag = (amqp_bytes_t) {at + 2, at[1]};
  return at + 2 + at[1];
}

/* The header without its size and channel, the descriptor 0x14, and a list8: their bytes from
 * the header's fifth on, as one number. */
#define SWIFT_HEAD UINT64_C(0x02000000005314c0)
#define SWIFT_MASK UINT64_C(0xffff0000ffffffff)
/* The place of the list's size; its end is counted from the byte after. */
#define SWIFT_LIST (AMQP_FRAME_HEADER + 4)

static uint64_t number64(const uint8_t *at) {
  uint64_t number;
  memcpy(&number, at, sizeof number);
  return __builtin_bswap64(number);
}

/* Read the flags at the end of a list: settled, and more. False for other values. */
static bool swift_flags(const uint8_t *at, const uint8_t *list_end, amqp_swift_t *swift) {
  swift->settled = swift->more = false;
  if (at == list_end) return true;
  if (*at != TRUE_ && *at != FALSE_) return false;
  swift->settled = *at++ == TRUE_;
  if (at == list_end) return true;
  if (*at != TRUE_ && *at != FALSE_) return false;
  swift->more = *at++ == TRUE_;
  return at == list_end;
}

bool amqp_read_swift_transfer(
  const uint8_t *data, size_t size, uint32_t max_frame_size, amqp_swift_t *swift) {
  /* The only check of the bounds: the fields below are within these bytes. */
  if (size < SWIFT_LIST + 2 + SWIFT_FIELDS) return false;
  const uint64_t head = number64(data + 4);
  const uint32_t whole = number32(data);
  if ((head & SWIFT_MASK) != SWIFT_HEAD || whole > size || whole > max_frame_size) return false;
  const uint8_t *list_end = data + SWIFT_LIST + 1 + data[SWIFT_LIST];
  const uint8_t count = data[SWIFT_LIST + 1];
  if (count < 4 || count > 6 || list_end > data + whole) return false;
  const uint8_t *at = swift_uint(data + SWIFT_LIST + 2, &swift->handle);
  if (at) at = swift_uint(at, &swift->delivery_id);
  if (at) at = swift_tag(at, &swift->tag);
  if (at) at = swift_uint(at, &swift->message_format);
  /* As many flags as the count says; otherwise a field had another type. */
  if (!at || list_end - at != count - 4 || !swift_flags(at, list_end, swift)) return false;
  swift->size = whole;
  swift->channel = (uint16_t) (head >> 32);
  swift->payload = (amqp_bytes_t) {list_end, (size_t) (data + whole - list_end)};
  return true;
}

/* Mask bytes out of a likeness. */
static void leave_out(uint8_t *mask, size_t from, size_t size) {
  memset(mask + from - 4, 0, size);
}

void amqp_likeness_learn(
  amqp_likeness_t *likeness, const uint8_t *data, const amqp_swift_t *swift) {
  uint8_t mask[sizeof likeness->masks] = {0};
  const size_t payload = (size_t) (swift->payload.start - data);
  const size_t tag = (size_t) (swift->tag.start - data);
  /* The id, then the tag's constructor and size, come before the tag's content. */
  const size_t id = tag - 2 - sizeof(uint32_t);
  likeness->count = 0;
  /* The short way read at least as many bytes as the words have. */
  if (payload - 4 > sizeof mask) return;
  /* An id in a narrower encoding differs here, because its constructor is among the bytes. */
  if (data[id - 1] != UINT || number32(data + id) != swift->delivery_id) return;
  memset(mask, 0xff, payload - 4);
  leave_out(mask, id, sizeof(uint32_t));
  leave_out(mask, tag, swift->tag.size);
  memcpy(likeness->masks, mask, sizeof mask);
  memcpy(likeness->words, data + 4, sizeof likeness->words);
  likeness->count = (uint32_t) ((payload - 4 + 7) / 8);
  likeness->payload = (uint32_t) payload;
  likeness->id = (uint32_t) id;
  likeness->tag = (uint32_t) tag;
  likeness->tag_size = (uint32_t) swift->tag.size;
}

/* ---- Flow */

/* A flow without a handle must have no field of a link (part 2.7.4). */
static bool tells_no_link(const amqp_flow_t *flow) {
  return !flow->has_delivery_count && !flow->has_link_credit && !flow->has_available &&
    !flow->drain;
}

static bool is_txn_id(amqp_bytes_t name) {
  static const char TXN_ID[] = "txn-id";
  const size_t size = sizeof TXN_ID - 1;
  const size_t head = name.size - size;
  return name.size > size && (name.start[0] == SYMBOL8 ? head == 2 : head == 5) &&
    !memcmp(name.start + head, TXN_ID, size);
}

/* Say whether a link's properties name a transaction for its messages (part 4.4.3). */
static bool names_transaction(amqp_bytes_t properties) {
  if (!properties.start) return false;
  const size_t head = properties.start[0] == MAP8 ? 3 : 9;
  if (properties.size < head) return false;
  amqp_reader_t in = {properties.start + head, properties.start + properties.size, AMQP_FINE};
  while (in.at < in.end && !in.fault) {
    if (is_txn_id(amqp_read_value(&in))) return true;
    amqp_read_value(&in);
  }
  return false;
}

enum amqp_fault amqp_read_flow(const amqp_frame_t *frame, amqp_flow_t *flow) {
  amqp_reader_t in = reader(frame->fields);
  amqp_fields_t fields = amqp_read_list(&in);
  flow->next_incoming_id = amqp_field_optional_uint(&fields, &flow->has_next_incoming_id);
  flow->incoming_window = amqp_field_mandatory_uint(&fields);
  flow->next_outgoing_id = amqp_field_mandatory_uint(&fields);
  flow->outgoing_window = amqp_field_mandatory_uint(&fields);
  flow->handle = amqp_field_optional_uint(&fields, &flow->has_handle);
  flow->delivery_count = amqp_field_optional_uint(&fields, &flow->has_delivery_count);
  flow->link_credit = amqp_field_optional_uint(&fields, &flow->has_link_credit);
  flow->available = amqp_field_optional_uint(&fields, &flow->has_available);
  flow->drain = amqp_field_boolean(&fields, false);
  flow->echo = amqp_field_boolean(&fields, false);
  const amqp_bytes_t properties = amqp_field_any(&fields);
  amqp_end_fields(&in, &fields);
  if (in.at != in.end && !in.fault) return AMQP_DECODE_ERROR;
  if (in.fault) return in.fault;
  flow->acquires = names_transaction(properties);
  return flow->has_handle || tells_no_link(flow) ? AMQP_FINE : AMQP_INVALID_FIELD;
}

/* ---- Delivery states */

static void read_error(amqp_bytes_t encoded, amqp_state_t *state, amqp_reader_t *outer) {
  amqp_reader_t in = reader(encoded);
  if (amqp_read_descriptor(&in) != AMQP_CODE_ERROR && !in.fault) in.fault = AMQP_DECODE_ERROR;
  amqp_fields_t fields = amqp_read_list(&in);
  state->condition = amqp_field_symbol(&fields);
  state->description = amqp_field_string(&fields);
  amqp_field_any(&fields); /* info */
  amqp_end_fields(&in, &fields);
  if (!outer->fault) outer->fault = in.fault;
  if (!outer->fault && !state->condition.start) outer->fault = AMQP_INVALID_FIELD;
}

static void read_rejected(amqp_fields_t *fields, amqp_state_t *state) {
  const amqp_bytes_t error = amqp_field_any(fields);
  if (error.start) read_error(error, state, &fields->in);
}

static void read_received(amqp_fields_t *fields, amqp_state_t *state) {
  bool there;
  state->section_number = amqp_field_mandatory_uint(fields);
  state->section_offset = amqp_field_optional_ulong(fields, &there);
  if (!there && !fields->in.fault) fields->in.fault = AMQP_INVALID_FIELD;
}

static void read_modified(amqp_fields_t *fields, amqp_state_t *state) {
  state->delivery_failed = amqp_field_boolean(fields, false);
  state->undeliverable_here = amqp_field_boolean(fields, false);
  state->annotations = amqp_field_any(fields);
}

static void read_txn_id(amqp_fields_t *fields, amqp_state_t *state) {
  state->txn_id = amqp_field_binary(fields);
  if (!state->txn_id.start && !fields->in.fault) fields->in.fault = AMQP_INVALID_FIELD;
}

/* Say whether a descriptor may be that of a state; a flow's is not. */
static bool is_state(enum amqp_code code) {
  return code >= AMQP_CODE_RECEIVED && code != AMQP_CODE_DECLARE && code != AMQP_CODE_DISCHARGE;
}

/* A provisional outcome is an outcome (part 4.5.8): neither received nor transactional. */
static bool is_outcome(enum amqp_code code) {
  return is_state(code) && code != AMQP_CODE_RECEIVED && code != AMQP_CODE_TRANSACTIONAL;
}

static void read_plain_state(amqp_reader_t *in, amqp_state_t *state);

static void read_transactional(amqp_fields_t *fields, amqp_state_t *state) {
  read_txn_id(fields, state);
  const amqp_bytes_t encoded = amqp_field_any(fields);
  if (!encoded.start || fields->in.fault) return;
  amqp_reader_t in = reader(encoded);
  amqp_state_t outcome = *state;
  outcome.code = amqp_read_descriptor(&in);
  if (!in.fault && !is_outcome(outcome.code)) in.fault = AMQP_DECODE_ERROR;
  read_plain_state(&in, &outcome);
  outcome.txn_id = state->txn_id;
  outcome.outcome = outcome.code;
  outcome.code = AMQP_CODE_TRANSACTIONAL;
  *state = outcome;
  if (in.fault) fields->in.fault = in.fault;
}

static void read_state_fields(amqp_fields_t *fields, amqp_state_t *state) {
  switch (state->code) {
  case AMQP_CODE_RECEIVED:
    read_received(fields, state);
    break;
  case AMQP_CODE_REJECTED:
    read_rejected(fields, state);
    break;
  case AMQP_CODE_MODIFIED:
    read_modified(fields, state);
    break;
  case AMQP_CODE_DECLARED:
    read_txn_id(fields, state);
    break;
  case AMQP_CODE_TRANSACTIONAL:
    read_transactional(fields, state);
    break;
  default: /* accepted and released have no fields */
    break;
  }
}

/* Read the fields after the descriptor. */
static void read_plain_state(amqp_reader_t *in, amqp_state_t *state) {
  if (state->code == AMQP_CODE_UNKNOWN) {
    amqp_read_value(in);
    return;
  }
  amqp_fields_t fields = amqp_read_list(in);
  read_state_fields(&fields, state);
  amqp_end_fields(in, &fields);
}

enum amqp_fault amqp_read_state(amqp_bytes_t encoded, amqp_state_t *state) {
  *state = (amqp_state_t) {.encoded = encoded};
  if (!encoded.start) return AMQP_FINE;
  amqp_reader_t in = reader(encoded);
  state->code = amqp_read_descriptor(&in);
  if (in.fault) return in.fault;
  if (!is_state(state->code)) return AMQP_DECODE_ERROR;
  read_plain_state(&in, state);
  return in.fault;
}

/* ---- Disposition */

enum amqp_fault amqp_read_disposition(const amqp_frame_t *frame, amqp_disposition_t *disposition) {
  amqp_reader_t in = reader(frame->fields);
  amqp_fields_t fields = amqp_read_list(&in);
  bool ranged;
  disposition->role = amqp_field_mandatory_boolean(&fields) ? AMQP_RECEIVER : AMQP_SENDER;
  disposition->first = amqp_field_mandatory_uint(&fields);
  disposition->last = amqp_field_optional_uint(&fields, &ranged);
  if (!ranged) disposition->last = disposition->first;
  disposition->settled = amqp_field_boolean(&fields, false);
  const amqp_bytes_t state = amqp_field_any(&fields);
  disposition->batchable = amqp_field_boolean(&fields, false);
  amqp_end_fields(&in, &fields);
  if (in.at != in.end && !in.fault) return AMQP_DECODE_ERROR;
  return in.fault ? in.fault : amqp_read_state(state, &disposition->state);
}
