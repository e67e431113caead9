from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef enum ScanResult:
    SCAN_FOUND        # SendTime is there
    SCAN_MORE         # the bytes end before SendTime was found
    SCAN_MISSING      # the body begins and there was no SendTime
    SCAN_WRONG_TYPE   # SendTime is not an AMQP long
    SCAN_MALFORMED    # this is not an AMQP message

cdef struct ScannedMessage:
    int64_t send_time
    # Application property BodySize, where it comes before SendTime; else -1.
    int64_t body_size
    # The message-id's constructor and content; id_code 0 when there is none.
    uint8_t id_code
    const uint8_t *id
    size_t id_size
    # Where SendTime's 8 bytes are; NULL where it is encoded otherwise.
    const uint8_t *time

cdef ScanResult scan_message(
    const uint8_t *data, size_t size, ScannedMessage *found) noexcept nogil

cdef enum:
    LIKENESS_WORDS = 16

# The bytes of a message up to SendTime, as words, and masks without the id and SendTime.
cdef struct ScanLikeness:
    uint64_t[LIKENESS_WORDS] words
    uint64_t[LIKENESS_WORDS] masks
    # Number of words; 0 if no message is alike.
    size_t count
    size_t time_at
    size_t id_at
    # The result of the scan of that message.
    ScannedMessage found

# Say whether a message begins with the same bytes: then SendTime is at `time_at`.
cdef inline bint is_alike(
        const ScanLikeness *likeness, const uint8_t *data, size_t size) noexcept nogil:
    cdef uint64_t difference = 0
    cdef uint64_t word
    cdef size_t i
    if likeness.count == 0 or size < likeness.count * sizeof(word):
        return False
    for i in range(likeness.count):
        memcpy(&word, data + i * sizeof(word), sizeof(word))
        difference |= (word ^ likeness.words[i]) & likeness.masks[i]
    return difference == 0

cdef inline int64_t time_field(const uint8_t *field) noexcept nogil:
    # Compilers make one instruction of this expression, but not of a loop.
    return <int64_t>(
        (<uint64_t>field[0] << 56) | (<uint64_t>field[1] << 48) | (<uint64_t>field[2] << 40)
        | (<uint64_t>field[3] << 32) | (<uint64_t>field[4] << 24) | (<uint64_t>field[5] << 16)
        | (<uint64_t>field[6] << 8) | <uint64_t>field[7])

# Return a message-id that is no string as text (parts 3.2.11 to 3.2.13); None if records cannot
# hold it. `code` is its constructor, or 0 without an id.
cdef bytes id_as_text(uint8_t code, bytes raw)
# Say why records cannot hold an id with this constructor.
cdef str flaw_of_id(uint8_t code)

# Like scan_message; most messages are like the one before and are compared instead of read.
cdef ScanResult scan_alike(ScanLikeness *likeness, const uint8_t *data, size_t size,
                           ScannedMessage *found) noexcept nogil
