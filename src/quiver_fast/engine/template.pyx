"""A message encoded once, whose id and SendTime are patched in place.

    [header] [properties: message-id] application-properties: SendTime  body: x x x ...
    ^ head                                                              ^ body

A streaming message announces its size in the application property BodySize, and a body
that no Data section can hold is a row of them.

The sections and their order are those of AMQP 1.0 part 3, section 3.2.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

cdef size_t BLOCK = 65536
cdef size_t HEAD_LIMIT = 512
cdef int MAX_PREFIX = 200

# AMQP 1.0 part 1.6: vbin32 carries its length in 32 bits.
MAX_BODY_SIZE = 0xFFFFFFFF
# What an AMQP long can announce, and more than anyone can send.
MAX_STREAM_SIZE = 2 ** 62
# Sections of a body that takes several: a size that clients hold in 31 bits.
cdef uint64_t SECTION_SIZE = 1 << 30


cdef inline void put_big_endian(char *field, uint64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        field[i] = <char>((value >> (8 * (width - 1 - i))) & 0xFF)


cdef class MessageTemplate:
    """The one message that a sender sends again and again.

    Args:
        body_size: number of ``x`` bytes in the body, one Data section; a streaming
            message beyond 4 GiB has several.
        durable: set the header's durable flag.
        with_id: set a string message-id: ``id_prefix`` and the decimal sequence from 1.
        id_prefix: ASCII text that makes ids unique among runs.
        streaming: announce the body's size in the application properties.

    Raises:
        ValueError: the body or the prefix is too long.
        MemoryError: no memory for the message.
    """

    def __cinit__(self) -> None:
        self.memory = NULL

    def __init__(self, body_size: int, *, durable: bool = False, with_id: bool = False,
                 id_prefix: str = "", streaming: bool = False) -> None:
        most = MAX_STREAM_SIZE if streaming else MAX_BODY_SIZE
        if not 0 <= body_size <= most:
            raise ValueError(f"body-size must be 0 to {most}, not {body_size}")
        if len(id_prefix) > MAX_PREFIX:
            raise ValueError(f"an id prefix has at most {MAX_PREFIX} characters")
        self.body_size = body_size
        self.durable = durable
        self.with_id = with_id
        self.streaming = streaming
        self.section_size = self.body_size if body_size <= MAX_BODY_SIZE else SECTION_SIZE
        self.prefix = id_prefix.encode("ascii")
        self.block_size = min(<size_t>self.body_size, BLOCK)
        self.sequence = 0
        self.digit_count = 1
        free(self.memory)
        self.memory = <char *>malloc(HEAD_LIMIT + self.block_size)
        if self.memory == NULL:
            raise MemoryError(f"no memory for a message body of {body_size} bytes")
        self.body = self.memory + HEAD_LIMIT
        memset(self.body, c"x", self.block_size)
        self.lay_out()

    def __dealloc__(self) -> None:
        free(self.memory)

    cdef int lay_out(self) except -1:
        """Encode the head for the present number of digits."""
        cdef size_t digits_at = 0
        cdef size_t time_at
        digits = b"0" * self.digit_count
        head = b"\x00\x53\x70\xc0\x02\x01\x41" if self.durable else b""
        if self.with_id:
            text = self.prefix + digits
            head += b"\x00\x53\x73\xc0" + bytes([len(text) + 3, 1]) + b"\xa1" + bytes([len(text)])
            digits_at = len(head) + len(self.prefix)
            head += text
        if self.streaming:
            # Before SendTime, where a scanner that stops there has seen it.
            size = (<uint64_t>self.body_size).to_bytes(8, "big")
            head += b"\x00\x53\x74\xc1\x27\x04\xa1\x08BodySize\x81" + size
        else:
            head += b"\x00\x53\x74\xc1\x14\x02"
        head += b"\xa1\x08SendTime\x81"
        time_at = len(head)
        head += bytes(8)
        if self.body_size < 256:
            head += b"\x00\x53\x75\xa0" + bytes([self.body_size])
        else:
            self.next_section(self.section_size)
            head += self.section[:8]
        self.head_size = len(head)
        self.head = self.body - self.head_size
        memcpy(self.head, <const char *>head, self.head_size)
        self.time_field = self.head + time_at
        self.digits = self.head + digits_at
        return 0

    cdef int next_message(self, int64_t send_time) except -1 nogil:
        """Make this the next message of the sequence, with ``send_time``.

        Returns 1 if the head was laid out anew, so that it may be elsewhere; else 0.
        """
        cdef int i
        cdef int is_new = 0
        self.sequence += 1
        if self.with_id:
            i = self.digit_count - 1
            while i >= 0 and self.digits[i] == c"9":
                self.digits[i] = c"0"
                i -= 1
            if i >= 0:
                self.digits[i] += 1
            else:
                self.digit_count += 1
                with gil:
                    self.lay_out()
                self.digits[0] = c"1"
                is_new = 1
        put_big_endian(self.time_field, <uint64_t>send_time, 8)
        return is_new

    cdef void next_section(self, uint64_t size) noexcept nogil:
        """Encode the head of a Data section of ``size`` bytes in ``section``."""
        memcpy(self.section, b"\x00\x53\x75\xb0", 4)
        put_big_endian(self.section + 4, size, 4)

    def encode(self, send_time: int) -> bytes:
        """Advance to the next message and return it whole, as it would be sent."""
        self.next_message(send_time)
        if self.body_size > MAX_BODY_SIZE:
            raise ValueError("a body of several sections is not for memory")
        return self.head[:self.head_size] + b"x" * self.body_size

    @property
    def size(self) -> int:
        """Size in bytes of the present message."""
        return self.head_size + self.body_size
