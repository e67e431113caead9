/* The endpoints of a connection (part 2.5 to 2.6), learned from the frames that open and close
 * them: open, begin, attach, detach, end. The engine makes ours and judges the peer's; here we
 * read the fields that transfers, flows and dispositions need. */
#ifndef QUIVER_AMQP_ENDPOINTS_H
#define QUIVER_AMQP_ENDPOINTS_H

#include "index.h"
#include "session.h"

/* The sender of a frame. */
enum amqp_side {
  AMQP_OURS = 0,
  AMQP_THEIRS = 1,
};

/* The state of an endpoint on one side. */
enum amqp_phase {
  AMQP_BEFORE, /* not begun, or not attached */
  AMQP_ACTIVE, /* begun, or attached */
  AMQP_CLOSED, /* ended, or detached */
};

/* Fields of the open frames; arrays have an entry for each side. */
typedef struct amqp_opened {
  bool seen;
  bool unfit; /* its max-frame-size is too small, and only a close may follow */
  uint32_t max_frame_size;
  uint16_t channel_max;
  bool has_idle_timeout;
  uint32_t idle_timeout; /* in ms */
} amqp_opened_t;

/* A delivery whose first frames the receiver has (part 2.6.14). */
typedef struct amqp_incoming {
  bool open;
  bool settled;
  uint32_t delivery_id;
  uint32_t message_format;
} amqp_incoming_t;

typedef struct amqp_session_end amqp_session_end_t;

/* Its session owns it until both sides have detached it and it has no user. */
typedef struct amqp_link_end {
  amqp_session_end_t *session;
  struct amqp_link_end *prev, *next; /* in the session's list */
  /* In the list of links that only one side has attached so far. */
  struct amqp_link_end *prev_half, *next_half;
  uint8_t *name;
  size_t name_size;
  enum amqp_role role; /* ours */
  enum amqp_phase phase[2];
  uint32_t handle[2];
  uint8_t snd_settle_mode[2];
  uint8_t rcv_settle_mode[2];
  uint64_t max_message_size[2]; /* 0 for none */
  amqp_link_t counts;
  bool unfit;                   /* our attach did not fit, and refuses it: detach the link */
  bool displaced;               /* the engine knows already that the peer detached it */
  amqp_bytes_t default_outcome; /* of the peer's source (part 3.5.3); ours echoes it */
  const char *flaw;             /* the reason to refuse the attach, or NULL */
  amqp_incoming_t incoming;     /* the delivery whose frames are still coming */
  size_t attach_size;           /* bytes of the fields of the peer's attach */
  size_t held;                  /* by the peer's attach; see amqp_endpoints_t */
  size_t values;                /* the part of it that the user counted */
  void *user;                   /* keeps the link in memory; see amqp_link_end_release */
} amqp_link_end_t;

/* The connection owns it until both sides have ended it, it has no links and no user. */
struct amqp_session_end {
  struct amqp_session_end *next;
  amqp_link_end_t *links;
  amqp_link_end_t *halves, *last_half; /* the oldest first: answers come in order */
  enum amqp_phase phase[2];
  uint16_t channel[2];
  uint32_t handle_max[2];
  uint32_t attached[2]; /* handles in use */
  uint32_t window;      /* incoming, topped up at its half; 0 if the user tops it up */
  amqp_session_t counts;
  bool has_arrived;       /* a delivery has come, so the next id is known */
  uint32_t next_arriving; /* a lenient plane does not count it */
  void *user;             /* keeps the session in memory; see amqp_session_end_release */
};

/* Say whether the plane has to top up a session's window: half of it is used up. */
static inline bool amqp_session_end_is_low(const amqp_session_end_t *session) {
  return session->counts.incoming_window < session->window / 2 + session->window % 2;
}

typedef struct amqp_endpoints {
  amqp_opened_t opened[2];
  bool takes_refusal; /* the peer may refuse our open by an unfit one and a close */
  amqp_session_end_t *sessions;
  amqp_index_t index; /* of active sessions and links of a side, by channel and handle */
  /* The link that the last frame attached or detached. */
  amqp_link_end_t *attached;
  bool detached_displaced;
  /* Bytes that the peer's open and its links hold, with the engine's copies. */
  size_t held;
} amqp_endpoints_t;

/* Begin without sessions; see amqp_index_init for the seed. */
void amqp_endpoints_init(amqp_endpoints_t *endpoints, uint64_t seed);
void amqp_endpoints_free(amqp_endpoints_t *endpoints);

/* Note a frame of the kind AMQP_FRAME_CONTROL; frames of SASL are skipped. After a fault nothing is
 * noted, and the connection has to be closed with its condition. `*memory` becomes false for lack
 * of memory. */
enum amqp_fault amqp_endpoints_note(
  amqp_endpoints_t *endpoints, enum amqp_side side, const amqp_frame_t *frame, bool *memory);

/* Return the session of a side on a channel, or NULL. */
amqp_session_end_t *amqp_endpoints_session(
  const amqp_endpoints_t *endpoints, enum amqp_side side, uint16_t channel);

/* Return the link with a handle of a side, or NULL. */
amqp_link_end_t *amqp_endpoints_link(
  const amqp_endpoints_t *endpoints, enum amqp_side side, uint16_t channel, uint32_t handle);

/* Return the latest link with a name, our role, and no user. */
amqp_link_end_t *amqp_session_link(
  const amqp_session_end_t *session, const char *name, size_t size, enum amqp_role role);

/* Return the link with the name and role of a link that the peer attached before in its session,
 * and has not detached; NULL for none. */
amqp_link_end_t *amqp_link_end_before(const amqp_link_end_t *link);

/* Count what the engine's decoded values of a link's attach hold, until the link is freed. */
void amqp_link_end_hold(amqp_endpoints_t *endpoints, amqp_link_end_t *link, size_t values);

/* Remove a link's user; a link that is closed on both sides is freed now. */
void amqp_link_end_release(amqp_endpoints_t *endpoints, amqp_link_end_t *link);

/* The same for a session. */
void amqp_session_end_release(amqp_endpoints_t *endpoints, amqp_session_end_t *session);

#endif
