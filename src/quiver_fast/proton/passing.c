/* Send, take and pass the bytes of large deliveries without copying them about.
 *
 * The engine's own functions copy each byte that a router passes from the arriving delivery
 * into the leaving one before they frame it, and keep it there while the receiver's window is
 * closed. Here the leaving delivery borrows the arriving one's buffer while it is framed, so
 * bytes that cannot go yet stay in their sender's window.
 * Mid-delivery, when the connection has nothing else to write, `sendmsg` writes the frame
 * headers and the payload without copying them. A sender uses the same call. A receiver reads
 * the payload in the engine's buffer.
 */

#include "passing.h"

#include "buffer.h"

#include "core/engine-internal.h"
#include "core/frame_generators.h"
#include "core/framing.h"
#include "core/util.h"

#include <proton/transport.h>

#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
  /* Frames of one write, and the pieces of each: its head, its performative, its payload. */
  FRAMES = 4,
  PIECES = 3,
  /* Descriptor of the transfer performative, AMQP 1.0 part 2.7.5. */
  TRANSFER_CODE = 0x14
};

/* Mark a delivery for the transport, as the engine does. */
static void add_work(pn_delivery_t *delivery) {
  pn_connection_t *connection = delivery->link->session->connection;
  if (!delivery->tpwork) {
    LL_ADD(connection, tpwork, delivery);
    delivery->tpwork = true;
  }
  pn_modified(connection, &connection->endpoint, true);
}

/* Count bytes as read, as pn_link_recv does. */
static void count_read(pn_delivery_t *delivery, size_t size) {
  pn_session_t *session = delivery->link->session;
  session->incoming_bytes -= (pn_sequence_t) size;
  if (size && !session->check_flow &&
    session->state.incoming_window < session->incoming_window_lwm) {
    session->check_flow = true;
    add_work(delivery);
  }
}

/* Make the engine frame as much as it can. */
static size_t frame(pn_delivery_t *from, pn_delivery_t *to, size_t most) {
  pn_session_t *session = to->link->session;
  pn_buffer_t *own = to->bytes;
  const quiver_rest_t rest = quiver_buffer_narrow(from->bytes, most);
  to->bytes = from->bytes;
  session->outgoing_bytes += (pn_sequence_t) rest.shown;
  add_work(to);
  pn_transport_pending(session->connection->transport);
  to->bytes = own;
  const size_t passed = quiver_buffer_widen(from->bytes, rest);
  session->outgoing_bytes -= (pn_sequence_t) (rest.shown - passed);
  return passed;
}

/* Say whether frames of a delivery may be written past the engine: those before them are
 * written, nothing shows them, and its receiver takes them. */
static bool may_write(const pn_delivery_t *to) {
  const pn_link_t *link = to->link;
  const pn_transport_t *transport = link->session->connection->transport;
  const pn_session_state_t *session = &link->session->state;
  return to->state.sending && !to->state.sent && !to->done && !to->aborted &&
    !transport->output_pending && !pn_buffer_size(transport->output_buffer) &&
    !transport->close_sent && !transport->head_closed && (int16_t) session->local_channel >= 0 &&
    (int32_t) link->state.local_handle >= 0 && session->remote_incoming_window > 0 &&
    link->state.link_credit > 0 &&
    !PN_SHOULD_LOG(&transport->logger, PN_SUBSYSTEM_AMQP, PN_LEVEL_FRAME) &&
    !PN_SHOULD_LOG(&transport->logger, PN_SUBSYSTEM_IO, PN_LEVEL_RAW);
}

static void put_head(char *head, size_t size, uint16_t channel) {
  pni_write32(head, (uint32_t) size);
  head[4] = AMQP_HEADER_SIZE / 4;
  head[5] = AMQP_FRAME_TYPE;
  pni_write16(head + 6, channel);
}

/* Write what the socket takes; the engine writes the rest before anything else. */
static void write_pieces(
  pn_transport_t *transport, int fd, const struct iovec *pieces, size_t count) {
  const struct msghdr message = {.msg_iov = (struct iovec *) pieces, .msg_iovlen = count};
  const ssize_t result = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  /* The next write reports an error. */
  size_t sent = result > 0 ? (size_t) result : 0;
  transport->bytes_output += sent;
  for (size_t i = 0; i < count; ++i) {
    const size_t skipped = sent < pieces[i].iov_len ? sent : pieces[i].iov_len;
    sent -= skipped;
    pn_buffer_append(transport->output_buffer, (const char *) pieces[i].iov_base + skipped,
      pieces[i].iov_len - skipped);
  }
}

/* Write transfers of the delivery's next bytes; returns how many went. */
static size_t write_frames(pn_delivery_t *to, pn_bytes_t bytes, int fd) {
  pn_link_t *link = to->link;
  pn_transport_t *transport = link->session->connection->transport;
  pn_session_state_t *session = &link->session->state;
  const uint16_t channel = session->local_channel;
  char heads[FRAMES][AMQP_HEADER_SIZE];
  struct iovec pieces[FRAMES * PIECES];
  size_t frames = 0;
  size_t passed = 0;
  const pn_bytes_t performative =
    pn_amqp_encode_DLEIIzIQoQondQoQoQoe(&transport->scratch_space, TRANSFER_CODE,
      link->state.local_handle, to->state.id, to->tag.size, to->tag.start, 0, to->local.settled,
      to->local.settled, true, true, &to->local, false, false, false, false, false, false);
  if (!performative.start) return 0;
  const size_t limit = transport->remote_max_frame
    ? transport->remote_max_frame - AMQP_HEADER_SIZE - performative.size
    : bytes.size;
  while (passed < bytes.size && frames < FRAMES && frames < session->remote_incoming_window) {
    const size_t size = bytes.size - passed < limit ? bytes.size - passed : limit;
    struct iovec *at = pieces + frames * PIECES;
    put_head(heads[frames], AMQP_HEADER_SIZE + performative.size + size, channel);
    at[0] = (struct iovec) {heads[frames], AMQP_HEADER_SIZE};
    at[1] = (struct iovec) {(void *) performative.start, performative.size};
    at[2] = (struct iovec) {(void *) (bytes.start + passed), size};
    passed += size;
    frames += 1;
  }
  write_pieces(transport, fd, pieces, frames * PIECES);
  transport->output_frames_ct += frames;
  session->outgoing_transfer_count += (pn_sequence_t) frames;
  session->remote_incoming_window -= (pn_sequence_t) frames;
  return passed;
}

static size_t write_arrived(pn_delivery_t *from, pn_delivery_t *to, size_t most, int fd) {
  pn_bytes_t bytes = pn_buffer_bytes(from->bytes);
  if (bytes.size > most) bytes.size = most;
  const size_t passed = write_frames(to, bytes, fd);
  pn_buffer_trim(from->bytes, passed, 0);
  return passed;
}

size_t pnx_pass(pn_delivery_t *from, pn_delivery_t *to, size_t most, int fd) {
  if (pn_buffer_size(to->bytes) || !pn_buffer_size(from->bytes)) return 0;
  const size_t passed =
    fd >= 0 && may_write(to) ? write_arrived(from, to, most, fd) : frame(from, to, most);
  count_read(from, passed);
  return passed;
}

bool pnx_send(pn_link_t *link, const char *bytes, size_t size, int fd) {
  pn_delivery_t *to = pn_link_current(link);
  if (fd < 0 || pn_buffer_size(to->bytes) || !may_write(to)) {
    pn_link_send(link, bytes, size);
    return true;
  }
  const size_t sent = write_frames(to, (pn_bytes_t) {size, bytes}, fd);
  if (sent < size) pn_link_send(link, bytes + sent, size - sent);
  return !pn_buffer_size(link->session->connection->transport->output_buffer);
}

pn_bytes_t pnx_take(pn_link_t *link, char *spare, size_t size) {
  pn_delivery_t *from = pn_link_current(link);
  (void) spare;
  (void) size;
  /* This is the case at the end of every small message. */
  if (!from || !pn_buffer_size(from->bytes) || from->aborted) return (pn_bytes_t) {0, NULL};
  const pn_bytes_t bytes = pn_buffer_bytes(from->bytes);
  pn_buffer_trim(from->bytes, bytes.size, 0);
  count_read(from, bytes.size);
  return bytes;
}
