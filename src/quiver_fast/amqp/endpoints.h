/* The endpoints of a connection (part 2.5 to 2.6), learned from the frames that open and close
 * them: open, begin, attach, detach, end. The engine makes ours and judges the peer's; here
 * they are read as they pass, for what transfers, flows and dispositions need of them. */
#ifndef QUIVER_AMQP_ENDPOINTS_H
#define QUIVER_AMQP_ENDPOINTS_H

#include "index.h"
#include "session.h"

/* Who sent a frame. */
enum amqp_side {
  AMQP_OURS = 0,
  AMQP_THEIRS = 1,
};

/* How far an endpoint is on one side. */
enum amqp_phase {
  AMQP_BEFORE, /* nothing was said of it */
  AMQP_ACTIVE, /* begun, or attached */
  AMQP_CLOSED, /* ended, or detached */
};

/* What the open frames say; arrays have an entry for each side. */
typedef struct amqp_opened {
  bool seen;
  uint32_t max_frame_size;
  uint16_t channel_max;
  bool has_idle_timeout;
  uint32_t idle_timeout; /* in ms */
} amqp_opened_t;

/* A delivery that a receiver has the first frames of (part 2.6.14). */
typedef struct amqp_incoming {
  bool open;
  bool settled;
  uint32_t delivery_id;
  uint32_t message_format;
} amqp_incoming_t;

typedef struct amqp_session_end amqp_session_end_t;

typedef struct amqp_link_end {
  amqp_session_end_t *session;
  struct amqp_link_end *prev, *next; /* of the session */
  /* The links that only one side has attached so far. */
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
  bool displaced;               /* the engine was told already that the peer detached it */
  amqp_bytes_t default_outcome; /* that the peer's source names (part 3.5.3); ours echoes it */
  const char *flaw;             /* why the attach is to be refused; NULL for no reason */
  amqp_incoming_t incoming;     /* the delivery of which frames are to come */
  void *user;                   /* while there is one, the link stays; see amqp_link_end_release */
} amqp_link_end_t;

struct amqp_session_end {
  struct amqp_session_end *next;
  amqp_link_end_t *links;
  amqp_link_end_t *halves, *last_half; /* the oldest first: answers come in order */
  enum amqp_phase phase[2];
  uint16_t channel[2];
  uint32_t handle_max[2];
  uint32_t attached[2]; /* handles in use */
  uint32_t window;      /* of transfers to us, given again at its half; 0 where the user gives it */
  amqp_session_t counts;
  bool has_arrived;       /* a delivery has come: the next one's id is known */
  uint32_t next_arriving; /* not counted by who is lenient */
  void *user;             /* likewise; see amqp_session_end_release */
};

/* Say whether half of a session's window is used up, of which nobody else takes care. */
static inline bool amqp_session_end_is_low(const amqp_session_end_t *session) {
  return session->counts.incoming_window < session->window / 2 + session->window % 2;
}

typedef struct amqp_endpoints {
  amqp_opened_t opened[2];
  amqp_session_end_t *sessions;
  uint32_t orphans;   /* sessions that one side ended before the other began them */
  amqp_index_t index; /* of what is active on a side, by channel and handle */
  /* Of the last frame: the link that it attached or detached. */
  amqp_link_end_t *attached;
  bool detached_displaced;
} amqp_endpoints_t;

/* Begin without sessions; see amqp_index_init for the seed. */
void amqp_endpoints_init(amqp_endpoints_t *endpoints, uint64_t seed);
void amqp_endpoints_free(amqp_endpoints_t *endpoints);

/* Note a frame of the kind AMQP_FRAME_CONTROL that passed; those of SASL are passed over. A
 * fault is of the frame, and nothing of it was noted: the connection has to be closed with its
 * condition. `*memory` is set to false for lack of memory. */
enum amqp_fault amqp_endpoints_note(
  amqp_endpoints_t *endpoints, enum amqp_side side, const amqp_frame_t *frame, bool *memory);

/* Return the session that a side has on a channel, or NULL. */
amqp_session_end_t *amqp_endpoints_session(
  const amqp_endpoints_t *endpoints, enum amqp_side side, uint16_t channel);

/* Return the link to which a side gave a handle, or NULL. */
amqp_link_end_t *amqp_endpoints_link(
  const amqp_endpoints_t *endpoints, enum amqp_side side, uint16_t channel, uint32_t handle);

/* Return the link of that name whose end of ours has that role; the latest, where the name was
 * used before. */
amqp_link_end_t *amqp_session_link(
  const amqp_session_end_t *session, const char *name, size_t size, enum amqp_role role);

/* Let a link's user go: a link that is closed on both sides is freed now. */
void amqp_link_end_release(amqp_endpoints_t *endpoints, amqp_link_end_t *link);

/* The same for a session. */
void amqp_session_end_release(amqp_endpoints_t *endpoints, amqp_session_end_t *session);

#endif
