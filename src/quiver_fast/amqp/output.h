/* Outgoing bytes of a connection, in order: frames in a buffer, and references to large payloads.
 *
 * A payload is the memory of its hold, which is released when its bytes are sent. Nothing here
 * limits the unsent bytes; users check amqp_output_waiting. */
#ifndef QUIVER_AMQP_OUTPUT_H
#define QUIVER_AMQP_OUTPUT_H

#include "values.h"

#include <sys/types.h>
#include <sys/uio.h>

/* Payloads below this size are copied, because a reference costs as much. */
#define AMQP_REFER_FROM 4096

/* The owner of a payload: `release` is called when its last user is gone. */
typedef struct amqp_hold {
  uint32_t users;
  void (*release)(struct amqp_hold *hold);
} amqp_hold_t;

/* Instead of a hold: the payload stays until amqp_output_keep copies the rest of it. */
#define AMQP_LENT ((amqp_hold_t *) 1)

/* A payload, and its place among the bytes of the buffer. */
typedef struct amqp_piece {
  uint64_t position;
  amqp_bytes_t rest;
  amqp_hold_t *hold; /* NULL for bytes that outlive the connection */
} amqp_piece_t;

typedef struct amqp_output {
  uint8_t *buffer;
  size_t capacity;
  size_t from, to;   /* the unsent bytes of the buffer */
  uint64_t position; /* of the buffer's first byte, among all bytes that were ever in it */
  amqp_piece_t *pieces;
  size_t piece_capacity; /* of the ring, a power of two */
  size_t first_piece, end_piece;
  size_t pieces_size; /* unsent bytes of the pieces */
} amqp_output_t;

/* The sink of the bytes. Returns how many it took, 0 if it takes no more now, or less for a
 * failure. The other bytes come first in the next call. */
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

/* Return the place for the next `size` bytes, at least one; NULL for lack of memory. They count
 * from amqp_output_add on, which gets their end. */
static inline uint8_t *amqp_output_room(amqp_output_t *output, size_t size) {
  if (output->capacity - output->to < size && !amqp_output_grow(output, size)) return NULL;
  return output->buffer + output->to;
}

static inline void amqp_output_add(amqp_output_t *output, const uint8_t *end) {
  output->to = (size_t) (end - output->buffer);
}

/* Append a payload. A large one is referenced, and `hold->users` grows by one; a small one is
 * copied. False, and nothing is appended, for lack of memory. */
bool amqp_output_refer(amqp_output_t *output, amqp_bytes_t payload, amqp_hold_t *hold);

/* Copy the unsent bytes of a hold's payloads, or of lent ones, before they are freed; false for
 * lack of memory. */
bool amqp_output_keep(amqp_output_t *output, const amqp_hold_t *hold);

/* Give the unsent bytes to the sink. Returns 1 when all are sent, 0 when the sink takes no more
 * now, and the sink's result when it failed. */
int amqp_output_write(amqp_output_t *output, amqp_sink_t sink, void *to);

/* Drop the unsent bytes. */
void amqp_output_clear(amqp_output_t *output);

/* Buffers for the outputs of one thread. The largest is first, because a small one grows again and
 * again. */
typedef struct amqp_buffers {
  struct amqp_buffer *first;
  size_t count;
} amqp_buffers_t;

/* Take a buffer from the pool, if the output has none and the pool has one. */
void amqp_output_take_buffer(amqp_output_t *output, amqp_buffers_t *buffers);

/* Return the buffer to the pool if all is sent. A very large one, or the smallest of too many, is
 * freed. */
void amqp_output_give_buffer(amqp_output_t *output, amqp_buffers_t *buffers);

void amqp_buffers_free(amqp_buffers_t *buffers);

/* Free the buffer if all is sent: for idle connections. */
void amqp_output_trim(amqp_output_t *output);

#endif
