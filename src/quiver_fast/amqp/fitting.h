/* Shorter forms of frames and states: none of our frames is larger than the peer takes (parts
 * 2.4.1 and 2.7.1). */
#ifndef QUIVER_AMQP_FITTING_H
#define QUIVER_AMQP_FITTING_H

#include "frames.h"

/* The room of a shorter frame is that of the frame and this. */
#define AMQP_FITTING_ROOM 64

/* Write a shorter form of a frame of the engine, and return its end. It may still be too large.
 *
 * - detach, end and close: the error has no info, and its description is cut so that the frame has
 *   at most `most` bytes;
 * - attach: without its termini, so that it refuses the link (part 2.6.3);
 * - open: without its properties;
 * - other frames have no shorter form: NULL. */
uint8_t *amqp_write_shorter(uint8_t *out, const amqp_frame_t *frame, size_t most);

/* Write a shorter form of a state, with at most `most` bytes, of which there have to be 64:
 * rejected as an error above, others without their fields, except the flags of modified. */
uint8_t *amqp_write_shorter_state(uint8_t *out, amqp_bytes_t state, size_t most);

#endif
