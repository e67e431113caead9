/* Say whether a session has a handle for one more link.
 *
 * The engine attaches every link that is opened, and writes nothing any more on the
 * whole connection once it finds no handle up to the peer's handle-max (AMQP 1.0 part
 * 2.7.2). Its interface does not tell that limit, so this looks into the session.
 */

#include "handles.h"

#include "core/engine-internal.h"

#include <stdint.h>

bool pnx_session_has_handle(pn_session_t *session) {
  const uint64_t links = pn_list_size(session->links);
  const uint64_t limit = session->state.remote_handle_max;
  uint64_t used = pn_hash_size(session->state.local_handles);
  if (used + links <= limit) return true;
  for (uint64_t i = 0; i < links; ++i) {
    const pn_link_t *link = (const pn_link_t *) pn_list_get(session->links, (int) i);
    /* Opened and not framed yet: it gets its handle with the next output. */
    used += !(link->endpoint.state & PN_LOCAL_UNINIT) && link->state.local_handle == (uint32_t) -1;
  }
  return used <= limit;
}
