/* Writing frames in the shortest encodings that all peers read. */
#ifndef QUIVER_AMQP_FRAMES_OUT_H
#define QUIVER_AMQP_FRAMES_OUT_H

#include "frames.h"

/* The room that a frame needs at most, beside its state and its payload. */
#define AMQP_FRAME_ROOM 96
/* A transaction's id is no longer: it is written with a length of one byte. */
#define AMQP_TXN_ID_MAX 255
/* The room that a state needs at most, beside its transaction's id and with the longest one. */
#define AMQP_STATE_HEAD 18
#define AMQP_STATE_ROOM (AMQP_STATE_HEAD + AMQP_TXN_ID_MAX)

/* Each writes at `out`, which has the room, and returns where what it wrote ends. */

/* A frame without a body: all that an idle side owes its peer (part 2.4.5). */
uint8_t *amqp_write_empty(uint8_t *out);

/* All of a transfer but its payload, whose size the frame counts: it comes next.
 * The room is AMQP_FRAME_ROOM and the size of the state. */
uint8_t *amqp_write_transfer(uint8_t *out, uint16_t channel, const amqp_transfer_t *transfer);

uint8_t *amqp_write_flow(uint8_t *out, uint16_t channel, const amqp_flow_t *flow);

/* An attach frame of the engine's with another default outcome in its source (part 3.5.3); as it
 * is where it has no source. Beside the frame and the outcome it needs AMQP_ATTACH_ROOM. */
#define AMQP_ATTACH_ROOM 64
uint8_t *amqp_write_attach(uint8_t *out, const amqp_frame_t *frame, amqp_bytes_t outcome);

/* The state is written from `state.encoded`, whose size adds to the room; none for null. */
uint8_t *amqp_write_disposition(
  uint8_t *out, uint16_t channel, const amqp_disposition_t *disposition);

/* A state: accepted, released, rejected without an error, modified with its flags, or a
 * transactional one with its id and an outcome without fields. */
uint8_t *amqp_write_state(uint8_t *out, const amqp_state_t *state);

#endif
