/* Descriptors of control frames: a descriptor is a number or a symbol (part 1.1.2), and the engine
 * reads numbers alone. */
#ifndef QUIVER_AMQP_SYMBOLS_H
#define QUIVER_AMQP_SYMBOLS_H

#include "frames.h"

/* Replace the known symbols among the descriptors of a frame by their numbers, in place, and return
 * the frame's bytes, which may be fewer. A fault means that the frame is malformed. */
amqp_bytes_t amqp_number_symbols(uint8_t *start, const amqp_frame_t *frame, enum amqp_fault *fault);

#endif
