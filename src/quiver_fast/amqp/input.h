/* Incoming bytes: one buffer, whose frames are read in place. */
#ifndef QUIVER_AMQP_INPUT_H
#define QUIVER_AMQP_INPUT_H

#include "values.h"

#include <sys/types.h>

/* The source of the bytes; results as those of tls_read (see tls_socket.h). */
enum {
  AMQP_INPUT_END = 0,
  AMQP_INPUT_AGAIN = -1,
  AMQP_INPUT_FAILED = -2,
};
typedef ssize_t (*amqp_source_t)(void *from, void *buffer, size_t size);

typedef struct amqp_input {
  uint8_t *buffer;
  size_t capacity;
  size_t from, to; /* the unread bytes */
} amqp_input_t;

/* A source for a socket, whose descriptor `from` points at; errno has the reason of a failure. */
ssize_t amqp_receive(void *from, void *buffer, size_t size);

/* An input of zeros is empty and holds no memory. */
void amqp_input_free(amqp_input_t *input);

/* Return the unread bytes. They stay in place until amqp_input_fill. */
static inline amqp_bytes_t amqp_input_bytes(const amqp_input_t *input) {
  return (amqp_bytes_t) {input->buffer + input->from, input->to - input->from};
}

static inline void amqp_input_take(amqp_input_t *input, size_t size) {
  input->from += size;
}

/* Read once, and return the source's result. The buffer grows until an incomplete frame has room;
 * `frame_size` is its size, or 0 if that is unknown. */
ssize_t amqp_input_fill(amqp_input_t *input, size_t frame_size, amqp_source_t source, void *from);

#endif
