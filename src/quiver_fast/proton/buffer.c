/* The engine's byte buffers, compiled in the place of its own (core/buffer.c).
 *
 * The engine's buffers are rings. To frame a ring's bytes, the engine rotates the ring byte by
 * byte until its beginning comes first, each time that a peer's window lets only a part of it
 * through. These buffers keep their bytes in one piece. They move bytes by memmove, and only
 * after an eighth of the buffer has been given away. Large storage goes back to the
 * system when its delivery ends, so that the engine's pool of deliveries holds none.
 */

#include "buffer.h"

#include "core/buffer.h"

#include <proton/error.h>

#include <stdlib.h>
#include <string.h>

struct pn_buffer_t {
  char *bytes;
  size_t capacity;
  size_t start;
  size_t size;
};

enum {
  LEAST = 64,
  /* An empty delivery keeps so much for the next one: 100 KB messages come one by one. */
  KEPT = 131072
};

static char *end_of(const pn_buffer_t *buf) {
  return buf->bytes + buf->start + buf->size;
}

static void set_storage(pn_buffer_t *buf, size_t capacity) {
  char *bytes = malloc(capacity);
  /* The engine does not look at what an append returns: a message would lack a part. */
  if (!bytes) abort();
  if (buf->size) memcpy(bytes, buf->bytes + buf->start, buf->size);
  free(buf->bytes);
  buf->bytes = bytes;
  buf->capacity = capacity;
  buf->start = 0;
}

pn_buffer_t *pn_buffer(size_t capacity) {
  pn_buffer_t *buf = calloc(1, sizeof(*buf));
  if (buf && capacity) set_storage(buf, capacity);
  return buf;
}

void pn_buffer_free(pn_buffer_t *buf) {
  if (!buf) return;
  free(buf->bytes);
  free(buf);
}

size_t pn_buffer_size(pn_buffer_t *buf) {
  return buf->size;
}

size_t pn_buffer_capacity(pn_buffer_t *buf) {
  return buf->capacity;
}

size_t pn_buffer_available(pn_buffer_t *buf) {
  return buf->capacity - buf->size;
}

int pn_buffer_ensure(pn_buffer_t *buf, size_t size) {
  size_t capacity = buf->capacity ? buf->capacity : LEAST;
  if (buf->capacity - buf->start - buf->size >= size) return 0;
  if (buf->capacity - buf->size >= size && buf->start >= buf->capacity / 8) {
    memmove(buf->bytes, buf->bytes + buf->start, buf->size);
    buf->start = 0;
    return 0;
  }
  while (capacity - buf->size < size) capacity *= 2;
  /* There may be enough room, but not behind the bytes, and too little before them to move. */
  set_storage(buf, capacity == buf->capacity ? 2 * capacity : capacity);
  return 0;
}

int pn_buffer_append(pn_buffer_t *buf, const char *bytes, size_t size) {
  if (!size) return 0;
  pn_buffer_ensure(buf, size);
  memcpy(end_of(buf), bytes, size);
  buf->size += size;
  return 0;
}

size_t pn_buffer_get(pn_buffer_t *buf, size_t offset, size_t size, char *dst) {
  if (offset >= buf->size) return 0;
  if (size > buf->size - offset) size = buf->size - offset;
  memcpy(dst, buf->bytes + buf->start + offset, size);
  return size;
}

int pn_buffer_trim(pn_buffer_t *buf, size_t left, size_t right) {
  if (left + right > buf->size) return PN_ARG_ERR;
  buf->start += left;
  buf->size -= left + right;
  if (!buf->size) buf->start = 0;
  return 0;
}

void pn_buffer_clear(pn_buffer_t *buf) {
  buf->start = 0;
  buf->size = 0;
  if (buf->capacity <= KEPT) return;
  free(buf->bytes);
  buf->bytes = NULL;
  buf->capacity = 0;
}

pn_bytes_t pn_buffer_bytes(pn_buffer_t *buf) {
  if (!buf) return (pn_bytes_t) {0, NULL};
  return (pn_bytes_t) {.size = buf->size, .start = buf->bytes + buf->start};
}

pn_rwbytes_t pn_buffer_memory(pn_buffer_t *buf) {
  if (!buf) return (pn_rwbytes_t) {0, NULL};
  return (pn_rwbytes_t) {.size = buf->size, .start = buf->bytes + buf->start};
}

quiver_rest_t quiver_buffer_narrow(pn_buffer_t *buf, size_t most) {
  quiver_rest_t rest = {.start = buf->start, .size = buf->size};
  if (buf->size > most) buf->size = most;
  rest.shown = buf->size;
  return rest;
}

size_t quiver_buffer_widen(pn_buffer_t *buf, quiver_rest_t rest) {
  const size_t taken = rest.shown - buf->size;
  buf->size = rest.size - taken;
  buf->start = buf->size ? rest.start + taken : 0;
  return taken;
}
