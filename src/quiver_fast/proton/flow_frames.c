/* Keep the handle of a link that is detached out of flow frames.
 *
 * When bytes are read of a delivery whose link this side has already detached, and
 * the session's window is due to be told, the engine writes a flow that names the
 * link by the mark of "no handle": its peer closes the connection for a handle that
 * it never knew (AMQP 1.0 part 2.7.4). The build names this function where the
 * engine's transport encodes a flow; without a link's handle the frame tells the
 * session's window and no more.
 */

#include <proton/types.h>

#include <stdbool.h>
#include <stdint.h>

pn_bytes_t pn_amqp_encode_DLEQIIIIQIQIQInQoe(pn_rwbytes_t *buffer, uint64_t code,
  bool has_next_incoming, uint32_t next_incoming, uint32_t incoming_window, uint32_t next_outgoing,
  uint32_t outgoing_window, bool has_handle, uint32_t handle, bool has_count, uint32_t count,
  bool has_credit, uint32_t credit, bool has_drain, bool drain);

pn_bytes_t quiver_encode_flow(pn_rwbytes_t *buffer, uint64_t code, bool has_next_incoming,
  uint32_t next_incoming, uint32_t incoming_window, uint32_t next_outgoing,
  uint32_t outgoing_window, bool has_handle, uint32_t handle, bool has_count, uint32_t count,
  bool has_credit, uint32_t credit, bool has_drain, bool drain) {
  /* The engine takes a handle for one while it is not negative. */
  const bool attached = (int32_t) handle >= 0;
  return pn_amqp_encode_DLEQIIIIQIQIQInQoe(buffer, code, has_next_incoming, next_incoming,
    incoming_window, next_outgoing, outgoing_window, has_handle && attached, handle,
    has_count && attached, count, has_credit && attached, credit, has_drain && attached, drain);
}
