/* Send, take and pass the bytes of large deliveries without copying them about. */

#ifndef QUIVER_PASSING_H
#define QUIVER_PASSING_H

#include <proton/delivery.h>
#include <proton/link.h>
#include <proton/session.h>

#include <stdbool.h>
#include <stddef.h>

#if QUIVER_ENGINE_BUNDLED

/* Frame up to `most` bytes of `from`, as far as the window of `to`'s session and its
 * connection's output take them now, without holding them anywhere between. `from` is
 * the current delivery of its link, `to` has no bytes of its own that are not framed.
 * Bytes that the socket `fd` of the connection takes are written at once; -1 is a connection
 * within TLS, whose bytes wait in the engine's output.
 * Returns how many bytes were passed. */
PN_EXTERN size_t pnx_pass(pn_delivery_t *from, pn_delivery_t *to, size_t most, int fd);

/* Send the next bytes of the link's current delivery, as pn_link_send does. Mid-delivery they
 * go to the connection's socket `fd` at once, unless that is -1. Returns false when the socket
 * is full. */
PN_EXTERN bool pnx_send(pn_link_t *link, const char *bytes, size_t size, int fd);

/* Take the bytes that have come of the link's current delivery, as pn_link_recv does, without
 * a copy: they are valid until the engine reads again. Engines of the system copy into `spare`,
 * which has `size` bytes. Returns no bytes if none have come. */
PN_EXTERN pn_bytes_t pnx_take(pn_link_t *link, char *spare, size_t size);

#else

/* An engine of the system's has no such way: the bytes are copied, a piece at a time. */
static inline size_t pnx_pass(pn_delivery_t *from, pn_delivery_t *to, size_t most, int fd) {
  char piece[32768];
  pn_link_t *sender = pn_delivery_link(to);
  ssize_t size = 0;
  (void) fd;
  if (pn_session_outgoing_bytes(pn_link_session(sender)) >= sizeof(piece)) return 0;
  size = pn_link_recv(pn_delivery_link(from), piece, most < sizeof(piece) ? most : sizeof(piece));
  if (size <= 0) return 0;
  pn_link_send(sender, piece, (size_t) size);
  return (size_t) size;
}

static inline bool pnx_send(pn_link_t *link, const char *bytes, size_t size, int fd) {
  (void) fd;
  pn_link_send(link, bytes, size);
  return true;
}

static inline pn_bytes_t pnx_take(pn_link_t *link, char *spare, size_t size) {
  const ssize_t got = pn_link_recv(link, spare, size);
  return pn_bytes(got > 0 ? (size_t) got : 0, spare);
}

#endif

#endif
