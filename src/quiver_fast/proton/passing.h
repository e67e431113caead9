/* Pass the bytes of a delivery that is arriving on to one that is leaving. */

#ifndef QUIVER_PASSING_H
#define QUIVER_PASSING_H

#include <proton/delivery.h>
#include <proton/link.h>
#include <proton/session.h>

#include <stddef.h>

#if QUIVER_ENGINE_BUNDLED

/* Frame up to `most` bytes of `from`, as far as the window of `to`'s session and its
 * connection's output take them now, without holding them anywhere between. `from` is
 * the current delivery of its link, `to` has no bytes of its own that are not framed.
 * What can be goes to the connection's socket `fd` at once.
 * Returns how many bytes were passed. */
PN_EXTERN size_t pnx_pass(pn_delivery_t *from, pn_delivery_t *to, size_t most, int fd);

#else

/* An engine of the system's has no such way: the bytes are copied, a piece at a time. */
static inline size_t pnx_pass(pn_delivery_t *from, pn_delivery_t *to, size_t most, int fd)
{
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

#endif

#endif
