/* Begin and end sessions and links at a cost that does not grow with how many there are.
 *
 * For a free channel or handle the engine looks at 0, 1, 2, … until one is free: the n-th
 * link that a peer attaches costs n steps, and one that attaches very many before it is
 * answered stops everybody else. Handles and channels may be any numbers up to the peer's
 * limit (AMQP 1.0 parts 2.7.1 and 2.7.2). When a session ends, the engine looks at the
 * links of all others as well. The build names these functions in the place of its own.
 */

#include "core/engine-internal.h"

#include <stdbool.h>
#include <stdint.h>

enum {
  /* Tries at numbers of which half are free, before all are looked at. */
  TRIES = 64
};

uint32_t quiver_free_alias(pn_hash_t *aliases, uint32_t max_index, int *valid) {
  const uint64_t used = pn_hash_size(aliases);
  /* Mostly no number is left out, and then this one is free. */
  uint64_t at = used;
  uint64_t state = used;
  *valid = 1;
  for (int i = 0; i < TRIES; ++i) {
    if (at <= max_index && !pn_hash_get(aliases, at)) return (uint32_t) at;
    state = state * 6364136223846793005u + 1442695040888963407u;
    at = (state >> 33) % (2 * used + 1);
  }
  for (uint64_t i = 0; i <= max_index; ++i) {
    if (!pn_hash_get(aliases, i)) return (uint32_t) i;
  }
  *valid = 0;
  return 0;
}

/* Say whether a session that ends has transfers which its peer may still take. */
bool quiver_pointful_buffering(pn_transport_t *transport, pn_session_t *session) {
  if (transport->close_rcvd) return false;
  if (!transport->open_rcvd) return true;
  if (!session || (int16_t) session->state.remote_channel == -2) return false;
  const size_t links = pn_list_size(session->links);
  for (size_t i = 0; i < links; ++i) {
    pn_link_t *link = (pn_link_t *) pn_list_get(session->links, (int) i);
    const bool attached = (int32_t) link->state.remote_handle != -2;
    if (attached && pn_link_is_sender(link) && pn_link_queued(link) > 0) return true;
  }
  return false;
}
