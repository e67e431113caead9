/* Incoming bytes. */

#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LEAST_CAPACITY 65536

ssize_t amqp_receive(void *from, void *buffer, size_t size) {
  const int *fd = from;
  for (;;) {
    const ssize_t n = recv(*fd, buffer, size, MSG_DONTWAIT);
    if (n >= 0) return n;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return AMQP_INPUT_AGAIN;
    if (errno != EINTR) return AMQP_INPUT_FAILED;
  }
}

/* Move the unread bytes to the start of a buffer of at least `capacity`. */
static bool make_room(amqp_input_t *input, size_t capacity) {
  const size_t waiting = input->to - input->from;
  if (waiting) memmove(input->buffer, input->buffer + input->from, waiting);
  input->from = 0;
  input->to = waiting;
  if (input->capacity >= capacity) return true;
  uint8_t *larger = realloc(input->buffer, capacity);
  if (!larger) return false;
  input->buffer = larger;
  input->capacity = capacity;
  return true;
}

ssize_t amqp_input_fill(amqp_input_t *input, size_t frame_size, amqp_source_t source, void *from) {
  /* Room for a frame and the beginning of the next, so that not every read moves bytes. */
  const size_t capacity = frame_size > LEAST_CAPACITY / 2 ? frame_size * 2 : LEAST_CAPACITY;
  if (input->from == input->to) input->from = input->to = 0;
  const bool cramped = input->capacity - input->to < input->capacity / 2;
  if ((cramped || input->capacity < capacity) && !make_room(input, capacity)) {
    errno = ENOMEM;
    return AMQP_INPUT_FAILED;
  }
  /* Do not read into a full buffer: 0 bytes read would look like the end of the input. */
  if (input->to == input->capacity) return AMQP_INPUT_AGAIN;
  const ssize_t n = source(from, input->buffer + input->to, input->capacity - input->to);
  if (n > 0) input->to += (size_t) n;
  return n;
}

void amqp_input_free(amqp_input_t *input) {
  free(input->buffer);
  *input = (amqp_input_t) {0};
}
