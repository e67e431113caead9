/* Symbols become numbers. A number is shorter, so the writer never passes the reader. */

#include "symbols.h"

#include "constructors.h"

/* Values of a frame that are nested deeper have no descriptor that the engine knows. */
#define DEPTH 12

/* The names that only the engine reads (parts 3.5, 4.5 and 5.3.3). */
static const struct {
  const char *symbol;
  uint8_t code;
} OTHERS[] = {
  {"amqp:source:list", 0x28},
  {"amqp:target:list", 0x29},
  {"amqp:coordinator:list", 0x30},
  {"amqp:sasl-mechanisms:list", 0x40},
  {"amqp:sasl-init:list", 0x41},
  {"amqp:sasl-challenge:list", 0x42},
  {"amqp:sasl-response:list", 0x43},
  {"amqp:sasl-outcome:list", 0x44},
};

typedef struct rewriting {
  amqp_reader_t in;
  uint8_t *out;
} rewriting_t;

static void put_number(uint8_t *at, size_t width, size_t number) {
  for (size_t i = width; i--; number >>= 8) at[i] = (uint8_t) number;
}

static void put_bytes(rewriting_t *rewriting, amqp_bytes_t bytes) {
  if (bytes.size) memmove(rewriting->out, bytes.start, bytes.size);
  rewriting->out += bytes.size;
}

static void rewrite_value(rewriting_t *rewriting, int depth);

/* Rewrite the items of a list or a map, and its size. */
static void rewrite_items(rewriting_t *rewriting, amqp_bytes_t compound, int depth) {
  const size_t width = *compound.start & 0x10 ? 4 : 1;
  const size_t head = 1 + 2 * width; /* the constructor, the size and the count */
  const uint8_t *const end = rewriting->in.at;
  uint8_t *const size = rewriting->out + 1;
  rewriting->in = amqp_reader(compound.start + head, (size_t) (end - compound.start) - head);
  put_bytes(rewriting, (amqp_bytes_t) {compound.start, head});
  while (rewriting->in.at < rewriting->in.end && !rewriting->in.fault)
    rewrite_value(rewriting, depth - 1);
  put_number(size, width, (size_t) (rewriting->out - size) - width);
}

static bool is_compound(uint8_t constructor) {
  return constructor == LIST8 || constructor == LIST32 || constructor == MAP8 ||
    constructor == MAP32;
}

static void rewrite_plain(rewriting_t *rewriting, int depth) {
  const uint8_t *const end = rewriting->in.end;
  const amqp_bytes_t value = amqp_read_value(&rewriting->in);
  if (!value.size || !depth || !is_compound(*value.start)) {
    put_bytes(rewriting, value);
    return;
  }
  const uint8_t *const behind = rewriting->in.at;
  rewrite_items(rewriting, value, depth);
  const enum amqp_fault fault = rewriting->in.fault;
  rewriting->in = (amqp_reader_t) {behind, end, fault};
}

/* Return the number of the descriptor that comes next; 0 if neither we nor the engine know it. */
static uint8_t code_of(amqp_reader_t in) {
  amqp_reader_t named = amqp_reader(in.at + 1, (size_t) (in.end - in.at) - 1);
  amqp_value_t name;
  const enum amqp_code code = amqp_read_descriptor(&in);
  if (code != AMQP_CODE_UNKNOWN) return (uint8_t) code;
  if (!amqp_read_content(&named, &name)) return 0;
  if (name.constructor != SYMBOL8 && name.constructor != SYMBOL32) return 0;
  for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
    const size_t size = strlen(OTHERS[i].symbol);
    if (size == name.content.size && !memcmp(OTHERS[i].symbol, name.content.start, size))
      return OTHERS[i].code;
  }
  return 0;
}

static void rewrite_value(rewriting_t *rewriting, int depth) {
  amqp_reader_t *in = &rewriting->in;
  if (!depth || in->at == in->end || *in->at != DESCRIBED) {
    rewrite_plain(rewriting, depth);
    return;
  }
  const uint8_t code = code_of(*in);
  in->at++;
  *rewriting->out++ = DESCRIBED;
  if (code) {
    amqp_read_value(in);
    *rewriting->out++ = SMALL_ULONG;
    *rewriting->out++ = code;
  } else {
    rewrite_value(rewriting, depth - 1);
  }
  rewrite_value(rewriting, depth - 1);
}

/* Say whether bytes may have a symbol as a descriptor. */
static bool may_have_symbols(amqp_bytes_t bytes) {
  for (size_t i = 1; i < bytes.size; i++) {
    if (bytes.start[i - 1] == DESCRIBED &&
      (bytes.start[i] == SYMBOL8 || bytes.start[i] == SYMBOL32))
      return true;
  }
  return false;
}

amqp_bytes_t amqp_number_symbols(
  uint8_t *start, const amqp_frame_t *frame, enum amqp_fault *fault) {
  const amqp_bytes_t bytes = {start, frame->size};
  *fault = AMQP_FINE;
  if (!may_have_symbols(frame->body)) return bytes;
  rewriting_t rewriting = {
    amqp_reader(frame->body.start, frame->body.size), start + (frame->body.start - start)};
  rewrite_value(&rewriting, DEPTH);
  *fault = rewriting.in.fault;
  put_bytes(
    &rewriting, (amqp_bytes_t) {rewriting.in.at, (size_t) (rewriting.in.end - rewriting.in.at)});
  const size_t size = (size_t) (rewriting.out - start);
  put_number(start, 4, size);
  return (amqp_bytes_t) {start, size};
}
