/* Deliveries with a record each (part 2.6.12), for a side with many links: unread bytes, outgoing
 * deliveries, and the states of both sides.
 *
 * A user marks a link's and a session's end as its own (`user`), and keeps these structures with
 * it. Nothing here limits the unread bytes: the session's window does. */
#ifndef QUIVER_AMQP_DELIVERIES_H
#define QUIVER_AMQP_DELIVERIES_H

#include "plane.h"

/* The size of a server's transaction ids, in bytes. */
#define AMQP_OWN_TXN_ID 8
/* The least room for unread bytes of a delivery whose frames are not all here. */
#define AMQP_LEAST_CHUNK 64
/* Longer states have their own memory. */
#define AMQP_SHORT_STATE (AMQP_STATE_HEAD + AMQP_OWN_TXN_ID)

typedef struct amqp_delivery amqp_delivery_t;

/* An encoded delivery state. */
typedef struct amqp_encoded_state {
  uint8_t *many; /* a longer state; else NULL */
  size_t size;   /* 0 for none */
  uint8_t few[AMQP_SHORT_STATE];
} amqp_encoded_state_t;

/* Records for the next deliveries, shared by all connections of one thread. */
typedef struct amqp_spares {
  amqp_delivery_t *first;
  uint32_t count;
} amqp_spares_t;

/* The common state of a connection's deliveries. */
typedef struct amqp_deliveries {
  amqp_plane_t *plane;
  amqp_spares_t *spares;
  bool failed; /* a message to the peer was lost for lack of memory: cut the connection */
  /* A run of equal outcomes that is not sent yet (part 2.7.6). */
  amqp_session_end_t *session; /* NULL while the run is empty; else we have not ended it */
  enum amqp_role role;
  uint32_t first, last;
  enum amqp_code plain; /* the outcome, if amqp_deliveries_settle gave one; else none */
  amqp_encoded_state_t outcome;
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
  size_t unread;                /* bytes that came and are not read */
  amqp_delivery_t *owed;        /* aborts that wait for the peer's window */
  /* A walk over the deliveries of a range: the next one, or NULL at its end. */
  amqp_delivery_t *walk;
  enum amqp_role walk_role;
  uint32_t walk_first, walk_last;
  bool walk_begins;    /* its first delivery is not found yet */
  uint32_t walk_probe; /* until then, the next id to look for */
} amqp_session_deliveries_t;

typedef struct amqp_link_deliveries {
  amqp_deliveries_t *all;
  amqp_session_deliveries_t *session;
  amqp_link_end_t *end;
  amqp_delivery_t *first, *last; /* the unsettled ones, in their order */
  amqp_delivery_t *current;      /* the first that its receiver has not taken */
  uint32_t untaken;              /* the number of deliveries from `current` on */
  amqp_delivery_t *fresh;        /* its bytes are still in the input */
} amqp_link_deliveries_t;

struct amqp_delivery {
  amqp_link_deliveries_t *link;
  amqp_delivery_t *prev, *next;   /* in the link's list */
  amqp_delivery_t *older, *newer; /* in the register */
  amqp_delivery_t *beside;        /* in the bucket */
  void *context;
  uint32_t id;
  uint32_t format; /* the message-format, of its first transfer (part 2.7.5) */
  bool partial;    /* more frames are to come, or to go */
  bool aborted;
  bool taken;        /* the receiver has taken it: the link's current delivery is a later one */
  bool numbered;     /* it has its id; our deliveries get it with their first transfer */
  bool sent_settled; /* our transfer said that it is settled (part 2.7.5) */
  /* The peer's last state. */
  enum amqp_code code;
  bool settled_by_peer;
  /* Encoded; in the input, so it must be copied with its event. */
  amqp_bytes_t peer_state;
  uint8_t *peer_state_copy;
  /* Unread bytes: their number, and the place of the first ones, in the input or in the first
   * chunk. */
  size_t pending;
  const uint8_t *at;
  size_t run;
  struct amqp_chunk *chunk, *last_chunk;
  /* Our state when we settle it. The last member: its bytes are not cleared for each delivery. */
  amqp_encoded_state_t our_state;
};

/* Free all spare records. */
void amqp_spares_free(amqp_spares_t *spares);

/* ---- Connections */

void amqp_deliveries_free(amqp_deliveries_t *deliveries);

/* Send the outcomes of the run; before a frame that ends a session. */
void amqp_deliveries_tell(amqp_deliveries_t *deliveries);

/* Settle as below in another run than the present one. */
void amqp_deliveries_settle_apart(amqp_deliveries_t *deliveries, const amqp_link_end_t *end,
  uint32_t first, uint32_t last, enum amqp_code code);

/* Settle incoming deliveries without a record, by a range of ids: as accepted, released, or
 * modified, which says that the delivery failed. */
static inline void amqp_deliveries_settle(amqp_deliveries_t *deliveries, const amqp_link_end_t *end,
  uint32_t first, uint32_t last, enum amqp_code code) {
  const bool continues = deliveries->plain == code && deliveries->session == end->session &&
    deliveries->role == AMQP_RECEIVER && first == deliveries->last + 1;
  if (continues) deliveries->last = last;
  else amqp_deliveries_settle_apart(deliveries, end, first, last, code);
}

/* ---- Sessions */

/* Free the memory of a session without deliveries. */
void amqp_session_deliveries_free(amqp_session_deliveries_t *session);

/* Walk over our deliveries in a role with ids in a range. Any delivery may be dropped during the
 * walk. */
void amqp_walk(
  amqp_session_deliveries_t *session, enum amqp_role role, uint32_t first, uint32_t last);

/* Take a step, of constant cost, to the first delivery of the walk; return whether it was the last
 * step. */
bool amqp_walk_seek(amqp_session_deliveries_t *session);

static inline bool amqp_walk_has(
  const amqp_session_deliveries_t *session, const amqp_delivery_t *delivery) {
  return delivery->id - session->walk_first <= session->walk_last - session->walk_first;
}

/* A delivery that the walk comes to `steps` deliveries later, or another of the same register; NULL
 * for none. */
static inline const amqp_delivery_t *amqp_walk_later(
  const amqp_session_deliveries_t *session, const amqp_delivery_t *delivery, uint32_t steps) {
  const amqp_register_t *deliveries = &session->registers[session->walk_role];
  return deliveries->buckets[(delivery->id + steps) & (deliveries->capacity - 1)];
}

/* Fetch the memory of later deliveries and of their contexts: where very many are unsettled, it is
 * in no cache. */
static inline void amqp_walk_ahead(
  const amqp_session_deliveries_t *session, const amqp_delivery_t *delivery) {
  const char *later = (const char *) amqp_walk_later(session, delivery, 8);
  for (size_t at = 0; later && at < sizeof *delivery; at += 64) __builtin_prefetch(later + at);
  const amqp_delivery_t *sooner = amqp_walk_later(session, delivery, 4);
  if (sooner) __builtin_prefetch(sooner->context);
}

/* After the last step: return the next delivery of the walk, or NULL. */
static inline amqp_delivery_t *amqp_walk_next(amqp_session_deliveries_t *session) {
  amqp_delivery_t *delivery = session->walk;
  if (!delivery || !amqp_walk_has(session, delivery)) return NULL;
  session->walk = delivery->newer;
  amqp_walk_ahead(session, delivery);
  return delivery;
}

/* ---- Links */

/* Drop all deliveries of a link that has ended. The peer is not told. */
void amqp_link_deliveries_drop(amqp_link_deliveries_t *link);

/* ---- Incoming deliveries */

/* Note an incoming transfer; false without memory. Its delivery is the link's `fresh` one until
 * amqp_delivery_keep, which has to be called before the next event. */
bool amqp_delivery_arrive(amqp_link_deliveries_t *link, const amqp_arrival_t *arrival);

/* Copy the unread bytes of the fresh delivery; false without memory. */
bool amqp_delivery_keep(amqp_link_deliveries_t *link);

/* Say whether a delivery's unread bytes are in the input, where the next event overwrites them. */
static inline bool amqp_delivery_is_fresh(const amqp_delivery_t *delivery) {
  return delivery->link->fresh == delivery;
}

/* Take unread bytes: the first `size` of them, at most `pending`, are read. */
void amqp_delivery_take(amqp_delivery_t *delivery, size_t size);

/* Move up to `size` unread bytes to `out`; return how many. */
size_t amqp_delivery_read(amqp_delivery_t *delivery, void *out, size_t size);

/* Make the next delivery the link's current one, although this one is not settled yet. */
void amqp_delivery_advance(amqp_delivery_t *delivery);

/* Keep the peer's state beyond its event; false without memory. */
bool amqp_delivery_keep_said(amqp_delivery_t *delivery);

/* ---- Outgoing deliveries */

/* The two parts of a payload. The rest goes by reference if it has a hold. */
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

/* Say whether a frame of a delivery may go out: none follows our own detach or end. */
static inline bool amqp_delivery_may_go(const amqp_delivery_t *delivery) {
  if (!delivery->numbered) return amqp_delivery_may_begin(delivery->link);
  const amqp_link_end_t *end = delivery->link->end;
  return end->phase[AMQP_OURS] == AMQP_ACTIVE && end->session->counts.remote_incoming_window > 0;
}

/* Make an outgoing delivery, of format 0 unless the caller sets another; NULL without memory. It
 * gets its id and takes credit with its first frame, because ids have to go out in order. */
amqp_delivery_t *amqp_delivery_begin(amqp_link_deliveries_t *link);

/* Frame bytes of a delivery, as far as the window goes, and return their number. After the last
 * byte the delivery is not partial any more. The tag, of up to 32 bytes, is for the first frame. */
size_t amqp_delivery_send(
  amqp_delivery_t *delivery, amqp_bytes_t tag, const amqp_parts_t *parts, bool last, bool settled);

/* Begin a delivery of format 0 and send all of it in one frame, as amqp_delivery_begin and
 * amqp_delivery_send would; a large payload goes by reference. NULL, and nothing is sent, if the
 * peer does not take it now, if it needs more than one frame, or without memory. */
amqp_delivery_t *amqp_delivery_send_whole(amqp_link_deliveries_t *link, amqp_bytes_t tag,
  amqp_bytes_t payload, amqp_hold_t *hold, bool settled);

/* Abort a delivery (part 2.7.5), and free the record. An abort is a transfer, so it may have to
 * wait for the window. */
void amqp_delivery_abort(amqp_delivery_t *delivery);

/* Send the aborts that waited, when the session's window has grown. */
void amqp_session_deliveries_catch_up(amqp_session_deliveries_t *session);

/* ---- Our states */

/* An outcome without fields. */
void amqp_delivery_say(amqp_delivery_t *delivery, enum amqp_code code);
void amqp_delivery_say_modified(amqp_delivery_t *delivery, bool failed, bool undeliverable);
/* Without memory for the reason, it is rejected without one. A transaction's `id` makes it that
   transaction's outcome; NULL outside of transactions. */
void amqp_delivery_say_rejected(
  amqp_delivery_t *delivery, const void *id, const char *condition, const char *description);
/* A transaction's id of 8 bytes: declared, or an outcome within it (parts 4.5.5 and 4.5.8). */
void amqp_delivery_say_declared(amqp_delivery_t *delivery, const void *id);
void amqp_delivery_say_enlisted(amqp_delivery_t *delivery, const void *id, enum amqp_code outcome);
/* The state of another delivery's peer. */
void amqp_delivery_say_as(amqp_delivery_t *delivery, amqp_bytes_t state);

/* Send our state of a delivery that is not settled: its receiver answers first. */
void amqp_delivery_tell(amqp_delivery_t *delivery);

/* Settle a delivery, tell the peer unless the peer settled it first, and free the record. */
void amqp_delivery_settle(amqp_delivery_t *delivery);

/* Free the record. The peer is not told. */
void amqp_delivery_drop(amqp_delivery_t *delivery);

#endif
