/* The engine's output becomes ours: frames are learned from, completed, and made to fit. */

#include "fitting.h"
#include "plane_parts.h"

#include <stdlib.h>
#include <string.h>

static uint32_t number32(const uint8_t *at) {
  uint32_t number;
  memcpy(&number, at, sizeof number);
  return __builtin_bswap32(number);
}

static bool put_bytes(amqp_plane_t *plane, const uint8_t *start, size_t size) {
  uint8_t *room = amqp_output_room(&plane->output, size);
  if (!room) return false;
  memcpy(room, start, size);
  amqp_output_add(&plane->output, room + size);
  return true;
}

/* Put a shorter form of a frame that is too large, or note that there is none. */
static bool put_shorter(amqp_plane_t *plane, const amqp_frame_t *frame) {
  uint8_t *room = amqp_output_room(&plane->output, frame->size + AMQP_FITTING_ROOM);
  if (!room) return false;
  const size_t most = amqp_plane_most(plane);
  uint8_t *end = amqp_write_shorter(room, frame, most);
  if (end && (size_t) (end - room) <= most) amqp_output_add(&plane->output, end);
  else plane->unfit = true;
  plane->shortened = amqp_frame_code(frame);
  if (plane->endpoints.attached) plane->endpoints.attached->unfit = true;
  return true;
}

/* The engine knows no default outcome, so our attach gets the one of the peer's source. */
static bool put_attach(amqp_plane_t *plane, const amqp_frame_t *frame, amqp_bytes_t outcome) {
  uint8_t *room = amqp_output_room(&plane->output, frame->size + outcome.size + AMQP_ATTACH_ROOM);
  if (!room) return false;
  uint8_t *end = amqp_write_attach(room, frame, outcome);
  if ((size_t) (end - room) > amqp_plane_most(plane)) return put_shorter(plane, frame);
  amqp_output_add(&plane->output, end);
  return true;
}

/* Learn from a frame of our engine, and append it to the output. Frames of SASL teach nothing.
 * After a frame that does not fit only a close makes sense. */
static bool drain_frame(amqp_plane_t *plane, const uint8_t *at, const amqp_frame_t *frame) {
  bool memory = true;
  if (frame->kind != AMQP_FRAME_CONTROL) return put_bytes(plane, at, frame->size);
  if (plane->unfit && amqp_frame_code(frame) != AMQP_CODE_CLOSE) return true;
  if (amqp_endpoints_note(&plane->endpoints, AMQP_OURS, frame, &memory) || !memory) return false;
  const amqp_link_end_t *link = plane->endpoints.attached;
  if (link && link->default_outcome.start) return put_attach(plane, frame, link->default_outcome);
  if (frame->size > amqp_plane_most(plane)) return put_shorter(plane, frame);
  return put_bytes(plane, at, frame->size);
}

/* Return how many of the engine's bytes are whole frames and headers. */
static size_t whole_of(amqp_bytes_t bytes) {
  size_t whole = 0;
  while (bytes.size - whole >= HEADER_SIZE) {
    const amqp_bytes_t rest = {bytes.start + whole, bytes.size - whole};
    const size_t size = is_header(rest) ? HEADER_SIZE : number32(rest.start);
    if (size < HEADER_SIZE || size > rest.size) break;
    whole += size;
  }
  return whole;
}

static bool drain_whole(amqp_plane_t *plane, amqp_bytes_t bytes) {
  const uint8_t *at = bytes.start, *end = bytes.start + bytes.size;
  while (at < end) {
    amqp_frame_t frame = {.size = HEADER_SIZE};
    const amqp_bytes_t rest = {at, (size_t) (end - at)};
    const bool header = is_header(rest);
    if (!header && (amqp_read_frame(at, rest.size, UINT32_MAX, &frame) || !frame.size))
      return false;
    if (!(header ? put_bytes(plane, at, HEADER_SIZE) : drain_frame(plane, at, &frame)))
      return false;
    at += frame.size;
  }
  return true;
}

/* Replace the beginning of a frame that the engine has not written whole. */
static bool keep_begun(amqp_plane_t *plane, uint8_t *begun, size_t size) {
  free(plane->begun);
  plane->begun = begun;
  plane->begun_size = size;
  return begun || !size;
}

static uint8_t *joined(amqp_bytes_t one, amqp_bytes_t other) {
  uint8_t *copy = one.size + other.size ? malloc(one.size + other.size) : NULL;
  if (!copy) return NULL;
  if (one.size) memcpy(copy, one.start, one.size);
  if (other.size) memcpy(copy + one.size, other.start, other.size);
  return copy;
}

bool amqp_plane_drain(amqp_plane_t *plane, amqp_bytes_t bytes) {
  static const amqp_bytes_t NONE;
  const amqp_bytes_t begun = {plane->begun, plane->begun_size};
  uint8_t *all = begun.size ? joined(begun, bytes) : NULL;
  if (begun.size && !all) return false;
  if (all) bytes = (amqp_bytes_t) {all, begun.size + bytes.size};
  const size_t whole = whole_of(bytes);
  const amqp_bytes_t rest = {bytes.start + whole, bytes.size - whole};
  const bool drained = drain_whole(plane, (amqp_bytes_t) {bytes.start, whole});
  const bool kept = keep_begun(plane, joined(rest, NONE), rest.size);
  free(all);
  return drained && kept;
}
