/* AMQP 1.0 values in bytes (part 1), of performatives and of messages.
 *
 * A reader never passes its end. It keeps its first fault and then returns zeros, so a caller
 * reads all fields of a list and checks for a fault once. */
#ifndef QUIVER_AMQP_VALUES_H
#define QUIVER_AMQP_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The fault of refused bytes; amqp_condition returns its condition for a close. */
enum amqp_fault {
  AMQP_FINE,
  AMQP_MORE,          /* the bytes end within a value; a decode-error if no more of them come */
  AMQP_FRAMING_ERROR, /* part 2.8.16: no frame header can be formed */
  AMQP_DECODE_ERROR,  /* part 2.8.15: no value, or one of another type */
  AMQP_INVALID_FIELD, /* part 2.8.15: a mandatory field that is null, a value out of range */
  AMQP_NOT_ALLOWED,   /* part 2.8.15: a frame that the state does not allow */
  AMQP_ILLEGAL_STATE, /* part 2.8.15: a frame that came once already */
  AMQP_HANDLE_IN_USE, /* part 2.8.17 */
  AMQP_NO_HANDLE,     /* part 2.8.17: unattached */
};

const char *amqp_condition(enum amqp_fault fault);

/* Borrowed bytes; a start of NULL is AMQP's null. */
typedef struct amqp_bytes {
  const uint8_t *start;
  size_t size;
} amqp_bytes_t;

typedef struct amqp_reader {
  const uint8_t *at, *end;
  enum amqp_fault fault;
} amqp_reader_t;

static inline amqp_reader_t amqp_reader(const uint8_t *start, size_t size) {
  return (amqp_reader_t) {start, start + size, AMQP_FINE};
}

/* The fields of a composite (part 1.4): those that a sender left out are null. */
typedef struct amqp_fields {
  amqp_reader_t in;
  uint32_t left;
} amqp_fields_t;

/* Codes of described lists, whether they came as a number or as a symbol. */
enum amqp_code {
  AMQP_CODE_NONE = 0,
  AMQP_CODE_OPEN = 0x10,
  AMQP_CODE_BEGIN = 0x11,
  AMQP_CODE_ATTACH = 0x12,
  AMQP_CODE_FLOW = 0x13,
  AMQP_CODE_TRANSFER = 0x14,
  AMQP_CODE_DISPOSITION = 0x15,
  AMQP_CODE_DETACH = 0x16,
  AMQP_CODE_END = 0x17,
  AMQP_CODE_CLOSE = 0x18,
  AMQP_CODE_ERROR = 0x1d,
  AMQP_CODE_RECEIVED = 0x23,
  AMQP_CODE_ACCEPTED = 0x24,
  AMQP_CODE_REJECTED = 0x25,
  AMQP_CODE_RELEASED = 0x26,
  AMQP_CODE_MODIFIED = 0x27,
  AMQP_CODE_DECLARE = 0x31,
  AMQP_CODE_DISCHARGE = 0x32,
  AMQP_CODE_DECLARED = 0x33,
  AMQP_CODE_TRANSACTIONAL = 0x34,
  /* Any other descriptor, such as an outcome that an extension defines. */
  AMQP_CODE_UNKNOWN = 0xff,
};

/* Sections of a message (part 3.2). */
enum amqp_section {
  AMQP_SECTION_NONE = 0,
  AMQP_SECTION_HEADER = 0x70,
  AMQP_SECTION_DELIVERY_ANNOTATIONS = 0x71,
  AMQP_SECTION_MESSAGE_ANNOTATIONS = 0x72,
  AMQP_SECTION_PROPERTIES = 0x73,
  AMQP_SECTION_APPLICATION_PROPERTIES = 0x74,
  AMQP_SECTION_DATA = 0x75,
  AMQP_SECTION_SEQUENCE = 0x76,
  AMQP_SECTION_VALUE = 0x77,
  AMQP_SECTION_FOOTER = 0x78,
};

/* A value without its descriptors. The content of a list, a map or an array begins with its
 * count. */
typedef struct amqp_value {
  uint8_t constructor;
  amqp_bytes_t content;
} amqp_value_t;

/* Read the descriptor of a described value; the value comes next. */
enum amqp_code amqp_read_descriptor(amqp_reader_t *in);

/* Read the descriptor of a section; any other is refused. */
enum amqp_section amqp_read_section(amqp_reader_t *in);

/* Skip one value of any type, and return its bytes. */
amqp_bytes_t amqp_read_value(amqp_reader_t *in);

/* The same, in parts; false for a fault. If the bytes end within the content, its start and whole
 * size are known all the same; else the start is NULL. */
bool amqp_read_content(amqp_reader_t *in, amqp_value_t *value);

/* The same for an element of an array, whose constructor is the array's (part 1.6.24). */
bool amqp_read_bare(amqp_reader_t *in, uint8_t constructor, amqp_value_t *value);

/* Read a list's head. The list must end with its last field: amqp_end_fields checks that. If the
 * bytes end within the list, only the fields before are read. */
amqp_fields_t amqp_read_list(amqp_reader_t *in);

/* The same for a map, whose fields are its keys and values in turn. */
amqp_fields_t amqp_read_map(amqp_reader_t *in);

/* Take over the fault of the fields, and refuse unknown fields. */
void amqp_end_fields(amqp_reader_t *in, const amqp_fields_t *fields);

/* Read the next field: the plain form has a default for null, the optional form sets `*there` if
 * there was a value, and the mandatory form refuses null. */
bool amqp_field_boolean(amqp_fields_t *fields, bool otherwise);
uint32_t amqp_field_optional_uint(amqp_fields_t *fields, bool *there);
uint64_t amqp_field_optional_ulong(amqp_fields_t *fields, bool *there);
uint16_t amqp_field_optional_ushort(amqp_fields_t *fields, bool *there);
uint8_t amqp_field_optional_ubyte(amqp_fields_t *fields, bool *there);
bool amqp_field_optional_boolean(amqp_fields_t *fields, bool *there);
uint32_t amqp_field_mandatory_uint(amqp_fields_t *fields);
bool amqp_field_mandatory_boolean(amqp_fields_t *fields);

/* Fields of bytes have a start of NULL for null. */
amqp_bytes_t amqp_field_binary(amqp_fields_t *fields);
amqp_bytes_t amqp_field_symbol(amqp_fields_t *fields);
amqp_bytes_t amqp_field_string(amqp_fields_t *fields);

/* The bytes of the next field of any type; a null has a start of NULL. */
amqp_bytes_t amqp_field_any(amqp_fields_t *fields);

#endif
