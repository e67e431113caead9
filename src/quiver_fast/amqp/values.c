/* Reading AMQP 1.0 values (part 1.6). */

#include "constructors.h"
#include "values.h"

#include <string.h>

const char *amqp_condition(enum amqp_fault fault) {
  switch (fault) {
  case AMQP_FRAMING_ERROR:
    return "amqp:connection:framing-error";
  case AMQP_MORE:
  case AMQP_DECODE_ERROR:
    return "amqp:decode-error";
  case AMQP_INVALID_FIELD:
    return "amqp:invalid-field";
  case AMQP_NOT_ALLOWED:
    return "amqp:not-allowed";
  case AMQP_ILLEGAL_STATE:
    return "amqp:illegal-state";
  case AMQP_HANDLE_IN_USE:
    return "amqp:session:handle-in-use";
  case AMQP_NO_HANDLE:
    return "amqp:session:unattached-handle";
  default:
    return NULL;
  }
}

static inline void refuse(amqp_reader_t *in, enum amqp_fault fault) {
  if (in->fault == AMQP_FINE) in->fault = fault;
  in->at = in->end;
}

/* Return the next `size` bytes, and skip them; NULL if there are fewer. */
static inline const uint8_t *take(amqp_reader_t *in, size_t size) {
  if (in->fault || size > (size_t) (in->end - in->at)) {
    refuse(in, AMQP_MORE);
    return NULL;
  }
  const uint8_t *start = in->at;
  in->at += size;
  return start;
}

/* Read a big-endian number of `width` bytes. */
static inline uint64_t read_number(amqp_reader_t *in, size_t width) {
  const uint8_t *bytes = take(in, width);
  uint64_t number = 0;
  for (size_t i = 0; bytes && i < width; i++) number = number << 8 | bytes[i];
  return number;
}

static inline uint8_t read_byte(amqp_reader_t *in) {
  return (uint8_t) read_number(in, 1);
}

static amqp_bytes_t read_sized(amqp_reader_t *in, size_t width) {
  const size_t size = (size_t) read_number(in, width);
  const uint8_t *start = take(in, size);
  return (amqp_bytes_t) {start, start ? size : 0};
}

/* ---- Any value (part 1.6) */

/* The size of a value after its constructor. */
typedef struct form {
  uint8_t prefix; /* bytes of its size; 0 if that is fixed */
  uint8_t least;  /* the fixed size; of a list, a map or an array the least one */
  bool is_known;
} form_t;

/* The items of a compound value are not checked: a user that wants them reads them. But its count,
 * and an array's constructor, must be within its size. */
static const form_t FORMS[256] = {
  [NULL_... LIST0] = {0, 0, true},
  [UBYTE... BOOLEAN] = {0, 1, true},
  [USHORT... 0x61] = {0, 2, true},
  [UINT... 0x74] = {0, 4, true},
  [ULONG... 0x84] = {0, 8, true},
  [0x94] = {0, 16, true},
  [0x98] = {0, 16, true},
  [BINARY8] = {1, 0, true},
  [STRING8] = {1, 0, true},
  [SYMBOL8] = {1, 0, true},
  [BINARY32] = {4, 0, true},
  [STRING32] = {4, 0, true},
  [SYMBOL32] = {4, 0, true},
  [LIST8] = {1, 1, true},
  [MAP8] = {1, 1, true},
  [LIST32] = {4, 4, true},
  [MAP32] = {4, 4, true},
  [ARRAY8] = {1, 2, true},
  [ARRAY32] = {4, 5, true},
};

/* Skip a value after its constructor, and return it without its size. */
static inline amqp_bytes_t read_content(amqp_reader_t *in, uint8_t constructor) {
  const form_t form = FORMS[constructor];
  amqp_bytes_t content = {NULL, form.least};
  if (form.prefix) content.size = form.prefix == 1 ? read_byte(in) : read_number(in, 4);
  if (!form.is_known || content.size < form.least) refuse(in, AMQP_DECODE_ERROR);
  if (in->fault) return (amqp_bytes_t) {NULL, 0};
  content.start = in->at;
  if (take(in, content.size) && constructor == BOOLEAN && *content.start > 1)
    refuse(in, AMQP_DECODE_ERROR);
  return content;
}

amqp_bytes_t amqp_read_value(amqp_reader_t *in) {
  const uint8_t *start = in->at;
  uint8_t constructor = read_byte(in);
  /* A described value has two parts, and its descriptor may be described itself. */
  for (size_t values = 1; values && !in->fault; values--) {
    for (; constructor == DESCRIBED && !in->fault; constructor = read_byte(in)) values++;
    read_content(in, constructor);
    if (values > 1) constructor = read_byte(in);
  }
  if (in->fault) return (amqp_bytes_t) {NULL, 0};
  return (amqp_bytes_t) {start, (size_t) (in->at - start)};
}

static inline bool read_bare(amqp_reader_t *in, uint8_t constructor, amqp_value_t *value) {
  amqp_reader_t local = *in; /* stays in registers */
  value->constructor = constructor;
  value->content = read_content(&local, constructor);
  *in = local;
  return !local.fault;
}

bool amqp_read_content(amqp_reader_t *in, amqp_value_t *value) {
  uint8_t constructor = read_byte(in);
  while (constructor == DESCRIBED && !in->fault) {
    amqp_read_value(in);
    constructor = read_byte(in);
  }
  return read_bare(in, constructor, value);
}

bool amqp_read_bare(amqp_reader_t *in, uint8_t constructor, amqp_value_t *value) {
  return read_bare(in, constructor, value);
}

/* ---- Descriptors */

typedef struct name {
  const char *symbol;
  uint64_t code;
} name_t;

static const name_t CODES[] = {
  {"amqp:open:list", AMQP_CODE_OPEN},
  {"amqp:begin:list", AMQP_CODE_BEGIN},
  {"amqp:attach:list", AMQP_CODE_ATTACH},
  {"amqp:flow:list", AMQP_CODE_FLOW},
  {"amqp:transfer:list", AMQP_CODE_TRANSFER},
  {"amqp:disposition:list", AMQP_CODE_DISPOSITION},
  {"amqp:detach:list", AMQP_CODE_DETACH},
  {"amqp:end:list", AMQP_CODE_END},
  {"amqp:close:list", AMQP_CODE_CLOSE},
  {"amqp:error:list", AMQP_CODE_ERROR},
  {"amqp:received:list", AMQP_CODE_RECEIVED},
  {"amqp:accepted:list", AMQP_CODE_ACCEPTED},
  {"amqp:rejected:list", AMQP_CODE_REJECTED},
  {"amqp:released:list", AMQP_CODE_RELEASED},
  {"amqp:modified:list", AMQP_CODE_MODIFIED},
  {"amqp:declare:list", AMQP_CODE_DECLARE},
  {"amqp:discharge:list", AMQP_CODE_DISCHARGE},
  {"amqp:declared:list", AMQP_CODE_DECLARED},
  {"amqp:transactional-state:list", AMQP_CODE_TRANSACTIONAL},
};
#define CODES_COUNT (sizeof CODES / sizeof *CODES)

static const name_t SECTIONS[] = {
  {"amqp:header:list", AMQP_SECTION_HEADER},
  {"amqp:delivery-annotations:map", AMQP_SECTION_DELIVERY_ANNOTATIONS},
  {"amqp:message-annotations:map", AMQP_SECTION_MESSAGE_ANNOTATIONS},
  {"amqp:properties:list", AMQP_SECTION_PROPERTIES},
  {"amqp:application-properties:map", AMQP_SECTION_APPLICATION_PROPERTIES},
  {"amqp:data:binary", AMQP_SECTION_DATA},
  {"amqp:amqp-sequence:list", AMQP_SECTION_SEQUENCE},
  {"amqp:amqp-value:*", AMQP_SECTION_VALUE},
  {"amqp:footer:map", AMQP_SECTION_FOOTER},
};
#define SECTIONS_COUNT (sizeof SECTIONS / sizeof *SECTIONS)

static uint64_t code_of_symbol(amqp_bytes_t symbol, const name_t *names, size_t count) {
  for (size_t i = 0; symbol.start && i < count; i++) {
    const size_t size = strlen(names[i].symbol);
    if (size == symbol.size && !memcmp(names[i].symbol, symbol.start, size)) return names[i].code;
  }
  return AMQP_CODE_UNKNOWN;
}

/* Read a descriptor: a number, or a symbol as the code of its name. */
static uint64_t read_code(amqp_reader_t *in, const name_t *names, size_t count) {
  if (read_byte(in) != DESCRIBED) refuse(in, AMQP_DECODE_ERROR);
  amqp_reader_t other = *in;
  switch (read_byte(in)) {
  case SMALL_ULONG:
    return read_number(in, 1);
  case ULONG:
    return read_number(in, 8);
  case SYMBOL8:
    return code_of_symbol(read_sized(in, 1), names, count);
  case SYMBOL32:
    return code_of_symbol(read_sized(in, 4), names, count);
  default:
    amqp_read_value(&other);
    *in = other;
    return AMQP_CODE_UNKNOWN;
  }
}

enum amqp_code amqp_read_descriptor(amqp_reader_t *in) {
  const uint64_t number = read_code(in, CODES, CODES_COUNT);
  if (in->fault) return AMQP_CODE_NONE;
  for (size_t i = 0; i < CODES_COUNT; i++) {
    if (CODES[i].code == number) return (enum amqp_code) number;
  }
  return AMQP_CODE_UNKNOWN;
}

enum amqp_section amqp_read_section(amqp_reader_t *in) {
  const uint64_t number = read_code(in, SECTIONS, SECTIONS_COUNT);
  if (number < AMQP_SECTION_HEADER || number > AMQP_SECTION_FOOTER) refuse(in, AMQP_DECODE_ERROR);
  return in->fault ? AMQP_SECTION_NONE : (enum amqp_section) number;
}

/* ---- Lists and their fields */

static amqp_fields_t read_compound(amqp_reader_t *in, uint8_t constructor) {
  amqp_fields_t fields = {{NULL, NULL, AMQP_FINE}, 0};
  const amqp_bytes_t content = read_content(in, constructor);
  if (!content.start) return fields;
  const uint8_t *const end = in->fault ? in->end : in->at;
  fields.in = (amqp_reader_t) {content.start, end, AMQP_FINE};
  fields.left = (uint32_t) read_number(&fields.in, constructor & 0x10 ? 4 : 1);
  return fields;
}

amqp_fields_t amqp_read_list(amqp_reader_t *in) {
  const uint8_t constructor = read_byte(in);
  if (constructor == LIST0) return (amqp_fields_t) {{NULL, NULL, AMQP_FINE}, 0};
  if (constructor != LIST8 && constructor != LIST32) refuse(in, AMQP_DECODE_ERROR);
  return read_compound(in, constructor);
}

amqp_fields_t amqp_read_map(amqp_reader_t *in) {
  const uint8_t constructor = read_byte(in);
  if (constructor != MAP8 && constructor != MAP32) refuse(in, AMQP_DECODE_ERROR);
  return read_compound(in, constructor);
}

void amqp_end_fields(amqp_reader_t *in, const amqp_fields_t *fields) {
  /* Nothing comes after the end of a list. */
  if (fields->in.fault == AMQP_MORE) refuse(in, AMQP_DECODE_ERROR);
  if (fields->in.fault) refuse(in, fields->in.fault);
  if (fields->left || fields->in.at != fields->in.end) refuse(in, AMQP_DECODE_ERROR);
}

/* Return the constructor of the next field; that of null if the sender left it out. */
static uint8_t next_field(amqp_fields_t *fields) {
  if (fields->left == 0 || fields->in.fault) return NULL_;
  fields->left--;
  return read_byte(&fields->in);
}

static uint32_t read_uint(amqp_reader_t *in, uint8_t constructor) {
  switch (constructor) {
  case UINT0:
    return 0;
  case SMALL_UINT:
    return (uint32_t) read_number(in, 1);
  case UINT:
    return (uint32_t) read_number(in, 4);
  default:
    refuse(in, AMQP_DECODE_ERROR);
    return 0;
  }
}

uint32_t amqp_field_optional_uint(amqp_fields_t *fields, bool *there) {
  const uint8_t constructor = next_field(fields);
  *there = constructor != NULL_;
  return *there ? read_uint(&fields->in, constructor) : 0;
}

uint32_t amqp_field_mandatory_uint(amqp_fields_t *fields) {
  bool there;
  const uint32_t number = amqp_field_optional_uint(fields, &there);
  if (!there) refuse(&fields->in, AMQP_INVALID_FIELD);
  return number;
}

static uint64_t read_ulong(amqp_reader_t *in, uint8_t constructor) {
  switch (constructor) {
  case ULONG0:
    return 0;
  case SMALL_ULONG:
    return read_number(in, 1);
  case ULONG:
    return read_number(in, 8);
  default:
    refuse(in, AMQP_DECODE_ERROR);
    return 0;
  }
}

uint64_t amqp_field_optional_ulong(amqp_fields_t *fields, bool *there) {
  const uint8_t constructor = next_field(fields);
  *there = constructor != NULL_;
  return *there ? read_ulong(&fields->in, constructor) : 0;
}

uint16_t amqp_field_optional_ushort(amqp_fields_t *fields, bool *there) {
  const uint8_t constructor = next_field(fields);
  *there = constructor != NULL_;
  if (!*there) return 0;
  if (constructor != USHORT) refuse(&fields->in, AMQP_DECODE_ERROR);
  return (uint16_t) read_number(&fields->in, 2);
}

uint8_t amqp_field_optional_ubyte(amqp_fields_t *fields, bool *there) {
  const uint8_t constructor = next_field(fields);
  *there = constructor != NULL_;
  if (!*there) return 0;
  if (constructor != UBYTE) refuse(&fields->in, AMQP_DECODE_ERROR);
  return read_byte(&fields->in);
}

static bool read_boolean(amqp_reader_t *in, uint8_t constructor) {
  if (constructor == TRUE_) return true;
  if (constructor == FALSE_) return false;
  const uint8_t byte = constructor == BOOLEAN ? read_byte(in) : 2;
  if (byte > 1) refuse(in, AMQP_DECODE_ERROR);
  return byte == 1;
}

bool amqp_field_optional_boolean(amqp_fields_t *fields, bool *there) {
  const uint8_t constructor = next_field(fields);
  *there = constructor != NULL_;
  return *there && read_boolean(&fields->in, constructor);
}

bool amqp_field_boolean(amqp_fields_t *fields, bool otherwise) {
  bool there;
  const bool value = amqp_field_optional_boolean(fields, &there);
  return there ? value : otherwise;
}

bool amqp_field_mandatory_boolean(amqp_fields_t *fields) {
  bool there;
  const bool value = amqp_field_optional_boolean(fields, &there);
  if (!there) refuse(&fields->in, AMQP_INVALID_FIELD);
  return value;
}

static amqp_bytes_t field_bytes(amqp_fields_t *fields, uint8_t narrow, uint8_t wide) {
  const uint8_t constructor = next_field(fields);
  if (constructor == narrow) return read_sized(&fields->in, 1);
  if (constructor == wide) return read_sized(&fields->in, 4);
  if (constructor != NULL_) refuse(&fields->in, AMQP_DECODE_ERROR);
  return (amqp_bytes_t) {NULL, 0};
}

amqp_bytes_t amqp_field_binary(amqp_fields_t *fields) {
  return field_bytes(fields, BINARY8, BINARY32);
}

amqp_bytes_t amqp_field_symbol(amqp_fields_t *fields) {
  return field_bytes(fields, SYMBOL8, SYMBOL32);
}

amqp_bytes_t amqp_field_string(amqp_fields_t *fields) {
  return field_bytes(fields, STRING8, STRING32);
}

amqp_bytes_t amqp_field_any(amqp_fields_t *fields) {
  const amqp_bytes_t none = {NULL, 0};
  if (fields->left == 0 || fields->in.fault) return none;
  fields->left--;
  const amqp_bytes_t value = amqp_read_value(&fields->in);
  return value.start && *value.start == NULL_ ? none : value;
}
