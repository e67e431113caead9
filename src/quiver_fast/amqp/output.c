/* Outgoing bytes: a buffer that seldom moves its bytes, and a ring of pieces. */

#include "output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Room for a turn's frames. */
#define LEAST_CAPACITY 16384
#define LEAST_PIECES 8
/* The limits of a pool: buffers for a turn's frames, for as many connections as a busy turn
 * serves. */
#define KEPT_CAPACITY 262144
#define KEPT_COUNT 16
/* Parts of one system call. An even number, because a piece may have bytes before it. */
#define PARTS 64

ssize_t amqp_send(void *to, const struct iovec *parts, int count) {
  const int *fd = to;
  const struct msghdr message = {.msg_iov = (struct iovec *) parts, .msg_iovlen = (size_t) count};
  for (;;) {
    const ssize_t n = sendmsg(*fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) return n;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    if (errno != EINTR) return -1;
  }
}

/* ---- The buffer */

/* Move the unsent bytes to the start of `buffer`. */
static void move_bytes(amqp_output_t *output, uint8_t *buffer) {
  const size_t waiting = output->to - output->from;
  if (waiting) memmove(buffer, output->buffer + output->from, waiting);
  output->position += output->from;
  output->from = 0;
  output->to = waiting;
}

bool amqp_output_grow(amqp_output_t *output, size_t size) {
  const size_t waiting = output->to - output->from;
  /* At most half of the bytes are moved, so that each is moved once on average. */
  if (waiting <= output->capacity / 2 && output->capacity - waiting >= size) {
    move_bytes(output, output->buffer);
    return true;
  }
  size_t capacity = output->capacity ? output->capacity : LEAST_CAPACITY;
  while (capacity - waiting < size) {
    if (capacity > SIZE_MAX / 2) return false;
    capacity *= 2;
  }
  if (capacity == output->capacity) capacity *= 2;
  uint8_t *larger = malloc(capacity);
  if (!larger) return false;
  uint8_t *const old = output->buffer;
  move_bytes(output, larger);
  free(old);
  output->buffer = larger;
  output->capacity = capacity;
  return true;
}

/* The beginning of a buffer in a pool. */
typedef struct amqp_buffer {
  struct amqp_buffer *next;
  size_t capacity;
} amqp_buffer_t;

/* Free all buffers of a pool except the first ones, which are the largest. */
static void free_from(amqp_buffers_t *buffers, size_t kept) {
  amqp_buffer_t **at = &buffers->first;
  for (size_t i = 0; i < kept; i++) at = &(*at)->next;
  amqp_buffer_t *freed = *at;
  *at = NULL;
  buffers->count = kept;
  while (freed) {
    amqp_buffer_t *buffer = freed;
    freed = buffer->next;
    free(buffer);
  }
}

void amqp_output_take_buffer(amqp_output_t *output, amqp_buffers_t *buffers) {
  amqp_buffer_t *taken = buffers->first;
  if (output->buffer || !taken) return;
  buffers->first = taken->next;
  buffers->count--;
  output->capacity = taken->capacity;
  output->buffer = (uint8_t *) taken;
}

void amqp_output_give_buffer(amqp_output_t *output, amqp_buffers_t *buffers) {
  if (!output->buffer || amqp_output_waiting(output)) return;
  if (output->capacity > KEPT_CAPACITY) {
    amqp_output_trim(output);
    return;
  }
  amqp_buffer_t **at = &buffers->first;
  while (*at && (*at)->capacity > output->capacity) at = &(*at)->next;
  amqp_buffer_t *given = (amqp_buffer_t *) (void *) output->buffer;
  *given = (amqp_buffer_t) {*at, output->capacity};
  *at = given;
  output->buffer = NULL;
  output->capacity = 0;
  if (++buffers->count > KEPT_COUNT) free_from(buffers, KEPT_COUNT);
}

void amqp_buffers_free(amqp_buffers_t *buffers) {
  free_from(buffers, 0);
}

static bool copy(amqp_output_t *output, amqp_bytes_t bytes) {
  if (bytes.size == 0) return true;
  uint8_t *room = amqp_output_room(output, bytes.size);
  if (!room) return false;
  memcpy(room, bytes.start, bytes.size);
  amqp_output_add(output, room + bytes.size);
  return true;
}

/* ---- Pieces */

/* Say whether a payload has a count of users. */
static bool counts(const amqp_hold_t *hold) {
  return hold && hold != AMQP_LENT;
}

static amqp_piece_t *piece_at(const amqp_output_t *output, size_t index) {
  return output->pieces + (index & (output->piece_capacity - 1));
}

static bool grow_pieces(amqp_output_t *output) {
  const size_t count = output->end_piece - output->first_piece;
  const size_t capacity = output->piece_capacity ? output->piece_capacity * 2 : LEAST_PIECES;
  amqp_piece_t *larger = malloc(capacity * sizeof *larger);
  if (!larger) return false;
  for (size_t i = 0; i < count; i++) larger[i] = *piece_at(output, output->first_piece + i);
  free(output->pieces);
  output->pieces = larger;
  output->piece_capacity = capacity;
  output->first_piece = 0;
  output->end_piece = count;
  return true;
}

bool amqp_output_refer(amqp_output_t *output, amqp_bytes_t payload, amqp_hold_t *hold) {
  if (payload.size < AMQP_REFER_FROM) return copy(output, payload);
  if (output->end_piece - output->first_piece == output->piece_capacity && !grow_pieces(output))
    return false;
  *piece_at(output, output->end_piece++) =
    (amqp_piece_t) {output->position + output->to, payload, hold};
  output->pieces_size += payload.size;
  if (counts(hold)) hold->users++;
  return true;
}

static void let_go(amqp_hold_t *hold) {
  if (counts(hold) && --hold->users == 0) hold->release(hold);
}

static void drop_first_piece(amqp_output_t *output) {
  let_go(piece_at(output, output->first_piece++)->hold);
}

static void free_copy(amqp_hold_t *hold) {
  free(hold);
}

static bool copy_piece(amqp_piece_t *piece) {
  amqp_hold_t *hold = malloc(sizeof *hold + piece->rest.size);
  if (!hold) return false;
  *hold = (amqp_hold_t) {.users = 1, .release = free_copy};
  memcpy(hold + 1, piece->rest.start, piece->rest.size);
  let_go(piece->hold);
  piece->rest.start = (const uint8_t *) (hold + 1);
  piece->hold = hold;
  return true;
}

bool amqp_output_keep(amqp_output_t *output, const amqp_hold_t *hold) {
  for (size_t i = output->first_piece; i != output->end_piece; i++) {
    amqp_piece_t *piece = piece_at(output, i);
    if (piece->hold == hold && !copy_piece(piece)) return false;
  }
  return true;
}

/* ---- Writing */

/* List the first unsent parts: bytes of the buffer and pieces take turns. */
static int gather(const amqp_output_t *output, struct iovec *parts) {
  int count = 0;
  size_t from = output->from;
  size_t i = output->first_piece;
  for (; i != output->end_piece && count + 2 <= PARTS; i++) {
    const amqp_piece_t *piece = piece_at(output, i);
    const size_t until = (size_t) (piece->position - output->position);
    if (from < until) parts[count++] = (struct iovec) {output->buffer + from, until - from};
    parts[count++] = (struct iovec) {(void *) piece->rest.start, piece->rest.size};
    from = until;
  }
  if (i == output->end_piece && from < output->to && count < PARTS)
    parts[count++] = (struct iovec) {output->buffer + from, output->to - from};
  return count;
}

/* Drop up to `size` bytes of the buffer, as far as no piece comes before them. */
static size_t drop_bytes(amqp_output_t *output, size_t size) {
  size_t until = output->to;
  if (output->first_piece != output->end_piece)
    until = (size_t) (piece_at(output, output->first_piece)->position - output->position);
  const size_t dropped = size < until - output->from ? size : until - output->from;
  output->from += dropped;
  return dropped;
}

/* Drop up to `size` bytes of the first piece, if there is one. */
static size_t drop_piece(amqp_output_t *output, size_t size) {
  if (output->first_piece == output->end_piece) return 0;
  amqp_bytes_t *rest = &piece_at(output, output->first_piece)->rest;
  const size_t dropped = size < rest->size ? size : rest->size;
  rest->start += dropped;
  rest->size -= dropped;
  output->pieces_size -= dropped;
  if (rest->size == 0) drop_first_piece(output);
  return dropped;
}

/* Drop the first `size` unsent bytes. */
static void drop(amqp_output_t *output, size_t size) {
  while (size) {
    size -= drop_bytes(output, size);
    size -= drop_piece(output, size);
  }
  if (amqp_output_waiting(output)) return;
  output->position += output->to;
  output->from = output->to = 0;
}

int amqp_output_write(amqp_output_t *output, amqp_sink_t sink, void *to) {
  struct iovec parts[PARTS];
  while (amqp_output_waiting(output)) {
    const ssize_t n = sink(to, parts, gather(output, parts));
    if (n <= 0) return (int) n;
    drop(output, (size_t) n);
  }
  return 1;
}

void amqp_output_clear(amqp_output_t *output) {
  drop(output, amqp_output_waiting(output));
}

void amqp_output_trim(amqp_output_t *output) {
  if (amqp_output_waiting(output)) return;
  free(output->buffer);
  output->buffer = NULL;
  output->capacity = 0;
}

void amqp_output_free(amqp_output_t *output) {
  amqp_output_clear(output);
  free(output->buffer);
  free(output->pieces);
  *output = (amqp_output_t) {0};
}
