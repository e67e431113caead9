/* Functions of our buffers that the engine does not have. */

#ifndef QUIVER_BUFFER_H
#define QUIVER_BUFFER_H

#include <stddef.h>

struct pn_buffer_t;

/* Where a buffer's bytes were before it was narrowed. */
typedef struct {
  size_t start;
  size_t size;
  size_t shown;
} quiver_rest_t;

/* Show only the first bytes of a buffer, from which bytes may then be trimmed. */
quiver_rest_t quiver_buffer_narrow(struct pn_buffer_t *buf, size_t most);

/* Show all again that was not trimmed; returns how much was. */
size_t quiver_buffer_widen(struct pn_buffer_t *buf, quiver_rest_t rest);

#endif
