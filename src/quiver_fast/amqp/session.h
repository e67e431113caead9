/* The counts of sessions (part 2.5.6) and links (part 2.6.7): windows, credit, drain.
 *
 * The functions count and refuse; the user decides when to give a window or credit. All ids and
 * counts are serial numbers (RFC 1982): they wrap at 2^32. */
#ifndef QUIVER_AMQP_SESSION_H
#define QUIVER_AMQP_SESSION_H

#include "frames.h"

typedef struct amqp_session {
  uint32_t initial_outgoing_id;
  uint32_t next_outgoing_id;
  uint32_t remote_incoming_window; /* transfers that the peer accepts from us */
  uint32_t next_incoming_id;
  uint32_t incoming_window; /* transfers that we accept from the peer */
  uint32_t remote_outgoing_window;
  uint32_t next_delivery_id; /* of our deliveries (part 2.6.12); users count it on */
} amqp_session_t;

/* A link's count on either side. */
typedef struct amqp_link {
  uint32_t initial_delivery_count; /* of the sender, from its attach */
  uint32_t delivery_count;
  uint32_t credit;
  uint32_t available; /* number of deliveries that the sender has, or said that it has */
  uint32_t drained;   /* the receiver's: credit that came back unused, until its user reads it */
  bool drain;
  bool awaited; /* the sender's: the receiver drains, and waits for a flow of ours */
} amqp_link_t;

/* ---- Sessions */

/* Start from our begin frame, and from the peer's, which may come first: the session is zeros
 * before the first of them. A flow of a peer that has not seen our begin stays valid. */
void amqp_session_begin_ours(
  amqp_session_t *session, uint32_t next_outgoing_id, uint32_t incoming_window);
void amqp_session_begin_theirs(amqp_session_t *session, uint32_t next_outgoing_id,
  uint32_t incoming_window, uint32_t outgoing_window);

/* Read the session's fields of a flow. */
void amqp_session_take_flow(amqp_session_t *session, const amqp_flow_t *flow);

/* Fill in the session's fields of our flow; the link's fields stay unchanged. */
void amqp_session_tell(const amqp_session_t *session, amqp_flow_t *flow);

/* Count an outgoing transfer frame: false, and nothing is counted, if the peer has no window. */
bool amqp_session_send(amqp_session_t *session);

/* Count an incoming transfer frame: false if the peer had no window, which ends the session with
 * amqp:session:window-violation (part 2.8.17). */
bool amqp_session_receive(amqp_session_t *session);

/* ---- Links */

/* Start from the sender's attach frame. Credit that a receiver gave before it stays, because its
 * flow named no count of ours. */
void amqp_link_attach(amqp_link_t *link, uint32_t initial_delivery_count);

/* The sender's: read the link's fields of the receiver's flow. */
void amqp_sender_take_flow(amqp_link_t *link, const amqp_flow_t *flow);

/* The sender's: count a delivery; false, and nothing is counted, without credit. */
bool amqp_sender_send(amqp_link_t *link);

/* The sender's: use up the credit of a receiver that drains, when nothing is left to send.
 * Says whether to send a flow: each drain of the receiver is answered by one, also if messages
 * used up the credit or there was none (part 2.6.7). */
bool amqp_sender_drained(amqp_link_t *link);

/* The receiver's: read the link's fields of the sender's flow. False if its count is beyond the
 * credit: the link ends with amqp:link:transfer-limit-exceeded (part 2.8.18). */
bool amqp_receiver_take_flow(amqp_link_t *link, const amqp_flow_t *flow);

/* The receiver's: follow a sender whose count is beyond the credit; the credit is then 0. */
void amqp_receiver_follow(amqp_link_t *link, uint32_t delivery_count);

/* The receiver's: count a delivery; false without credit, which ends the link in the same way. */
bool amqp_receiver_receive(amqp_link_t *link);

/* Fill in the link's fields of our flow. */
void amqp_link_tell(const amqp_link_t *link, uint32_t handle, amqp_flow_t *flow);

#endif
