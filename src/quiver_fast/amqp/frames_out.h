/* Writing frames in the shortest encodings that all peers read. */
#ifndef QUIVER_AMQP_FRAMES_OUT_H
#define QUIVER_AMQP_FRAMES_OUT_H

#include "frames.h"

/* The largest size of a frame without its state and payload. */
#define AMQP_FRAME_ROOM 96
/* The longest id of a transaction: its length has one byte. */
#define AMQP_TXN_ID_MAX 255
/* The largest size of a state: without its transaction's id, and with the longest id. */
#define AMQP_STATE_HEAD 18
#define AMQP_STATE_ROOM (AMQP_STATE_HEAD + AMQP_TXN_ID_MAX)

/* Each function writes at `out`, which has room, and returns the end of the written bytes. */

/* A frame without a body: the heartbeat of an idle side (part 2.4.5). */
uint8_t *amqp_write_empty(uint8_t *out);

/* A transfer without its payload, whose size the frame counts and which comes next.
 * The room is AMQP_FRAME_ROOM and the size of the state. */
uint8_t *amqp_write_transfer(uint8_t *out, uint16_t channel, const amqp_transfer_t *transfer);

uint8_t *amqp_write_flow(uint8_t *out, uint16_t channel, const amqp_flow_t *flow);

/* An attach frame of the engine with another default outcome in its source (part 3.5.3);
 * unchanged if it has no source. The room is that of both and AMQP_ATTACH_ROOM. */
#define AMQP_ATTACH_ROOM 64
uint8_t *amqp_write_attach(uint8_t *out, const amqp_frame_t *frame, amqp_bytes_t outcome);

/* The encoded state adds its size to the room; an empty one is written as null. */
uint8_t *amqp_write_disposition(
  uint8_t *out, uint16_t channel, const amqp_disposition_t *disposition);

/* A state: accepted, released, rejected without an error, modified with its flags, or a
 * transactional one with its id and an outcome without fields. */
uint8_t *amqp_write_state(uint8_t *out, const amqp_state_t *state);

#endif
