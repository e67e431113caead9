/* Frames in and out of one connection. */

#include "fitting.h"
#include "plane_parts.h"
#include "symbols.h"

#include <stdlib.h>

void amqp_plane_init(amqp_plane_t *plane, uint32_t max_frame_size, uint64_t seed) {
  *plane = (amqp_plane_t) {.max_frame_size = max_frame_size};
  amqp_endpoints_init(&plane->endpoints, seed);
}

void amqp_plane_free(amqp_plane_t *plane) {
  amqp_input_free(&plane->input);
  amqp_output_free(&plane->output);
  amqp_endpoints_free(&plane->endpoints);
  free(plane->begun);
}

/* Say whether we ended a session: its peer's frames are dropped until it has ended it, too. */
static bool is_ended(const amqp_session_end_t *session) {
  return session->phase[AMQP_OURS] == AMQP_CLOSED;
}

/* Say whether a frame is for a session that we ended. */
static bool is_discarded(const amqp_plane_t *plane, const amqp_frame_t *frame) {
  const amqp_session_end_t *session =
    amqp_endpoints_session(&plane->endpoints, AMQP_THEIRS, frame->channel);
  return session && is_ended(session);
}

static enum amqp_event refuse_frame(amqp_plane_t *plane, enum amqp_fault fault) {
  plane->session = NULL;
  plane->link = NULL;
  return refuse(plane, AMQP_OF_CONNECTION, amqp_condition(fault), "a malformed frame");
}

/* Refuse the content of a session's frame; that of a session that we ended is dropped unread. */
static enum amqp_event refuse_content(
  amqp_plane_t *plane, const amqp_frame_t *frame, enum amqp_fault fault) {
  return is_discarded(plane, frame) ? AMQP_NOTHING : refuse_frame(plane, fault);
}

/* ---- Numbers */

static uint32_t number32(const uint8_t *at) {
  uint32_t number;
  memcpy(&number, at, sizeof number);
  return __builtin_bswap32(number);
}

/* ---- Transfers */

/* The common part of both readers of transfers. */
typedef struct step {
  uint16_t channel;
  uint32_t handle;
  bool has_delivery_id;
  bool settled, more, aborted, resume;
  uint32_t delivery_id, message_format;
  amqp_bytes_t tag, state, payload;
} step_t;

static amqp_link_end_t *link_of(amqp_plane_t *plane, uint16_t channel, uint32_t handle) {
  amqp_link_end_t *link = plane->recent;
  if (link && link->handle[AMQP_THEIRS] == handle && link->session->channel[AMQP_THEIRS] == channel)
    return link;
  link = amqp_endpoints_link(&plane->endpoints, AMQP_THEIRS, channel, handle);
  plane->recent = link;
  return link;
}

/* Count a delivery's first frame, which has its id and its tag (part 2.7.5). */
static enum amqp_event count_delivery(amqp_plane_t *plane, const step_t *step) {
  amqp_session_end_t *session = plane->session;
  if (!step->has_delivery_id || !step->tag.start)
    return refuse(plane, AMQP_OF_CONNECTION, "amqp:invalid-field", "a transfer without an id");
  if (plane->lenient) return AMQP_ARRIVAL;
  if (session->has_arrived && step->delivery_id != session->next_arriving)
    return refuse(plane, AMQP_OF_CONNECTION, "amqp:invalid-field",
      "a delivery-id that does not follow the one before it");
  session->has_arrived = true;
  session->next_arriving = step->delivery_id + 1;
  return AMQP_ARRIVAL;
}

static enum amqp_event begin_delivery(
  amqp_plane_t *plane, amqp_link_end_t *link, const step_t *step) {
  if (step->resume)
    return refuse(plane, AMQP_OF_LINK, "amqp:not-implemented", "deliveries are not resumed");
  if (!amqp_receiver_receive(&link->counts)) {
    if (!plane->lenient)
      return refuse(
        plane, AMQP_OF_LINK, "amqp:link:transfer-limit-exceeded", "a delivery without credit");
    amqp_receiver_follow(&link->counts, link->counts.delivery_count + 1);
    if (link->counts.available) link->counts.available--;
  }
  link->incoming = (amqp_incoming_t) {true, false, step->delivery_id, step->message_format};
  return AMQP_ARRIVAL;
}

/* Count a transfer for a link that we closed, and drop it. */
static enum amqp_event drop_transfer(
  amqp_plane_t *plane, amqp_link_end_t *link, const step_t *step) {
  amqp_incoming_t *incoming = &link->incoming;
  if (!incoming->open) {
    const enum amqp_event event = count_delivery(plane, step);
    if (event != AMQP_ARRIVAL) return event;
    *incoming = (amqp_incoming_t) {.delivery_id = step->delivery_id};
  }
  incoming->settled |= step->settled || step->aborted;
  incoming->open = step->more && !step->aborted;
  plane->arrival = (amqp_arrival_t) {.link = link,
    .delivery_id = incoming->delivery_id,
    .more = incoming->open,
    .settled = incoming->settled};
  return AMQP_DROPPED;
}

static enum amqp_event take_delivery(
  amqp_plane_t *plane, amqp_link_end_t *link, const step_t *step) {
  const bool first = !link->incoming.open;
  if (first) {
    enum amqp_event event = count_delivery(plane, step);
    if (event == AMQP_ARRIVAL) event = begin_delivery(plane, link, step);
    if (event != AMQP_ARRIVAL) return event;
  } else if (step->has_delivery_id && step->delivery_id != link->incoming.delivery_id) {
    return refuse(plane, AMQP_OF_CONNECTION, "amqp:not-allowed", "a delivery within another");
  }
  amqp_incoming_t *incoming = &link->incoming;
  /* Any frame of a delivery may say that it is settled (part 2.7.5). */
  incoming->settled |= step->settled;
  incoming->open = step->more && !step->aborted;
  plane->arrival = (amqp_arrival_t) {
    .link = link,
    .delivery_id = incoming->delivery_id,
    .message_format = incoming->message_format,
    .first = first,
    .more = incoming->open,
    .aborted = step->aborted,
    .settled = incoming->settled,
    .tag = step->tag,
    .state = step->state,
    .payload = step->payload,
  };
  return AMQP_ARRIVAL;
}

/* Top up a session's window when half of it is used up. The flow names the link of the transfer,
 * because Proton does not report a flow without a link to its user. */
static bool keep_window(amqp_plane_t *plane, amqp_session_end_t *session, amqp_link_end_t *link) {
  if (!amqp_session_end_is_low(session)) return true;
  const bool named = link && link->role == AMQP_RECEIVER && link->phase[AMQP_OURS] == AMQP_ACTIVE;
  return amqp_plane_flow(plane, session, named ? link : NULL, false);
}

/* Drop a transfer for a session that we ended; only its state matters (part 2.5.5). */
static enum amqp_event drop_unseen(amqp_plane_t *plane, const step_t *step) {
  if (!step->state.start) return AMQP_NOTHING;
  plane->arrival = (amqp_arrival_t) {.settled = true};
  return AMQP_DROPPED;
}

static enum amqp_event judge_transfer(amqp_plane_t *plane, const step_t *step) {
  plane->likeness.count = 0;
  amqp_link_end_t *link = link_of(plane, step->channel, step->handle);
  plane->link = link;
  plane->session =
    link ? link->session : amqp_endpoints_session(&plane->endpoints, AMQP_THEIRS, step->channel);
  if (!plane->session)
    return refuse(plane, AMQP_OF_CONNECTION, "amqp:not-allowed", "a transfer without a session");
  if (is_ended(plane->session)) return drop_unseen(plane, step);
  if (!amqp_session_receive(&plane->session->counts))
    return refuse(
      plane, AMQP_OF_SESSION, "amqp:session:window-violation", "a transfer beyond the window");
  if (!keep_window(plane, plane->session, link)) return AMQP_NO_MEMORY;
  if (!link)
    return refuse(
      plane, AMQP_OF_SESSION, "amqp:session:unattached-handle", "a transfer without a link");
  if (link->role != AMQP_RECEIVER)
    return refuse(plane, AMQP_OF_LINK, "amqp:not-allowed", "a transfer from a receiver");
  if (link->phase[AMQP_OURS] == AMQP_CLOSED) return drop_transfer(plane, link, step);
  return take_delivery(plane, link, step);
}

static enum amqp_event take_transfer(amqp_plane_t *plane, const step_t *step) {
  const enum amqp_event event = judge_transfer(plane, step);
  /* A transaction may have lost the message; an aborted one was to be forgotten. */
  if (event != AMQP_ARRIVAL && !step->aborted) plane->lost = step->state;
  return event;
}

static enum amqp_event next_transfer(amqp_plane_t *plane, const amqp_frame_t *frame) {
  amqp_transfer_t transfer;
  const enum amqp_fault fault = amqp_read_transfer(frame, &transfer);
  if (fault) return refuse_content(plane, frame, fault);
  return take_transfer(plane,
    &(step_t) {
      .channel = frame->channel,
      .handle = transfer.handle,
      .has_delivery_id = transfer.has_delivery_id,
      .settled = transfer.settled,
      .more = transfer.more,
      .aborted = transfer.aborted,
      .resume = transfer.resume,
      .delivery_id = transfer.delivery_id,
      .message_format = transfer.message_format,
      .tag = transfer.tag,
      .state = transfer.state,
      .payload = transfer.payload,
    });
}

/* ---- Transfers like the last one: their equal parts are checked already */

/* Learn the likeness of a link's transfers from one that arrived: whole, and not settled. The next
 * one of that likeness keeps the arrival's other fields. */
static void learn(amqp_plane_t *plane, const uint8_t *data, const amqp_swift_t *swift) {
  const amqp_arrival_t *arrival = &plane->arrival;
  if (arrival->first && !arrival->more && !arrival->settled)
    amqp_likeness_learn(&plane->likeness, data, swift);
}

/* Count as amqp_session_receive and amqp_receiver_receive do with window and credit. */
static void count_alike(amqp_session_t *session, amqp_link_t *link) {
  session->incoming_window--;
  session->next_incoming_id++;
  if (session->remote_outgoing_window) session->remote_outgoing_window--;
  link->credit--;
  link->delivery_count++;
  if (link->available) link->available--;
}

/* Take a transfer of the known likeness, if it needs only counting. */
static bool take_alike(amqp_plane_t *plane, amqp_bytes_t bytes) {
  const amqp_likeness_t *likeness = &plane->likeness;
  if (!amqp_likeness_fits(likeness, bytes.start, bytes.size, plane->max_frame_size)) return false;
  amqp_link_end_t *link = plane->recent;
  amqp_session_end_t *session = link->session;
  if (link->phase[AMQP_OURS] != AMQP_ACTIVE || link->incoming.open) return false;
  if (link->counts.credit == 0 || session->counts.incoming_window <= session->window / 2 + 1)
    return false;
  const uint32_t delivery_id = number32(bytes.start + likeness->id);
  if (!plane->lenient && delivery_id != session->next_arriving) return false;
  session->next_arriving = delivery_id + 1;
  count_alike(&session->counts, &link->counts);
  const uint32_t whole = number32(bytes.start);
  amqp_arrival_t *arrival = &plane->arrival;
  arrival->delivery_id = delivery_id;
  arrival->tag = (amqp_bytes_t) {bytes.start + likeness->tag, likeness->tag_size};
  arrival->payload = (amqp_bytes_t) {bytes.start + likeness->payload, whole - likeness->payload};
  plane->link = link;
  plane->session = session;
  plane->passed = whole;
  return true;
}

/* ---- Flows, dispositions, and frames of the engine */

static enum amqp_event take_link_flow(
  amqp_plane_t *plane, uint16_t channel, const amqp_flow_t *flow) {
  amqp_link_end_t *link =
    amqp_endpoints_link(&plane->endpoints, AMQP_THEIRS, channel, flow->handle);
  if (!link)
    return refuse(
      plane, AMQP_OF_SESSION, "amqp:session:unattached-handle", "a flow without a link");
  plane->link = link;
  if (link->role == AMQP_SENDER && flow->acquires)
    return refuse(
      plane, AMQP_OF_LINK, "amqp:not-implemented", "messages are not acquired in a transaction");
  if (link->role == AMQP_SENDER) amqp_sender_take_flow(&link->counts, flow);
  else if (!amqp_receiver_take_flow(&link->counts, flow)) {
    if (!plane->lenient)
      return refuse(
        plane, AMQP_OF_LINK, "amqp:link:transfer-limit-exceeded", "a count beyond the credit");
    amqp_receiver_follow(&link->counts, flow->delivery_count);
  }
  return AMQP_CREDIT;
}

static enum amqp_event next_flow(amqp_plane_t *plane, const amqp_frame_t *frame) {
  amqp_flow_t flow;
  const enum amqp_fault fault = amqp_read_flow(frame, &flow);
  if (fault) return refuse_content(plane, frame, fault);
  plane->session = amqp_endpoints_session(&plane->endpoints, AMQP_THEIRS, frame->channel);
  plane->link = NULL;
  if (!plane->session)
    return refuse(plane, AMQP_OF_CONNECTION, "amqp:not-allowed", "a flow without a session");
  if (is_ended(plane->session)) return AMQP_NOTHING;
  amqp_session_take_flow(&plane->session->counts, &flow);
  if (flow.has_handle) {
    const enum amqp_event event = take_link_flow(plane, frame->channel, &flow);
    if (event != AMQP_CREDIT) return event;
  }
  /* The sender's user answers a drain when it has nothing more to send. */
  const bool drains = plane->link && plane->link->role == AMQP_SENDER && flow.drain;
  if (flow.echo && !drains && !amqp_plane_flow(plane, plane->session, plane->link, false))
    return AMQP_NO_MEMORY;
  return AMQP_CREDIT;
}

static enum amqp_event next_disposition(amqp_plane_t *plane, const amqp_frame_t *frame) {
  const enum amqp_fault fault = amqp_read_disposition(frame, &plane->disposition);
  if (fault) return refuse_content(plane, frame, fault);
  plane->session = amqp_endpoints_session(&plane->endpoints, AMQP_THEIRS, frame->channel);
  if (!plane->session)
    return refuse(plane, AMQP_OF_CONNECTION, "amqp:not-allowed", "a disposition without a session");
  if (is_ended(plane->session)) return AMQP_NOTHING;
  if ((int32_t) (plane->disposition.last - plane->disposition.first) < 0)
    return refuse(
      plane, AMQP_OF_CONNECTION, "amqp:invalid-field", "a range that ends before it begins");
  return AMQP_OUTCOME;
}

/* Return the session of an end frame whose begin we have not answered; else NULL. */
static amqp_session_end_t *unanswered(amqp_plane_t *plane, const amqp_frame_t *frame) {
  if (frame->code != AMQP_CODE_END) return NULL;
  amqp_session_end_t *session =
    amqp_endpoints_session(&plane->endpoints, AMQP_THEIRS, frame->channel);
  return session && session->phase[AMQP_OURS] == AMQP_BEFORE ? session : NULL;
}

enum amqp_event amqp_hand_over_frame(amqp_plane_t *plane, const amqp_frame_t *frame) {
  enum amqp_fault fault;
  plane->passed = frame->size;
  plane->control = amqp_number_symbols(plane->input.buffer + plane->input.from, frame, &fault);
  return fault ? refuse_frame(plane, fault) : AMQP_FOR_ENGINE;
}

static enum amqp_event next_control(amqp_plane_t *plane, const amqp_frame_t *frame) {
  const uint8_t *start = plane->input.buffer + plane->input.from;
  bool memory;
  plane->link = NULL;
  plane->session = NULL;
  if (start[5] != AMQP_TYPE_AMQP)
    return refuse(plane, AMQP_OF_CONNECTION, "amqp:connection:framing-error",
      "a frame of another layer among AMQP's");
  const bool of_link = frame->code == AMQP_CODE_ATTACH || frame->code == AMQP_CODE_DETACH;
  if (of_link && is_discarded(plane, frame)) return AMQP_NOTHING;
  if (!plane->ending) plane->session = unanswered(plane, frame);
  plane->ending = plane->session;
  if (plane->ending) {
    plane->passed = 0;
    return AMQP_ENDING;
  }
  const enum amqp_fault fault = amqp_endpoints_note(&plane->endpoints, AMQP_THEIRS, frame, &memory);
  plane->recent = NULL;
  plane->likeness.count = 0;
  if (fault) return refuse_frame(plane, fault);
  if (!memory) return AMQP_NO_MEMORY;
  if (plane->endpoints.detached_displaced) return AMQP_NOTHING;
  return amqp_hand_over_frame(plane, frame);
}

/* ---- One frame after the other */

static enum amqp_event take_frame(amqp_plane_t *plane, const amqp_frame_t *frame) {
  plane->passed = frame->size;
  switch (frame->kind) {
  case AMQP_FRAME_TRANSFER:
    return next_transfer(plane, frame);
  case AMQP_FRAME_FLOW:
    return next_flow(plane, frame);
  case AMQP_FRAME_DISPOSITION:
    return next_disposition(plane, frame);
  case AMQP_FRAME_CONTROL:
    return next_control(plane, frame);
  default: /* empty: the timers were told when its bytes came */
    return AMQP_NOTHING;
  }
}

static enum amqp_event take_swift(
  amqp_plane_t *plane, const uint8_t *data, const amqp_swift_t *swift) {
  plane->passed = swift->size;
  const enum amqp_event event = take_transfer(plane,
    &(step_t) {
      .channel = swift->channel,
      .handle = swift->handle,
      .has_delivery_id = true,
      .settled = swift->settled,
      .more = swift->more,
      .delivery_id = swift->delivery_id,
      .message_format = swift->message_format,
      .tag = swift->tag,
      .payload = swift->payload,
    });
  if (event == AMQP_ARRIVAL) learn(plane, data, swift);
  return event;
}

/* Take the frame at the input's start; `*whole` says whether it was complete. */
static enum amqp_event take_next(amqp_plane_t *plane, amqp_bytes_t bytes, bool *whole) {
  amqp_swift_t swift;
  *whole = true;
  if (take_alike(plane, bytes)) return AMQP_ARRIVAL;
  if (amqp_read_swift_transfer(bytes.start, bytes.size, plane->max_frame_size, &swift))
    return take_swift(plane, bytes.start, &swift);
  amqp_frame_t frame;
  const enum amqp_fault fault =
    amqp_read_frame(bytes.start, bytes.size, plane->max_frame_size, &frame);
  if (fault) return refuse_frame(plane, fault);
  *whole = frame.size > 0;
  return *whole ? take_frame(plane, &frame) : AMQP_NOTHING;
}

enum amqp_event amqp_plane_next(amqp_plane_t *plane) {
  for (;;) {
    amqp_input_take(&plane->input, plane->passed);
    plane->passed = 0;
    const amqp_bytes_t bytes = amqp_input_bytes(&plane->input);
    plane->frame_size = 0;
    if (bytes.size == 0) return AMQP_NOTHING;
    if (plane->layer != AMQP_LAYER_AMQP) return amqp_next_before(plane, bytes);
    bool whole;
    const enum amqp_event event = take_next(plane, bytes, &whole);
    if (event != AMQP_NOTHING) return event;
    if (!whole) {
      /* A size that is too large is refused as soon as the header is complete. */
      plane->frame_size = bytes.size < AMQP_FRAME_HEADER ? 0 : number32(bytes.start);
      return AMQP_NOTHING;
    }
  }
}

ssize_t amqp_plane_fill(amqp_plane_t *plane, amqp_source_t source, void *from) {
  return amqp_input_fill(&plane->input, plane->frame_size, source, from);
}

amqp_bytes_t amqp_plane_rest(const amqp_plane_t *plane) {
  return amqp_input_bytes(&plane->input);
}

/* ---- Out */

bool amqp_plane_flow(
  amqp_plane_t *plane, amqp_session_end_t *session, amqp_link_end_t *link, bool echo) {
  amqp_flow_t flow = {.echo = echo};
  if (session->phase[AMQP_OURS] != AMQP_ACTIVE) return true;
  if (link && link->phase[AMQP_OURS] != AMQP_ACTIVE) return true;
  uint8_t *room = amqp_output_room(&plane->output, AMQP_FRAME_ROOM);
  if (!room) return false;
  if (amqp_session_end_is_low(session)) session->counts.incoming_window = session->window;
  amqp_session_tell(&session->counts, &flow);
  /* Before the peer's begin its ids are unknown (part 2.7.4). */
  flow.has_next_incoming_id = session->phase[AMQP_THEIRS] != AMQP_BEFORE;
  if (link) amqp_link_tell(&link->counts, link->handle[AMQP_OURS], &flow);
  amqp_output_add(&plane->output, amqp_write_flow(room, session->channel[AMQP_OURS], &flow));
  return true;
}

bool amqp_plane_credit(amqp_plane_t *plane, amqp_link_end_t *link, uint32_t more, bool drain) {
  const uint32_t before = link->counts.credit;
  link->counts.credit += more;
  link->counts.drain = drain;
  if (amqp_plane_flow(plane, link->session, link, false)) return true;
  link->counts.credit = before;
  return false;
}

/* Send an outcome whose state is too long for a frame of the peer. */
static bool answer_shorter(
  amqp_plane_t *plane, amqp_session_end_t *session, amqp_disposition_t disposition) {
  uint8_t state[AMQP_MIN_MAX_FRAME_SIZE];
  const uint8_t *end =
    amqp_write_shorter_state(state, disposition.state.encoded, sizeof state - AMQP_FRAME_ROOM);
  disposition.state.encoded = (amqp_bytes_t) {state, (size_t) (end - state)};
  return amqp_plane_answer(plane, session, &disposition);
}

bool amqp_plane_answer(
  amqp_plane_t *plane, amqp_session_end_t *session, const amqp_disposition_t *disposition) {
  const size_t size = AMQP_FRAME_ROOM + disposition->state.encoded.size;
  if (size > amqp_plane_most(plane)) return answer_shorter(plane, session, *disposition);
  uint8_t *room = amqp_output_room(&plane->output, size);
  if (!room) return false;
  amqp_output_add(
    &plane->output, amqp_write_disposition(room, session->channel[AMQP_OURS], disposition));
  return true;
}

bool amqp_plane_answer_run(amqp_plane_t *plane, amqp_session_end_t *session, amqp_run_t *run) {
  uint8_t state[AMQP_STATE_ROOM];
  if (run->code == AMQP_CODE_NONE) return true;
  amqp_disposition_t disposition = {
    .role = AMQP_RECEIVER, .first = run->first, .last = run->last, .settled = run->settled};
  disposition.state.code = run->code;
  const uint8_t *end = amqp_write_state(state, &disposition.state);
  disposition.state.encoded = (amqp_bytes_t) {state, (size_t) (end - state)};
  if (!amqp_plane_answer(plane, session, &disposition)) return false;
  *run = (amqp_run_t) {0};
  return true;
}

bool amqp_plane_beat(amqp_plane_t *plane) {
  /* Our header and our open come first (parts 2.2 and 2.4.1). */
  if (!plane->endpoints.opened[AMQP_OURS].seen) return true;
  uint8_t *room = amqp_output_room(&plane->output, AMQP_FRAME_HEADER);
  if (!room) return false;
  amqp_output_add(&plane->output, amqp_write_empty(room));
  return true;
}
