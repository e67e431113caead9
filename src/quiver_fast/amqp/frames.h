/* Frames (part 2.3), and the performatives of the data plane: transfer, flow, disposition.
 *
 * The engine handles all other frames: it opens connections, sessions and links. */
#ifndef QUIVER_AMQP_FRAMES_H
#define QUIVER_AMQP_FRAMES_H

#include "values.h"

#include <string.h>

#define AMQP_FRAME_HEADER 8
/* The smallest max-frame-size that a side may advertise (part 2.3.3). */
#define AMQP_MIN_MAX_FRAME_SIZE 512
/* Delivery tags are no longer (part 2.8.7). */
#define AMQP_TAG_MAX 32

enum amqp_frame_kind {
  AMQP_FRAME_EMPTY,
  AMQP_FRAME_TRANSFER,
  AMQP_FRAME_FLOW,
  AMQP_FRAME_DISPOSITION,
  /* Anything else, also SASL and malformed descriptors: the engine judges it. */
  AMQP_FRAME_CONTROL,
};

typedef struct amqp_frame {
  uint32_t size; /* with its header; 0 while the frame is incomplete */
  uint16_t channel;
  enum amqp_frame_kind kind;
  amqp_bytes_t body;   /* from the performative on */
  amqp_bytes_t fields; /* from the performative's list on; only for the data plane's frames */
  enum amqp_code code; /* of the performative; AMQP_CODE_NONE for a frame without one */
} amqp_frame_t;

enum amqp_role {
  AMQP_SENDER = 0,
  AMQP_RECEIVER = 1,
};

enum {
  AMQP_FIRST = 0,
  AMQP_SECOND = 1
}; /* rcv-settle-mode (part 2.8.3) */

/* The state of a delivery (parts 3.4 and 4.5). */
typedef struct amqp_state {
  enum amqp_code code;    /* AMQP_CODE_NONE for null */
  enum amqp_code outcome; /* of a transactional state: the delivery's outcome at the commit */
  amqp_bytes_t encoded;
  amqp_bytes_t txn_id;      /* of declared and transactional states */
  amqp_bytes_t condition;   /* of rejected */
  amqp_bytes_t description; /* of rejected */
  bool delivery_failed;     /* of modified */
  bool undeliverable_here;  /* of modified */
  amqp_bytes_t annotations; /* of modified */
  uint32_t section_number;  /* of received */
  uint64_t section_offset;  /* of received */
} amqp_state_t;

/* Part 2.7.5. A frame that continues a delivery may leave its id, tag and format out. */
typedef struct amqp_transfer {
  uint32_t handle;
  uint32_t delivery_id;
  uint32_t message_format;
  bool has_delivery_id;
  bool has_message_format;
  bool has_settled;
  bool settled;
  bool more;
  bool has_rcv_settle_mode;
  uint8_t rcv_settle_mode;
  bool resume;
  bool aborted;
  bool batchable;
  amqp_bytes_t tag;
  amqp_bytes_t state; /* encoded: few users read it */
  amqp_bytes_t payload;
} amqp_transfer_t;

/* Part 2.7.4. Without a handle it has only the fields of the session. */
typedef struct amqp_flow {
  uint32_t next_incoming_id;
  uint32_t incoming_window;
  uint32_t next_outgoing_id;
  uint32_t outgoing_window;
  uint32_t handle;
  uint32_t delivery_count;
  uint32_t link_credit;
  uint32_t available;
  bool has_next_incoming_id; /* false before the peer's begin */
  bool has_handle;
  bool has_delivery_count;
  bool has_link_credit;
  bool has_available;
  bool drain;
  bool echo;
  bool acquires; /* messages in a transaction (part 4.4.3) */
} amqp_flow_t;

/* Part 2.7.6. */
typedef struct amqp_disposition {
  enum amqp_role role; /* of its sender */
  uint32_t first;
  uint32_t last;
  bool settled;
  bool batchable;
  amqp_state_t state;
} amqp_disposition_t;

/* Read the next frame's header and kind. Its size is 0 while it is incomplete.
 * A frame larger than `max_frame_size`, which this side advertised, is a framing error. */
enum amqp_fault amqp_read_frame(
  const uint8_t *data, size_t size, uint32_t max_frame_size, amqp_frame_t *frame);

/* Return the code of a frame's performative; AMQP_CODE_NONE for an empty frame and for SASL. */
static inline enum amqp_code amqp_frame_code(const amqp_frame_t *frame) {
  amqp_reader_t in = amqp_reader(frame->body.start, frame->body.size);
  return frame->fields.start ? amqp_read_descriptor(&in) : AMQP_CODE_NONE;
}

/* Read the performative of a frame of that kind. */
enum amqp_fault amqp_read_transfer(const amqp_frame_t *frame, amqp_transfer_t *transfer);
enum amqp_fault amqp_read_flow(const amqp_frame_t *frame, amqp_flow_t *flow);
enum amqp_fault amqp_read_disposition(const amqp_frame_t *frame, amqp_disposition_t *disposition);

/* Read a delivery state, such as that of a transfer. */
enum amqp_fault amqp_read_state(amqp_bytes_t encoded, amqp_state_t *state);

/* The fields of the short way; all others have their defaults. */
typedef struct amqp_swift {
  uint32_t size; /* of the frame */
  uint16_t channel;
  bool settled;
  bool more;
  uint32_t handle;
  uint32_t delivery_id;
  uint32_t message_format;
  amqp_bytes_t tag;
  amqp_bytes_t payload;
} amqp_swift_t;

/* Read a transfer with its frame's header in one pass, if it is complete and usual: with an id, a
 * tag and a format, in the encodings that peers use. Otherwise false: nothing is known, and the
 * caller must use the complete readers. */
bool amqp_read_swift_transfer(
  const uint8_t *data, size_t size, uint32_t max_frame_size, amqp_swift_t *swift);

/* The likeness of transfers that differ only in size, id, tag and payload: their bytes from the
 * header's fifth on, as words, and masks that leave id and tag out. */
#define AMQP_LIKENESS_WORDS 6
typedef struct amqp_likeness {
  uint64_t words[AMQP_LIKENESS_WORDS];
  uint64_t masks[AMQP_LIKENESS_WORDS];
  uint32_t count;   /* of words; 0 while there is no likeness */
  uint32_t payload; /* its offset in the frame */
  uint32_t id, tag; /* their offsets; the id has 4 bytes */
  uint32_t tag_size;
} amqp_likeness_t;

/* Learn the likeness of a transfer that the short way read at `data`. */
void amqp_likeness_learn(amqp_likeness_t *likeness, const uint8_t *data, const amqp_swift_t *swift);

/* Say whether the frame at `data` is whole and of that likeness: it then differs from the learned
 * one only in size, id, tag and payload. */
static inline bool amqp_likeness_fits(
  const amqp_likeness_t *likeness, const uint8_t *data, size_t size, uint32_t max_frame_size) {
  uint32_t whole;
  uint64_t difference = 0;
  if (likeness->count == 0 || size < 4 + AMQP_LIKENESS_WORDS * sizeof(uint64_t)) return false;
  memcpy(&whole, data, sizeof whole);
  whole = __builtin_bswap32(whole);
  if (whole > size || whole > max_frame_size || whole < likeness->payload) return false;
  for (uint32_t i = 0; i < likeness->count; i++) {
    uint64_t word;
    memcpy(&word, data + 4 + i * sizeof word, sizeof word);
    difference |= (word ^ likeness->words[i]) & likeness->masks[i];
  }
  return difference == 0;
}

#endif
