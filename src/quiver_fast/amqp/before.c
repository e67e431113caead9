/* The layers before AMQP's frames: headers and SASL. */

#include "plane_parts.h"

/* Protocol ids, in a header's fifth byte (parts 2.2 and 5.2). */
#define TLS_TUNNEL 2
#define SASL_LAYER 3
#define AMQP_PROPER 0
/* Names and passwords cost more than their bytes, so the limit holds (part 5.3.1). */
#define SASL_FRAME_MAX AMQP_MIN_MAX_FRAME_SIZE

static const uint8_t UNKNOWN_TUNNEL[HEADER_SIZE] = {'A', 'M', 'Q', 'P', TLS_TUNNEL, 1, 0, 1};

/* A header that begins no SASL gets the header that has to be first, and the end (part 2.2). The
 * engine ends the connection, and says nothing. */
static enum amqp_event demand_sasl(amqp_plane_t *plane) {
  static const uint8_t SKIPPING[HEADER_SIZE] = {'A', 'M', 'Q', 'P', AMQP_PROPER, 1, 0, 0};
  static const uint8_t DEMANDED[HEADER_SIZE] = {'A', 'M', 'Q', 'P', SASL_LAYER, 1, 0, 0};
  uint8_t *room = amqp_output_room(&plane->output, HEADER_SIZE);
  if (!room) return AMQP_NO_MEMORY;
  memcpy(room, DEMANDED, HEADER_SIZE);
  amqp_output_add(&plane->output, room + HEADER_SIZE);
  return hand_over(plane, (amqp_bytes_t) {SKIPPING, HEADER_SIZE});
}

static enum amqp_event next_header(amqp_plane_t *plane, amqp_bytes_t bytes) {
  if (plane->demands_sasl && plane->layer == AMQP_LAYER_NONE && bytes.start[4] != SASL_LAYER)
    return demand_sasl(plane);
  /* The engine does not answer the header of a TLS tunnel. It answers an unknown header with its
   * own and ends, so it gets one of another revision instead (parts 2.2 and 5.2). */
  if (bytes.start[4] == TLS_TUNNEL)
    return hand_over(plane, (amqp_bytes_t) {UNKNOWN_TUNNEL, HEADER_SIZE});
  if (bytes.start[4] == SASL_LAYER && plane->layer == AMQP_LAYER_NONE)
    plane->layer = AMQP_LAYER_SASL;
  if (bytes.start[4] == AMQP_PROPER) plane->layer = AMQP_LAYER_AMQP;
  return hand_over(plane, (amqp_bytes_t) {bytes.start, HEADER_SIZE});
}

/* The engine would dispatch frames of AMQP too, before the outcome (part 5.3.2). */
static enum amqp_event next_of_sasl(amqp_plane_t *plane, amqp_bytes_t bytes) {
  amqp_frame_t frame;
  if (is_header(bytes))
    return refuse(
      plane, AMQP_OF_CONNECTION, "amqp:connection:framing-error", "a header before SASL's outcome");
  const enum amqp_fault fault = amqp_read_frame(bytes.start, bytes.size, SASL_FRAME_MAX, &frame);
  if (fault || bytes.start[5] != AMQP_TYPE_SASL || (frame.size && frame.body.size == 0))
    return refuse(plane, AMQP_OF_CONNECTION, "amqp:connection:framing-error",
      "no SASL frame where one is due: the peer skipped authentication");
  if (!frame.size) return AMQP_NOTHING;
  return amqp_hand_over_frame(plane, &frame);
}

/* The engine gets headers, frames of SASL, and any other first bytes of a peer. */
enum amqp_event amqp_next_before(amqp_plane_t *plane, amqp_bytes_t bytes) {
  if (bytes.size < HEADER_SIZE || plane->held) return AMQP_NOTHING;
  if (plane->layer == AMQP_LAYER_SASL) return next_of_sasl(plane, bytes);
  /* The engine refuses bytes that are no header, and gets all of them. */
  return is_header(bytes) ? next_header(plane, bytes) : hand_over(plane, bytes);
}

void amqp_plane_secure(amqp_plane_t *plane) {
  plane->layer = AMQP_LAYER_SECURED;
}
