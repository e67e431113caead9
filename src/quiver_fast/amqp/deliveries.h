/* Deliveries with a record each (part 2.6.12), for a side that keeps many links: bytes that came
 * and are not read yet, what goes out, and what both sides say of each.
 *
 * A user marks a link's and a session's end as its own (`user`), and keeps what is here beside
 * it. Nothing here limits how much is unread: the session's window does. */
#ifndef QUIVER_AMQP_DELIVERIES_H
#define QUIVER_AMQP_DELIVERIES_H

#include "plane.h"

/* A server's transactions have ids of so many bytes. */
#define AMQP_OWN_TXN_ID 8
/* Longer states are kept in memory of their own. */
#define AMQP_SHORT_STATE (AMQP_STATE_HEAD + AMQP_OWN_TXN_ID)

typedef struct amqp_delivery amqp_delivery_t;

/* An encoded delivery state. */
typedef struct amqp_saying {
  uint8_t *many; /* where it is longer; else NULL */
  size_t size;   /* 0 for none */
  uint8_t few[AMQP_SHORT_STATE];
} amqp_saying_t;

/* Records for the next deliveries, of all connections of one thread. */
typedef struct amqp_spares {
  amqp_delivery_t *first;
  uint32_t count;
} amqp_spares_t;

/* What a connection's deliveries have in common. */
typedef struct amqp_deliveries {
  amqp_plane_t *plane;
  amqp_spares_t *spares;
  bool failed; /* for lack of memory the peer was not told something: it has to be cut */
  /* A run of equal outcomes, which the peer is still to be told (part 2.7.6). */
  amqp_session_end_t *session; /* NULL while the run is empty */
  enum amqp_role role;
  uint32_t first, last;
  bool accepts; /* the outcome is accepted */
  amqp_saying_t outcome;
} amqp_deliveries_t;

/* The deliveries of one direction, in the order of their ids. */
typedef struct amqp_register {
  amqp_delivery_t *oldest, *newest;
  amqp_delivery_t **buckets; /* by the low bits of the id */
  uint32_t capacity;         /* a power of two, or 0 */
  uint32_t count;
} amqp_register_t;

typedef struct amqp_session_deliveries {
  amqp_session_end_t *end;
  amqp_register_t registers[2]; /* by our role */
  size_t unread;                /* bytes that came and were not read */
  amqp_delivery_t *owed;        /* aborts that wait for the peer's window */
  /* A walk over the deliveries of a range. */
  amqp_delivery_t *walk;
  uint32_t walk_first, walk_last;
} amqp_session_deliveries_t;

typedef struct amqp_link_deliveries {
  amqp_deliveries_t *all;
  amqp_session_deliveries_t *session;
  amqp_link_end_t *end;
  amqp_delivery_t *first, *last; /* those that are not settled, in their order */
  amqp_delivery_t *current;      /* the first that its receiver has not taken */
  uint32_t untaken;              /* how many these are */
  amqp_delivery_t *fresh;        /* its bytes are in the input still */
} amqp_link_deliveries_t;

struct amqp_delivery {
  amqp_link_deliveries_t *link;
  amqp_delivery_t *prev, *next;   /* of the link */
  amqp_delivery_t *older, *newer; /* of the register */
  amqp_delivery_t *beside;        /* of the bucket */
  void *context;
  uint32_t id;
  uint32_t format; /* the message-format, of its first transfer (part 2.7.5) */
  bool partial;    /* more of it is to come, or to go */
  bool aborted;
  bool taken;    /* by its receiver: the link's current delivery is a later one */
  bool numbered; /* it has its id: of ours the first transfer gives it */
  bool told;     /* and said that it is settled */
  /* What the peer said last. */
  enum amqp_code code;
  bool settled;
  amqp_bytes_t said; /* the encoded state */
  uint8_t *said_copy;
  /* Bytes that came and were not read: how many, and where the first of them are, in the input
   * or in the first chunk. */
  size_t pending;
  const uint8_t *at;
  size_t run;
  struct amqp_chunk *chunk, *last_chunk;
  /* What we say when we settle it. The last member: its bytes are not cleared for each delivery. */
  amqp_saying_t saying;
};

/* Give the memory of all spare records back. */
void amqp_spares_free(amqp_spares_t *spares);

/* ---- The connection's. */

void amqp_deliveries_free(amqp_deliveries_t *deliveries);

/* Tell the outcomes of the run; before a frame that ends a session. */
void amqp_deliveries_tell(amqp_deliveries_t *deliveries);

/* Settle a delivery that came for a link of ours that is closed, as released. */
void amqp_deliveries_release(
  amqp_deliveries_t *deliveries, const amqp_link_end_t *end, uint32_t delivery_id);

/* Settle a delivery that came whole and needs no record, as accepted. */
void amqp_deliveries_accept(
  amqp_deliveries_t *deliveries, const amqp_link_end_t *end, uint32_t delivery_id);

/* ---- Sessions */

/* Free what a session holds; it has no deliveries any more. */
void amqp_session_deliveries_free(amqp_session_deliveries_t *session);

/* Walk over the deliveries of ours in a role whose ids are in a range. Each call of
 * amqp_walk_next returns the next one, NULL after the last. Any may be dropped meanwhile. */
void amqp_walk(
  amqp_session_deliveries_t *session, enum amqp_role role, uint32_t first, uint32_t last);
amqp_delivery_t *amqp_walk_next(amqp_session_deliveries_t *session);

/* ---- Links */

/* Drop all deliveries of a link that has ended. The peer is not told. */
void amqp_link_deliveries_drop(amqp_link_deliveries_t *link);

/* ---- What comes */

/* Note a transfer that came; false without memory. Its bytes are the link's `fresh` delivery's,
 * until amqp_delivery_keep, which has to come before the next event. */
bool amqp_delivery_arrive(amqp_link_deliveries_t *link, const amqp_arrival_t *arrival);

/* Copy what was not read of the fresh delivery; false without memory. */
bool amqp_delivery_keep(amqp_link_deliveries_t *link);

/* Say whether a delivery's unread bytes are in the input, where the next event finds others. */
static inline bool amqp_delivery_is_fresh(const amqp_delivery_t *delivery) {
  return delivery->link->fresh == delivery;
}

/* Take unread bytes: the first `size` of them, at most `pending`, are read. */
void amqp_delivery_take(amqp_delivery_t *delivery, size_t size);

/* Move up to `size` unread bytes to `out`; return how many. */
size_t amqp_delivery_read(amqp_delivery_t *delivery, void *out, size_t size);

/* Have the link go on to the next delivery, although this one is not settled yet. */
void amqp_delivery_advance(amqp_delivery_t *delivery);

/* Keep what the peer said beyond the event that told it; false without memory. */
bool amqp_delivery_keep_said(amqp_delivery_t *delivery);

/* ---- What goes */

/* Bytes that follow each other. The rest goes by reference where something holds it. */
typedef struct amqp_parts {
  amqp_bytes_t lead, rest;
  amqp_hold_t *hold; /* NULL: the rest is copied */
} amqp_parts_t;

/* Say whether a delivery may go out: attached, with credit, and a window for one frame. */
static inline bool amqp_delivery_may_begin(const amqp_link_deliveries_t *link) {
  const amqp_link_end_t *end = link->end;
  return end && end->phase[AMQP_OURS] == AMQP_ACTIVE && end->counts.credit > 0 &&
    end->session->counts.remote_incoming_window > 0;
}

/* Say whether a frame of a delivery may go out. */
static inline bool amqp_delivery_may_go(const amqp_delivery_t *delivery) {
  if (!delivery->numbered) return amqp_delivery_may_begin(delivery->link);
  return delivery->link->session->end->counts.remote_incoming_window > 0;
}

/* Make a delivery that is to go, of format 0 unless its maker says another; NULL without memory.
 * It has no id and takes no credit before its first frame: ids have to go out in their order. */
amqp_delivery_t *amqp_delivery_begin(amqp_link_deliveries_t *link);

/* Frame bytes of a delivery, as far as the window goes. Returns how many bytes went. When all did
 * and they are the last, the delivery is not partial any more. The tag, of up to 32 bytes, is that
 * of the first frame. */
size_t amqp_delivery_send(
  amqp_delivery_t *delivery, amqp_bytes_t tag, const amqp_parts_t *parts, bool last, bool settled);

/* Begin a delivery of format 0 and send all of it in one frame, as amqp_delivery_begin and
 * amqp_delivery_send would; a large payload goes by reference. NULL, and nothing is sent, where the
 * peer does not take it now, where it needs more than one frame, and without memory. */
amqp_delivery_t *amqp_delivery_send_whole(amqp_link_deliveries_t *link, amqp_bytes_t tag,
  amqp_bytes_t payload, amqp_hold_t *hold, bool settled);

/* Tell that a delivery will not be complete (part 2.7.5), and free the record. An abort is a
 * transfer: it may wait for the window. */
void amqp_delivery_abort(amqp_delivery_t *delivery);

/* Send the aborts that waited, when the session's window has grown. */
void amqp_session_deliveries_catch_up(amqp_session_deliveries_t *session);

/* ---- What we say of it */

/* An outcome without fields. */
void amqp_delivery_say(amqp_delivery_t *delivery, enum amqp_code code);
void amqp_delivery_say_modified(amqp_delivery_t *delivery, bool failed, bool undeliverable);
/* Without memory for the reason, it is rejected without. */
void amqp_delivery_say_rejected(
  amqp_delivery_t *delivery, const char *condition, const char *description);
/* A transaction's id of 8 bytes: declared, or an outcome within it (parts 4.5.5 and 4.5.8). */
void amqp_delivery_say_declared(amqp_delivery_t *delivery, const void *id);
void amqp_delivery_say_enlisted(amqp_delivery_t *delivery, const void *id, enum amqp_code outcome);
/* What another delivery's peer said. */
void amqp_delivery_say_as(amqp_delivery_t *delivery, amqp_bytes_t state);

/* Tell what we say although it is not settled: its receiver answers first. */
void amqp_delivery_tell(amqp_delivery_t *delivery);

/* Settle a delivery, tell the peer unless it did that first, and free the record. */
void amqp_delivery_settle(amqp_delivery_t *delivery);

/* Free the record. The peer is not told. */
void amqp_delivery_drop(amqp_delivery_t *delivery);

#endif
