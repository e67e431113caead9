/* What the files of plane.h share. */
#ifndef QUIVER_AMQP_PLANE_PARTS_H
#define QUIVER_AMQP_PLANE_PARTS_H

#include "plane.h"

#include <string.h>

#define HEADER_SIZE 8

/* Types of frames, in the sixth byte (parts 2.3.1 and 5.3.1). */
enum amqp_frame_type {
  AMQP_TYPE_AMQP,
  AMQP_TYPE_SASL,
};

static inline bool is_header(amqp_bytes_t bytes) {
  return bytes.size >= 4 && !memcmp(bytes.start, "AMQP", 4);
}

static inline enum amqp_event refuse(
  amqp_plane_t *plane, enum amqp_extent extent, const char *condition, const char *why) {
  plane->refusal = (amqp_refusal_t) {extent, condition, why};
  return AMQP_REFUSED;
}

static inline enum amqp_event hand_over(amqp_plane_t *plane, amqp_bytes_t bytes) {
  plane->control = bytes;
  plane->passed = bytes.size;
  return AMQP_FOR_ENGINE;
}

/* Hand the frame at the input's start over, with numbers as descriptors. */
enum amqp_event amqp_hand_over_frame(amqp_plane_t *plane, const amqp_frame_t *frame);

/* Return the next event before AMQP's header. */
enum amqp_event amqp_next_before(amqp_plane_t *plane, amqp_bytes_t bytes);

#endif
