/* Pass the bytes of a delivery that is arriving on to one that is leaving.
 *
 * By the engine's own functions a byte that a router passes is copied out of the one
 * delivery and into the other before it is framed, and held there while its receiver's
 * window is closed. Here the leaving delivery is lent the arriving one's buffer for the
 * moment of framing: what cannot go now stays where it is, in its sender's window.
 */

#include "passing.h"

#include "buffer.h"

#include "core/engine-internal.h"
#include "core/util.h"

#include <proton/transport.h>

/* As the engine does it: have the transport look at a delivery. */
static void add_work(pn_delivery_t *delivery)
{
  pn_connection_t *connection = delivery->link->session->connection;
  if (!delivery->tpwork) {
    LL_ADD(connection, tpwork, delivery);
    delivery->tpwork = true;
  }
  pn_modified(connection, &connection->endpoint, true);
}

/* Count bytes as read, as pn_link_recv does. */
static void count_read(pn_delivery_t *delivery, size_t size)
{
  pn_session_t *session = delivery->link->session;
  session->incoming_bytes -= size;
  if (size && !session->check_flow &&
      session->state.incoming_window < session->incoming_window_lwm) {
    session->check_flow = true;
    add_work(delivery);
  }
}

size_t pnx_pass(pn_delivery_t *from, pn_delivery_t *to, size_t most)
{
  pn_session_t *session = to->link->session;
  pn_buffer_t *own = to->bytes;
  if (pn_buffer_size(own) || !pn_buffer_size(from->bytes)) return 0;
  const quiver_rest_t rest = quiver_buffer_narrow(from->bytes, most);
  to->bytes = from->bytes;
  session->outgoing_bytes += rest.shown;
  add_work(to);
  pn_transport_pending(session->connection->transport);
  to->bytes = own;
  const size_t passed = quiver_buffer_widen(from->bytes, rest);
  session->outgoing_bytes -= rest.shown - passed;
  count_read(from, passed);
  return passed;
}
