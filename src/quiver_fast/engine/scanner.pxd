from libc.stdint cimport int64_t, uint8_t

cdef enum ScanResult:
    SCAN_FOUND        # SendTime is there
    SCAN_MORE         # the bytes end before SendTime was found
    SCAN_MISSING      # the body begins and there was no SendTime
    SCAN_WRONG_TYPE   # SendTime is not an AMQP long
    SCAN_MALFORMED    # this is not an AMQP message

cdef struct ScannedMessage:
    int64_t send_time
    # The message-id's constructor and content; id_code 0 when there is none.
    uint8_t id_code
    const uint8_t *id
    size_t id_size

cdef ScanResult scan_message(
    const uint8_t *data, size_t size, ScannedMessage *found) noexcept nogil
