/* Shorter forms of frames and states. */

#include "constructors.h"
#include "fitting.h"
#include "frames_out.h"

/* ---- Fields; every list and text has a size of four bytes */

static uint8_t *put_byte(uint8_t *out, uint8_t byte) {
  *out = byte;
  return out + 1;
}

static uint8_t *put32(uint8_t *out, uint32_t number) {
  number = __builtin_bswap32(number);
  memcpy(out, &number, sizeof number);
  return out + sizeof number;
}

static uint8_t *put_bytes(uint8_t *out, amqp_bytes_t bytes) {
  if (bytes.start) memcpy(out, bytes.start, bytes.size);
  return out + (bytes.start ? bytes.size : 0);
}

static uint8_t *put_any(uint8_t *out, amqp_bytes_t value) {
  return value.start ? put_bytes(out, value) : put_byte(out, NULL_);
}

/* The sizes of a described list's head and of a text's head. */
#define LIST_HEAD 12
#define TEXT_HEAD 5

static uint8_t *put_text(uint8_t *out, uint8_t constructor, amqp_bytes_t text) {
  return put_bytes(put32(put_byte(out, constructor), (uint32_t) text.size), text);
}

/* Begin a described list of `count` fields. */
static uint8_t *begin_list(uint8_t *out, enum amqp_code code, uint32_t count) {
  out = put_byte(put_byte(put_byte(out, 0), SMALL_ULONG), (uint8_t) code);
  return put32(put32(put_byte(out, LIST32), 0), count);
}

/* Write the size of a described list that begins at `list`. */
static uint8_t *end_list(uint8_t *list, uint8_t *out) {
  put32(list + 4, (uint32_t) (out - list - 8));
  return out;
}

/* ---- Errors (part 2.8.14) */

/* Cut a text at a character's boundary (RFC 3629, 3). */
static amqp_bytes_t cut_text(amqp_bytes_t text, size_t most) {
  if (text.size <= most) return text;
  while (most && (text.start[most] & 0xc0) == 0x80) most--;
  return (amqp_bytes_t) {text.start, most};
}

/* Null if not even the condition fits. */
static uint8_t *put_error(
  uint8_t *out, amqp_bytes_t condition, amqp_bytes_t description, size_t most) {
  const size_t least = LIST_HEAD + TEXT_HEAD + condition.size + TEXT_HEAD;
  if (!condition.start || least > most) return put_byte(out, NULL_);
  uint8_t *const list = out;
  out = begin_list(out, AMQP_CODE_ERROR, description.start ? 2 : 1);
  out = put_text(out, SYMBOL32, condition);
  if (description.start) out = put_text(out, STRING32, cut_text(description, most - least));
  return end_list(list, out);
}

/* Write the error of an encoded field. */
static uint8_t *put_error_of(uint8_t *out, amqp_bytes_t error, size_t most) {
  if (!error.start) return put_byte(out, NULL_);
  amqp_reader_t in = amqp_reader(error.start, error.size);
  amqp_read_descriptor(&in);
  amqp_fields_t fields = amqp_read_list(&in);
  const amqp_bytes_t condition = amqp_field_symbol(&fields);
  return put_error(out, condition, amqp_field_string(&fields), most);
}

/* ---- Frames */

static uint8_t *begin_frame(uint8_t *out, const amqp_frame_t *frame) {
  const uint8_t head[] = {
    AMQP_FRAME_HEADER / 4, 0, (uint8_t) (frame->channel >> 8), (uint8_t) frame->channel};
  return put_bytes(put32(out, 0), (amqp_bytes_t) {head, sizeof head});
}

/* Write the fields before the error, and the error: the last field of all three frames. */
static uint8_t *put_ending(
  uint8_t *out, enum amqp_code code, amqp_fields_t fields, const uint8_t *end) {
  const uint32_t before = code == AMQP_CODE_DETACH ? 2 : 0;
  uint8_t *const list = out;
  out = begin_list(out, code, before + 1);
  for (uint32_t i = 0; i < before; i++) out = put_any(out, amqp_field_any(&fields));
  return end_list(list, put_error_of(out, amqp_field_any(&fields), (size_t) (end - out)));
}

/* The fields of an attach (part 2.7.3). */
enum {
  RCV_SETTLE_MODE = 4,
  INITIAL_DELIVERY_COUNT = 9,
};

static uint8_t *put_refusing_attach(uint8_t *out, amqp_fields_t fields) {
  uint8_t *const list = out;
  out = begin_list(out, AMQP_CODE_ATTACH, INITIAL_DELIVERY_COUNT + 1);
  for (uint32_t i = 0; i <= INITIAL_DELIVERY_COUNT; i++) {
    const amqp_bytes_t field = amqp_field_any(&fields);
    const bool kept = i <= RCV_SETTLE_MODE || i == INITIAL_DELIVERY_COUNT;
    out = kept ? put_any(out, field) : put_byte(out, NULL_);
  }
  return end_list(list, out);
}

/* The fields of an open before its properties (part 2.7.1). */
#define BEFORE_PROPERTIES 9

static uint8_t *put_open(uint8_t *out, amqp_fields_t fields) {
  uint8_t *const list = out;
  out = begin_list(out, AMQP_CODE_OPEN, BEFORE_PROPERTIES);
  for (int i = 0; i < BEFORE_PROPERTIES; i++) out = put_any(out, amqp_field_any(&fields));
  return end_list(list, out);
}

uint8_t *amqp_write_shorter(uint8_t *out, const amqp_frame_t *frame, size_t most) {
  const enum amqp_code code = amqp_frame_code(frame);
  amqp_reader_t in = amqp_reader(frame->fields.start, frame->fields.size);
  const amqp_fields_t fields = amqp_read_list(&in);
  uint8_t *const start = out;
  out = begin_frame(out, frame);
  switch (code) {
  case AMQP_CODE_DETACH:
  case AMQP_CODE_END:
  case AMQP_CODE_CLOSE:
    out = put_ending(out, code, fields, start + most);
    break;
  case AMQP_CODE_ATTACH:
    out = put_refusing_attach(out, fields);
    break;
  case AMQP_CODE_OPEN:
    out = put_open(out, fields);
    break;
  default:
    return NULL;
  }
  put32(start, (uint32_t) (out - start));
  return out;
}

/* ---- States */

static uint8_t *put_rejected(uint8_t *out, const amqp_state_t *state, size_t most) {
  uint8_t *const list = out;
  out = begin_list(out, AMQP_CODE_REJECTED, 1);
  return end_list(list, put_error(out, state->condition, state->description, most - LIST_HEAD));
}

uint8_t *amqp_write_shorter_state(uint8_t *out, amqp_bytes_t encoded, size_t most) {
  amqp_state_t state = {.code = AMQP_CODE_NONE};
  amqp_read_state(encoded, &state);
  if (state.code == AMQP_CODE_REJECTED) return put_rejected(out, &state, most);
  return amqp_write_state(out, &state);
}
