/* The counts of sessions and links. Subtraction of serial numbers wraps by itself in uint32_t. */

#include "session.h"

/* Return the rest of a window or a credit that was given when the peer had seen the count `seen`:
 * 0 if it was lowered below the number under way. Windows may be any uint32_t. */
static uint32_t left_of(uint32_t given, uint32_t seen, uint32_t count) {
  const int64_t left = (int64_t) given - (int32_t) (count - seen);
  if (left < 0) return 0;
  return left > UINT32_MAX ? UINT32_MAX : (uint32_t) left;
}

/* ---- Sessions */

void amqp_session_begin_ours(
  amqp_session_t *session, uint32_t next_outgoing_id, uint32_t incoming_window) {
  session->initial_outgoing_id = session->next_outgoing_id = next_outgoing_id;
  session->incoming_window = incoming_window;
}

void amqp_session_begin_theirs(amqp_session_t *session, uint32_t next_outgoing_id,
  uint32_t incoming_window, uint32_t outgoing_window) {
  session->next_incoming_id = next_outgoing_id;
  session->remote_incoming_window = incoming_window;
  session->remote_outgoing_window = outgoing_window;
}

void amqp_session_take_flow(amqp_session_t *session, const amqp_flow_t *flow) {
  /* A peer that has not seen our begin counts from its id (part 2.5.6). */
  const uint32_t seen =
    flow->has_next_incoming_id ? flow->next_incoming_id : session->initial_outgoing_id;
  session->remote_incoming_window = left_of(flow->incoming_window, seen, session->next_outgoing_id);
  session->next_incoming_id = flow->next_outgoing_id;
  session->remote_outgoing_window = flow->outgoing_window;
}

void amqp_session_tell(const amqp_session_t *session, amqp_flow_t *flow) {
  flow->has_next_incoming_id = true;
  flow->next_incoming_id = session->next_incoming_id;
  flow->incoming_window = session->incoming_window;
  flow->next_outgoing_id = session->next_outgoing_id;
  /* Our own outgoing window never limits our transfers: the links and the peer do. */
  flow->outgoing_window = INT32_MAX;
}

bool amqp_session_send(amqp_session_t *session) {
  if (session->remote_incoming_window == 0) return false;
  session->remote_incoming_window--;
  session->next_outgoing_id++;
  return true;
}

bool amqp_session_receive(amqp_session_t *session) {
  if (session->incoming_window == 0) return false;
  session->incoming_window--;
  session->next_incoming_id++;
  if (session->remote_outgoing_window) session->remote_outgoing_window--;
  return true;
}

/* ---- Links */

void amqp_link_attach(amqp_link_t *link, uint32_t initial_delivery_count) {
  link->initial_delivery_count = link->delivery_count = initial_delivery_count;
}

void amqp_sender_take_flow(amqp_link_t *link, const amqp_flow_t *flow) {
  link->drain = link->awaited = flow->drain;
  if (!flow->has_link_credit) return;
  /* A receiver that has not seen our attach knows no count (part 2.6.7). */
  const uint32_t seen =
    flow->has_delivery_count ? flow->delivery_count : link->initial_delivery_count;
  link->credit = left_of(flow->link_credit, seen, link->delivery_count);
}

bool amqp_sender_send(amqp_link_t *link) {
  if (link->credit == 0) return false;
  link->credit--;
  link->delivery_count++;
  return true;
}

bool amqp_sender_drained(amqp_link_t *link) {
  if (!link->awaited) return false;
  link->awaited = false;
  link->delivery_count += link->credit;
  link->credit = 0;
  return true;
}

bool amqp_receiver_take_flow(amqp_link_t *link, const amqp_flow_t *flow) {
  if (flow->has_available) link->available = flow->available;
  if (!flow->has_delivery_count) return true;
  const uint32_t advance = flow->delivery_count - link->delivery_count;
  if (advance > link->credit) return false;
  link->delivery_count += advance;
  link->credit -= advance;
  link->drained += advance;
  return true;
}

void amqp_receiver_follow(amqp_link_t *link, uint32_t delivery_count) {
  /* The count was sent before we saw the last deliveries. */
  if ((int32_t) (delivery_count - link->delivery_count) <= 0) return;
  link->delivery_count = delivery_count;
  link->drained += link->credit;
  link->credit = 0;
}

bool amqp_receiver_receive(amqp_link_t *link) {
  if (link->credit == 0) return false;
  link->credit--;
  link->delivery_count++;
  if (link->available) link->available--;
  return true;
}

void amqp_link_tell(const amqp_link_t *link, uint32_t handle, amqp_flow_t *flow) {
  flow->has_handle = flow->has_delivery_count = flow->has_link_credit = true;
  flow->has_available = true;
  flow->handle = handle;
  flow->delivery_count = link->delivery_count;
  flow->link_credit = link->credit;
  flow->available = link->available;
  flow->drain = link->drain;
}
