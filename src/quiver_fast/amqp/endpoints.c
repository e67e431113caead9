/* Reading open, begin, attach, detach and end frames. */

#include "endpoints.h"

#include <stdlib.h>
#include <string.h>

/* Part 2.4.1: the limits of an open frame that names none. */
#define ANY_FRAME_SIZE UINT32_MAX
#define ANY_CHANNEL UINT16_MAX
/* Part 2.7.3: the sender's default is mixed, the receiver's is first. */
#define MIXED 2
/* A default outcome that is longer is refused. */
#define LONGEST_OUTCOME 1024
/* So is a longer name: clients put an address and two ids into it. */
#define LONGEST_NAME 2048
/* What a link holds here and in the engine without the bytes of its attach. */
#define LINK_HELD 2048
/* The copies of a frame's fields: the peer's and ours, here and in the engine. */
#define COPIES 4

/* ---- Keys of the index */

enum kind {
  SESSION = 0,
  LINK = 1,
};

static uint64_t key_of(enum kind kind, enum amqp_side side, uint16_t channel, uint32_t handle) {
  return (uint64_t) kind << 49 | (uint64_t) side << 48 | (uint64_t) channel << 32 | handle;
}

amqp_session_end_t *amqp_endpoints_session(
  const amqp_endpoints_t *endpoints, enum amqp_side side, uint16_t channel) {
  return amqp_index_find(&endpoints->index, key_of(SESSION, side, channel, 0));
}

amqp_link_end_t *amqp_endpoints_link(
  const amqp_endpoints_t *endpoints, enum amqp_side side, uint16_t channel, uint32_t handle) {
  return amqp_index_find(&endpoints->index, key_of(LINK, side, channel, handle));
}

static uint64_t link_key(const amqp_link_end_t *link, enum amqp_side side) {
  return key_of(LINK, side, link->session->channel[side], link->handle[side]);
}

static enum amqp_side other(enum amqp_side side) {
  return side == AMQP_OURS ? AMQP_THEIRS : AMQP_OURS;
}

/* ---- Life and death */

void amqp_endpoints_init(amqp_endpoints_t *endpoints, uint64_t seed) {
  *endpoints = (amqp_endpoints_t) {0};
  amqp_index_init(&endpoints->index, seed);
  for (int side = 0; side < 2; side++) {
    /* No more than this may be sent before the peer's open (part 2.4.1). */
    endpoints->opened[side].max_frame_size = AMQP_MIN_MAX_FRAME_SIZE;
    endpoints->opened[side].channel_max = ANY_CHANNEL;
  }
}

static void free_link(amqp_link_end_t *link) {
  free(link->name);
  free((void *) link->default_outcome.start);
  free(link);
}

static void free_session(amqp_session_end_t *session) {
  while (session->links) {
    amqp_link_end_t *link = session->links;
    session->links = link->next;
    free_link(link);
  }
  free(session);
}

void amqp_endpoints_free(amqp_endpoints_t *endpoints) {
  while (endpoints->sessions) {
    amqp_session_end_t *session = endpoints->sessions;
    endpoints->sessions = session->next;
    free_session(session);
  }
  amqp_index_free(&endpoints->index);
}

static bool is_over(const enum amqp_phase *phase) {
  return phase[AMQP_OURS] == AMQP_CLOSED && phase[AMQP_THEIRS] == AMQP_CLOSED;
}

static void forget_session(amqp_endpoints_t *endpoints, amqp_session_end_t *session) {
  if (session->links || session->user || !is_over(session->phase)) return;
  amqp_session_end_t **at = &endpoints->sessions;
  while (*at != session) at = &(*at)->next;
  *at = session->next;
  free(session);
}

static void forget_link(amqp_endpoints_t *endpoints, amqp_link_end_t *link) {
  if (link->user || !is_over(link->phase)) return;
  endpoints->held -= link->held;
  if (link->prev) link->prev->next = link->next;
  else link->session->links = link->next;
  if (link->next) link->next->prev = link->prev;
  free_link(link);
}

void amqp_link_end_hold(amqp_endpoints_t *endpoints, amqp_link_end_t *link, size_t values) {
  const size_t more = values - link->values;
  link->values = values;
  link->held += more;
  endpoints->held += more;
}

void amqp_link_end_release(amqp_endpoints_t *endpoints, amqp_link_end_t *link) {
  amqp_session_end_t *session = link->session;
  link->user = NULL;
  forget_link(endpoints, link);
  forget_session(endpoints, session);
}

void amqp_session_end_release(amqp_endpoints_t *endpoints, amqp_session_end_t *session) {
  session->user = NULL;
  forget_session(endpoints, session);
}

/* ---- Open (part 2.7.1) */

static void pass(amqp_fields_t *fields, int count) {
  while (count--) amqp_field_any(fields);
}

static size_t bytes_left(const amqp_fields_t *fields) {
  return (size_t) (fields->in.end - fields->in.at);
}

static enum amqp_fault note_open(
  amqp_endpoints_t *endpoints, enum amqp_side side, amqp_fields_t fields) {
  bool there;
  amqp_opened_t opened = {.seen = true};
  const size_t size = bytes_left(&fields);
  pass(&fields, 2); /* container-id, hostname */
  opened.max_frame_size = amqp_field_optional_uint(&fields, &there);
  if (!there) opened.max_frame_size = ANY_FRAME_SIZE;
  opened.channel_max = amqp_field_optional_ushort(&fields, &there);
  if (!there) opened.channel_max = ANY_CHANNEL;
  opened.idle_timeout = amqp_field_optional_uint(&fields, &opened.has_idle_timeout);
  if (fields.in.fault) return fields.in.fault;
  opened.unfit = opened.max_frame_size < AMQP_MIN_MAX_FRAME_SIZE;
  if (opened.unfit) {
    /* Broker-J refuses a connection by a max-frame-size of 0, and says why in its close. */
    if (side == AMQP_OURS || !endpoints->takes_refusal) return AMQP_INVALID_FIELD;
    opened.max_frame_size = AMQP_MIN_MAX_FRAME_SIZE;
  }
  if (endpoints->opened[side].seen) return AMQP_ILLEGAL_STATE;
  endpoints->opened[side] = opened;
  if (side == AMQP_THEIRS) endpoints->held += COPIES * size;
  return AMQP_FINE;
}

/* ---- Begin (part 2.7.2) */

typedef struct begin {
  bool answers;
  uint16_t remote_channel;
  uint32_t next_outgoing_id, incoming_window, outgoing_window, handle_max;
} begin_t;

static enum amqp_fault read_begin(amqp_fields_t *fields, begin_t *begin) {
  bool there;
  begin->remote_channel = amqp_field_optional_ushort(fields, &begin->answers);
  begin->next_outgoing_id = amqp_field_mandatory_uint(fields);
  begin->incoming_window = amqp_field_mandatory_uint(fields);
  begin->outgoing_window = amqp_field_mandatory_uint(fields);
  begin->handle_max = amqp_field_optional_uint(fields, &there);
  if (!there) begin->handle_max = UINT32_MAX;
  return fields->in.fault;
}

/* Return the session that a begin answers, or NULL: the other side has begun it on that channel,
 * and has not ended it. */
static amqp_session_end_t *answered(
  const amqp_endpoints_t *endpoints, enum amqp_side side, uint16_t channel) {
  amqp_session_end_t *session = amqp_endpoints_session(endpoints, other(side), channel);
  return session && session->phase[side] == AMQP_BEFORE ? session : NULL;
}

static amqp_session_end_t *new_session(amqp_endpoints_t *endpoints) {
  amqp_session_end_t *session = calloc(1, sizeof *session);
  if (!session) return NULL;
  session->next = endpoints->sessions;
  endpoints->sessions = session;
  return session;
}

static void count_begin(amqp_session_end_t *session, enum amqp_side side, const begin_t *begin) {
  if (side == AMQP_OURS) {
    session->window = begin->incoming_window;
    amqp_session_begin_ours(&session->counts, begin->next_outgoing_id, begin->incoming_window);
  } else {
    amqp_session_begin_theirs(
      &session->counts, begin->next_outgoing_id, begin->incoming_window, begin->outgoing_window);
  }
}

static enum amqp_fault note_begin(amqp_endpoints_t *endpoints, enum amqp_side side,
  uint16_t channel, amqp_fields_t fields, bool *memory) {
  begin_t begin;
  const enum amqp_fault fault = read_begin(&fields, &begin);
  if (fault) return fault;
  if (channel > endpoints->opened[other(side)].channel_max) return AMQP_FRAMING_ERROR;
  if (amqp_endpoints_session(endpoints, side, channel)) return AMQP_NOT_ALLOWED;
  amqp_session_end_t *session = NULL;
  if (begin.answers) {
    session = answered(endpoints, side, begin.remote_channel);
    if (!session) return AMQP_INVALID_FIELD;
  } else {
    session = new_session(endpoints);
  }
  *memory =
    session && amqp_index_add(&endpoints->index, key_of(SESSION, side, channel, 0), session);
  if (!*memory) return AMQP_FINE;
  session->phase[side] = AMQP_ACTIVE;
  session->channel[side] = channel;
  session->handle_max[side] = begin.handle_max;
  count_begin(session, side, &begin);
  return AMQP_FINE;
}

/* ---- Attach (part 2.7.3) */

typedef struct attach {
  amqp_bytes_t name;
  uint32_t handle;
  enum amqp_role role; /* ours, also in a frame of the peer */
  uint8_t snd_settle_mode, rcv_settle_mode;
  uint32_t initial_count;
  uint64_t max_message_size;
  amqp_bytes_t default_outcome;
  const char *flaw;
} attach_t;

/* Return the fields of the terminus that is the next field; none if it is null. */
static amqp_fields_t read_terminus(amqp_fields_t *fields) {
  const amqp_bytes_t terminus = amqp_field_any(fields);
  amqp_reader_t in = {terminus.start, terminus.start + terminus.size, AMQP_FINE};
  if (!terminus.start) return (amqp_fields_t) {in, 0};
  amqp_read_descriptor(&in);
  return amqp_read_list(&in);
}

/* Judge the address of a terminus: the engine's strings end at a NUL. A coordinator's first field
 * is no string. */
static void read_address(amqp_fields_t *terminus, attach_t *attach) {
  const amqp_bytes_t address = amqp_field_string(terminus);
  if (address.start && memchr(address.start, 0, address.size))
    attach->flaw = "an address has a NUL byte";
}

/* Read the default outcome of a source whose address was read (part 3.5.3). */
static void read_default_outcome(amqp_fields_t *source, attach_t *attach) {
  pass(source, 7); /* durable to filter */
  attach->default_outcome = amqp_field_any(source);
  amqp_state_t state;
  if (!attach->default_outcome.start) return;
  if (attach->default_outcome.size > LONGEST_OUTCOME ||
    amqp_read_state(attach->default_outcome, &state) || state.code < AMQP_CODE_ACCEPTED ||
    state.code > AMQP_CODE_MODIFIED)
    attach->flaw = "the default outcome is none";
}

static enum amqp_fault read_attach(amqp_fields_t *fields, enum amqp_side side, attach_t *attach) {
  bool there;
  attach->flaw = NULL;
  attach->name = amqp_field_string(fields);
  attach->handle = amqp_field_mandatory_uint(fields);
  const bool receives = amqp_field_mandatory_boolean(fields);
  attach->role = receives == (side == AMQP_OURS) ? AMQP_RECEIVER : AMQP_SENDER;
  attach->snd_settle_mode = amqp_field_optional_ubyte(fields, &there);
  if (!there) attach->snd_settle_mode = MIXED;
  attach->rcv_settle_mode = amqp_field_optional_ubyte(fields, &there);
  amqp_fields_t source = read_terminus(fields);
  read_address(&source, attach);
  read_default_outcome(&source, attach);
  amqp_fields_t target = read_terminus(fields);
  read_address(&target, attach);
  pass(fields, 1); /* unsettled */
  /* With an incomplete map only old deliveries may be sent (part 2.7.3), and we resume none. */
  if (amqp_field_boolean(fields, false)) attach->flaw = "an incomplete unsettled map";
  /* A sender has to name it; a sender that does not counts from 0. */
  attach->initial_count = amqp_field_optional_uint(fields, &there);
  attach->max_message_size = amqp_field_optional_ulong(fields, &there);
  if (fields->in.fault) return fields->in.fault;
  /* Mandatory; the code that answers the attach refuses an attach without it. */
  if (!attach->name.start) {
    attach->name = (amqp_bytes_t) {(const uint8_t *) "", 0};
    attach->flaw = "the attach has no name";
  }
  if (attach->name.size > LONGEST_NAME) attach->flaw = "a link's name has more than 2048 bytes";
  if (attach->snd_settle_mode > MIXED || attach->rcv_settle_mode > AMQP_SECOND)
    return AMQP_INVALID_FIELD;
  return AMQP_FINE;
}

static bool has_name(const amqp_link_end_t *link, const void *name, size_t size) {
  return link->name_size == size && !memcmp(link->name, name, size);
}

static bool is_half(const amqp_session_end_t *session, const amqp_link_end_t *link) {
  return link->prev_half || session->halves == link;
}

static void remove_half(amqp_session_end_t *session, amqp_link_end_t *link) {
  if (!is_half(session, link)) return;
  if (link->prev_half) link->prev_half->next_half = link->next_half;
  else session->halves = link->next_half;
  if (link->next_half) link->next_half->prev_half = link->prev_half;
  else session->last_half = link->prev_half;
  link->prev_half = link->next_half = NULL;
}

/* Take the link with the name and role of an attach, which its sender has not attached yet, out of
 * the halves; NULL if there is none. */
static amqp_link_end_t *take_half(
  amqp_session_end_t *session, enum amqp_side side, const attach_t *attach) {
  for (amqp_link_end_t *link = session->halves; link; link = link->next_half) {
    if (link->phase[side] != AMQP_BEFORE || link->role != attach->role) continue;
    if (!has_name(link, attach->name.start, attach->name.size)) continue;
    remove_half(session, link);
    return link;
  }
  return NULL;
}

static void add_half(amqp_session_end_t *session, amqp_link_end_t *link) {
  link->prev_half = session->last_half;
  if (link->prev_half) link->prev_half->next_half = link;
  else session->halves = link;
  session->last_half = link;
}

static amqp_link_end_t *new_link(
  amqp_session_end_t *session, enum amqp_side side, const attach_t *attach) {
  amqp_link_end_t *link = calloc(1, sizeof *link);
  if (!link) return NULL;
  /* A name may be empty; memory of no size may be NULL. */
  link->name = malloc(attach->name.size + 1);
  if (!link->name) {
    free(link);
    return NULL;
  }
  memcpy(link->name, attach->name.start, attach->name.size);
  link->name_size = attach->name.size;
  link->role = attach->role;
  link->session = session;
  link->next = session->links;
  if (link->next) link->next->prev = link;
  session->links = link;
  /* The other side sends nothing more on a session that it ended. */
  if (session->phase[other(side)] == AMQP_CLOSED) link->phase[other(side)] = AMQP_CLOSED;
  else add_half(session, link);
  return link;
}

/* Copy the default outcome of the peer's attach; false without memory. */
static bool keep_default_outcome(amqp_link_end_t *link, amqp_bytes_t outcome) {
  uint8_t *copy = outcome.size ? malloc(outcome.size) : NULL;
  if (!copy) return outcome.size == 0;
  memcpy(copy, outcome.start, outcome.size);
  link->default_outcome = (amqp_bytes_t) {copy, outcome.size};
  return true;
}

static void activate(amqp_link_end_t *link, enum amqp_side side, const attach_t *attach) {
  const bool from_sender = (side == AMQP_OURS) == (link->role == AMQP_SENDER);
  link->phase[side] = AMQP_ACTIVE;
  link->session->attached[side]++;
  link->handle[side] = attach->handle;
  link->snd_settle_mode[side] = attach->snd_settle_mode;
  link->rcv_settle_mode[side] = attach->rcv_settle_mode;
  link->max_message_size[side] = attach->max_message_size;
  if (side == AMQP_THEIRS) link->flaw = attach->flaw;
  if (from_sender) amqp_link_attach(&link->counts, attach->initial_count);
}

static enum amqp_fault note_attach(amqp_endpoints_t *endpoints, enum amqp_side side,
  uint16_t channel, amqp_fields_t fields, bool *memory) {
  attach_t attach;
  const size_t size = bytes_left(&fields);
  const enum amqp_fault fault = read_attach(&fields, side, &attach);
  if (fault) return fault;
  amqp_session_end_t *session = amqp_endpoints_session(endpoints, side, channel);
  if (!session) return AMQP_NOT_ALLOWED;
  const enum amqp_side peer = other(side);
  if (session->phase[peer] != AMQP_BEFORE && attach.handle > session->handle_max[peer])
    return AMQP_FRAMING_ERROR;
  if (amqp_endpoints_link(endpoints, side, channel, attach.handle)) return AMQP_HANDLE_IN_USE;
  amqp_link_end_t *link = take_half(session, side, &attach);
  if (!link) link = new_link(session, side, &attach);
  const uint64_t key = key_of(LINK, side, channel, attach.handle);
  *memory = link && amqp_index_add(&endpoints->index, key, link);
  if (*memory && side == AMQP_THEIRS && !attach.flaw)
    *memory = keep_default_outcome(link, attach.default_outcome);
  if (!*memory) return AMQP_FINE;
  activate(link, side, &attach);
  if (side == AMQP_THEIRS) {
    link->attach_size = size;
    link->held = LINK_HELD + COPIES * size;
    endpoints->held += link->held;
  }
  endpoints->attached = link;
  return AMQP_FINE;
}

amqp_link_end_t *amqp_session_link(
  const amqp_session_end_t *session, const char *name, size_t size, enum amqp_role role) {
  amqp_link_end_t *link = session->links;
  while (link && (link->user || link->role != role || !has_name(link, name, size)))
    link = link->next;
  return link;
}

amqp_link_end_t *amqp_link_end_before(const amqp_link_end_t *link) {
  amqp_link_end_t *before = link->next;
  while (before &&
    (before->phase[AMQP_THEIRS] != AMQP_ACTIVE || before->role != link->role || before->displaced ||
      !has_name(before, link->name, link->name_size)))
    before = before->next;
  return before;
}

/* ---- Detach and end (parts 2.7.7 and 2.7.8) */

static void close_link(amqp_endpoints_t *endpoints, amqp_link_end_t *link, enum amqp_side side) {
  if (link->phase[side] == AMQP_ACTIVE) {
    amqp_index_remove(&endpoints->index, link_key(link, side));
    link->session->attached[side]--;
  }
  if (link->phase[side] == AMQP_BEFORE) remove_half(link->session, link);
  link->phase[side] = AMQP_CLOSED;
  forget_link(endpoints, link);
}

static enum amqp_fault note_detach(
  amqp_endpoints_t *endpoints, enum amqp_side side, uint16_t channel, amqp_fields_t fields) {
  const uint32_t handle = amqp_field_mandatory_uint(&fields);
  if (fields.in.fault) return fields.in.fault;
  amqp_link_end_t *link = amqp_endpoints_link(endpoints, side, channel, handle);
  if (!link) return AMQP_NO_HANDLE;
  endpoints->detached_displaced = link->displaced;
  close_link(endpoints, link, side);
  return AMQP_FINE;
}

static enum amqp_fault note_end(
  amqp_endpoints_t *endpoints, enum amqp_side side, uint16_t channel) {
  amqp_session_end_t *session = amqp_endpoints_session(endpoints, side, channel);
  if (!session) return AMQP_NOT_ALLOWED;
  /* No begin answers a session that has ended. */
  const bool unanswered = session->phase[other(side)] == AMQP_BEFORE;
  amqp_link_end_t *following;
  for (amqp_link_end_t *link = session->links; link; link = following) {
    following = link->next;
    close_link(endpoints, link, side);
    if (unanswered) close_link(endpoints, link, other(side));
  }
  amqp_index_remove(&endpoints->index, key_of(SESSION, side, channel, 0));
  session->phase[side] = AMQP_CLOSED;
  if (unanswered) session->phase[other(side)] = AMQP_CLOSED;
  forget_session(endpoints, session);
  return AMQP_FINE;
}

/* Note our close: nothing follows it on any session (part 2.4.3). */
static void note_close(amqp_endpoints_t *endpoints) {
  amqp_session_end_t *following;
  for (amqp_session_end_t *session = endpoints->sessions; session; session = following) {
    following = session->next;
    if (session->phase[AMQP_OURS] == AMQP_ACTIVE)
      note_end(endpoints, AMQP_OURS, session->channel[AMQP_OURS]);
  }
}

/* ---- All kinds of frames */

enum amqp_fault amqp_endpoints_note(
  amqp_endpoints_t *endpoints, enum amqp_side side, const amqp_frame_t *frame, bool *memory) {
  const uint8_t *end = frame->body.start + frame->body.size;
  amqp_reader_t in = {frame->body.start, end, AMQP_FINE};
  *memory = true;
  endpoints->attached = NULL;
  endpoints->detached_displaced = false;
  if (!frame->fields.start) return AMQP_FINE;
  const enum amqp_code code = amqp_read_descriptor(&in);
  const amqp_fields_t fields = amqp_read_list(&in);
  if (in.fault) return in.fault;
  if (side == AMQP_THEIRS && endpoints->opened[side].unfit && code != AMQP_CODE_CLOSE) {
    return AMQP_INVALID_FIELD;
  }
  switch (code) {
  case AMQP_CODE_OPEN:
    return note_open(endpoints, side, fields);
  case AMQP_CODE_BEGIN:
    return note_begin(endpoints, side, frame->channel, fields, memory);
  case AMQP_CODE_ATTACH:
    return note_attach(endpoints, side, frame->channel, fields, memory);
  case AMQP_CODE_DETACH:
    return note_detach(endpoints, side, frame->channel, fields);
  case AMQP_CODE_END:
    return note_end(endpoints, side, frame->channel);
  case AMQP_CODE_CLOSE:
    if (side == AMQP_OURS) note_close(endpoints);
    return AMQP_FINE;
  default: /* frames that the engine refuses */
    return AMQP_FINE;
  }
}
