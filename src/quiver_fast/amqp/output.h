/* Bytes on their way out of a connection, in their order: frames in a buffer, and large payloads
 * where they are.
 *
 * A payload is somebody else's memory: who counts its users is told when its bytes are out.
 * Nothing here limits what waits; users look at amqp_output_waiting. */
#ifndef QUIVER_AMQP_OUTPUT_H
#define QUIVER_AMQP_OUTPUT_H

#include "values.h"

#include <sys/types.h>
#include <sys/uio.h>

/* Payloads below this size are copied: to name one costs as much. */
#define AMQP_REFER_FROM 4096

/* What keeps a payload: `release` is called when its last user is gone. */
typedef struct amqp_hold {
  uint32_t users;
  void (*release)(struct amqp_hold *hold);
} amqp_hold_t;

/* In place of a hold: the payload is there until amqp_output_keep copies what is left of it. */
#define AMQP_LENT ((amqp_hold_t *) 1)

/* A payload, and where it stands among the bytes of the buffer. */
typedef struct amqp_piece {
  uint64_t position;
  amqp_bytes_t rest;
  amqp_hold_t *hold; /* NULL for bytes that outlive the connection */
} amqp_piece_t;

typedef struct amqp_output {
  uint8_t *buffer;
  size_t capacity;
  size_t from, to;   /* the bytes of the buffer that wait */
  uint64_t position; /* of the buffer's first byte, among all that were ever in it */
  amqp_piece_t *pieces;
  size_t piece_capacity; /* of the ring, a power of two */
  size_t first_piece, end_piece;
  size_t pieces_size; /* bytes of the pieces that wait */
} amqp_output_t;

/* Where the bytes go: how many of them were taken, 0 when no more can be now, or less for a
 * failure. Bytes that were not taken come first in the next call. */
typedef ssize_t (*amqp_sink_t)(void *to, const struct iovec *parts, int count);

/* A sink for a socket, whose descriptor `to` points at. It raises no SIGPIPE. */
ssize_t amqp_send(void *to, const struct iovec *parts, int count);

/* An output of zeros is empty and holds no memory. */
void amqp_output_free(amqp_output_t *output);

static inline size_t amqp_output_waiting(const amqp_output_t *output) {
  return output->to - output->from + output->pieces_size;
}

/* Make room for `size` more bytes in the buffer; false for lack of memory. */
bool amqp_output_grow(amqp_output_t *output, size_t size);

/* Return where the next `size` bytes go, at least one; NULL for lack of memory. They count when
 * amqp_output_add says where they end. */
static inline uint8_t *amqp_output_room(amqp_output_t *output, size_t size) {
  if (output->capacity - output->to < size && !amqp_output_grow(output, size)) return NULL;
  return output->buffer + output->to;
}

static inline void amqp_output_add(amqp_output_t *output, const uint8_t *end) {
  output->to = (size_t) (end - output->buffer);
}

/* Have a payload follow what waits: by reference, for which its hold gets a user more, or as a
 * copy where it is small. False, and nothing is added, for lack of memory. */
bool amqp_output_refer(amqp_output_t *output, amqp_bytes_t payload, amqp_hold_t *hold);

/* Copy what waits of the payloads that a hold keeps, or of those that are lent, before their bytes
 * go away; false for lack of memory. */
bool amqp_output_keep(amqp_output_t *output, const amqp_hold_t *hold);

/* Give the sink what waits. Returns 1 when nothing is left, 0 when the sink takes no more now,
 * and what the sink returned when it failed. */
int amqp_output_write(amqp_output_t *output, amqp_sink_t sink, void *to);

/* Drop what waits: nobody takes it any more. */
void amqp_output_clear(amqp_output_t *output);

/* Buffers for outputs that come to have something to write, of one thread. The largest is first:
 * one that is small grows again and again. */
typedef struct amqp_buffers {
  struct amqp_buffer *first;
  size_t count;
} amqp_buffers_t;

/* Take a buffer from the pool, if the output has none and the pool has one. */
void amqp_output_take_buffer(amqp_output_t *output, amqp_buffers_t *buffers);

/* Give the buffer to the pool if nothing waits. A very large one, or the smallest of too many, is
 * freed. */
void amqp_output_give_buffer(amqp_output_t *output, amqp_buffers_t *buffers);

void amqp_buffers_free(amqp_buffers_t *buffers);

/* Give the buffer's memory back if nothing waits: for connections that are idle. */
void amqp_output_trim(amqp_output_t *output);

#endif
