/* Tell of no credit on links that were freed.
 *
 * The engine puts a flow event for the link of every transfer, and of every delivery that
 * was aborted before its first. A link that its application freed, whose session ended
 * meanwhile, is held by that event alone: letting go of it the engine frees the session,
 * with it the link, and then looks at the link once more. The build names this function
 * where the engine's transport puts events; nobody waits for credit on such a link.
 */

#include "core/engine-internal.h"

#include <proton/event.h>

pn_event_t *quiver_put_object(pn_collector_t *collector, void *object, pn_event_type_t type) {
  if (type == PN_LINK_FLOW && ((const pn_link_t *) object)->endpoint.freed) return NULL;
  return pn_collector_put_object(collector, object, type);
}
