/* How many links a session may have: the handle-max of the peer's begin frame (AMQP 1.0
 * part 2.7.2), which the engine's interface does not tell.
 */
#ifndef QUIVER_HANDLES_H
#define QUIVER_HANDLES_H

#include <proton/session.h>

#include <stdbool.h>

#if QUIVER_ENGINE_BUNDLED
/* Say whether one more link may be opened in a session that the peer's begin is known of:
 * without a handle the engine goes mute. */
PN_EXTERN bool pnx_session_has_handle(pn_session_t *session);
#else
static inline bool pnx_session_has_handle(pn_session_t *session) {
  (void) session;
  return true;
}
#endif

#endif
