/* The data plane of a connection: incoming bytes become events, and answers become bytes.
 *
 * No sockets, no engine, no policy: a user fills the input, asks for events until there are no
 * more, feeds the engine its frames, and writes the output. */
#ifndef QUIVER_AMQP_PLANE_H
#define QUIVER_AMQP_PLANE_H

#include "endpoints.h"
#include "frames_out.h"
#include "input.h"
#include "output.h"
#include "settlement.h"

enum amqp_event {
  AMQP_NOTHING,    /* more bytes are needed */
  AMQP_ARRIVAL,    /* a transfer frame: plane->arrival */
  AMQP_OUTCOME,    /* a disposition: plane->disposition */
  AMQP_CREDIT,     /* a flow was counted: plane->link, NULL for a flow of the session only */
  AMQP_FOR_ENGINE, /* plane->control has to be fed to the engine before the next event */
  AMQP_REFUSED,    /* the peer broke the protocol: plane->refusal */
  AMQP_NO_MEMORY,
  AMQP_DROPPED, /* a transfer for a link or session that we closed: plane->arrival, without its
                   bytes; its link is NULL for a session */
  AMQP_ENDING,  /* an end follows: this is the last time to answer the begin of plane->session */
};

/* What the peer's next bytes are. The values are ordered: no layer is left for one before it. */
enum amqp_layer {
  AMQP_LAYER_NONE,    /* its first header */
  AMQP_LAYER_SASL,    /* frames of SASL */
  AMQP_LAYER_SECURED, /* AMQP's header, after SASL's outcome */
  AMQP_LAYER_AMQP,    /* frames of AMQP */
};

/* The endpoint that a refusal closes. */
enum amqp_extent {
  AMQP_OF_LINK,
  AMQP_OF_SESSION,
  AMQP_OF_CONNECTION,
};

typedef struct amqp_refusal {
  enum amqp_extent extent;
  const char *condition; /* a symbol of AMQP's */
  const char *why;
} amqp_refusal_t;

/* A transfer frame, checked and counted. */
typedef struct amqp_arrival {
  amqp_link_end_t *link;
  uint32_t delivery_id;
  uint32_t message_format;
  bool first;       /* of its delivery */
  bool more;        /* frames of the delivery are still to come */
  bool aborted;     /* forget all of the delivery */
  bool settled;     /* its sender wants no outcome */
  amqp_bytes_t tag; /* of the first frame */
  amqp_bytes_t state;
  amqp_bytes_t payload; /* in the input's buffer */
} amqp_arrival_t;

typedef struct amqp_plane {
  amqp_input_t input;
  amqp_output_t output;
  amqp_endpoints_t endpoints;
  uint32_t max_frame_size; /* ours */
  bool lenient;            /* accept deliveries beyond the credit: RabbitMQ 3 sends them */
  enum amqp_layer layer;
  bool demands_sasl; /* the engine refuses a peer that begins with AMQP's header */
  bool held;         /* the user owes an answer within SASL: no events until then */
  /* The last frame of our engine that was too large for the peer: it went out in a shorter form, or
   * not at all. */
  enum amqp_code shortened;
  bool unfit; /* not at all: the user has to close the connection */
  /* The beginning of a frame whose rest our engine has not written yet. */
  uint8_t *begun;
  size_t begun_size;
  size_t frame_size; /* of the incomplete frame; 0 if unknown */
  size_t passed;     /* bytes of the last event, which the next call skips */
  bool ending;       /* AMQP_ENDING was told, so the next call takes the end */
  /* The last event. */
  amqp_arrival_t arrival;
  amqp_bytes_t lost; /* the state of a transfer that is refused or dropped: the user resets it */
  amqp_disposition_t disposition;
  amqp_session_end_t *session; /* NULL for the engine's events and for a refused connection */
  amqp_link_end_t *link;       /* NULL too for events of a session alone */
  amqp_bytes_t control;
  amqp_refusal_t refusal;
  /* The link of the last transfer, and most likely of the next one. */
  amqp_link_end_t *recent;
  /* The likeness of its whole and unsettled deliveries. */
  amqp_likeness_t likeness;
} amqp_plane_t;

/* Return the size of the largest frame that the peer takes: 512 bytes before its open (part 2.4.1).
 */
static inline size_t amqp_plane_most(const amqp_plane_t *plane) {
  return plane->endpoints.opened[AMQP_THEIRS].max_frame_size;
}

/* Begin with nothing; see amqp_index_init for the seed. */
void amqp_plane_init(amqp_plane_t *plane, uint32_t max_frame_size, uint64_t seed);
void amqp_plane_free(amqp_plane_t *plane);

/* ---- In */

/* Return the next event of the input. Its pointers are valid until the next call. */
enum amqp_event amqp_plane_next(amqp_plane_t *plane);

/* SASL has succeeded: the user has judged the outcome. Until then no AMQP is accepted. */
void amqp_plane_secure(amqp_plane_t *plane);

/* Read once from a source, after AMQP_NOTHING. Returns the source's result. */
ssize_t amqp_plane_fill(amqp_plane_t *plane, amqp_source_t source, void *from);

/* Return the bytes of an incomplete frame: the engine judges them at the peer's end. */
amqp_bytes_t amqp_plane_rest(const amqp_plane_t *plane);

/* ---- Out. Each returns false, and writes nothing, for lack of memory. */

/* Append the engine's frames and headers to the output, and learn from them. The bytes may end
 * within a frame, whose rest then comes with the next call: the engine's buffer does not grow for
 * a frame that is larger than the peer takes.
 * A refusal of our own engine's frames is a fault in the program. */
bool amqp_plane_drain(amqp_plane_t *plane, amqp_bytes_t bytes);

/* Send a flow of a session, and of a link of it unless that is NULL; nothing unless ours are begun
 * and attached. */
bool amqp_plane_flow(
  amqp_plane_t *plane, amqp_session_end_t *session, amqp_link_end_t *link, bool echo);

/* Give a receiver's link more credit, and send a flow. */
bool amqp_plane_credit(amqp_plane_t *plane, amqp_link_end_t *link, uint32_t more, bool drain);

/* Send the outcome of a range of deliveries. */
bool amqp_plane_answer(
  amqp_plane_t *plane, amqp_session_end_t *session, const amqp_disposition_t *disposition);

/* Send a run of accepted or released incoming deliveries, and empty the run. */
bool amqp_plane_answer_run(amqp_plane_t *plane, amqp_session_end_t *session, amqp_run_t *run);

/* Send an empty frame, a heartbeat; nothing before our open frame. */
bool amqp_plane_beat(amqp_plane_t *plane);

#endif
