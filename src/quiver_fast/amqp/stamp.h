/* A transfer frame that is sent again and again: written once, and numbered for each delivery. */
#ifndef QUIVER_AMQP_STAMP_H
#define QUIVER_AMQP_STAMP_H

#include "frames_out.h"

#include <string.h>

/* The room of a stamp before its payload. */
#define AMQP_STAMP_ROOM AMQP_FRAME_ROOM
/* The number of characters in a tag, of 6 bits each: text, because some clients cannot read a
 * binary tag. Tags are unique while fewer than 2^24 deliveries are unsettled. */
#define AMQP_STAMP_TAG 4

typedef struct amqp_stamp {
  uint8_t *frame;
  size_t size;
  uint8_t *delivery_id; /* 4 bytes within the frame */
  uint8_t *tag;         /* likewise */
} amqp_stamp_t;

/* Write a transfer into the room before a payload, which is a whole message. The user has checked
 * that the peer accepts a frame of this size. */
void amqp_stamp_lay(amqp_stamp_t *stamp, uint8_t *payload, size_t size, uint16_t channel,
  uint32_t handle, bool settled);

/* Number the frame; the tag has the sequence's lowest 24 bits, six in each byte. */
static inline void amqp_stamp_number(
  const amqp_stamp_t *stamp, uint32_t delivery_id, uint64_t sequence) {
  const uint32_t id = __builtin_bswap32(delivery_id);
  const uint32_t low = (uint32_t) sequence;
  const uint32_t tag =
    ((low & 0x3f) | (low & 0xfc0) << 2 | (low & 0x3f000) << 4 | (low & 0xfc0000) << 6) + 0x30303030;
  memcpy(stamp->delivery_id, &id, sizeof id);
  memcpy(stamp->tag, &tag, sizeof tag);
}

#endif
