"""A message encoded once, whose id and SendTime are patched in place.

    [header] [properties: message-id] application-properties: SendTime …  body: x x x ...
    ^ head                                                                ^ body

A streaming message announces its size in the application property BodySize; a body of more than
4 GiB is several Data sections. Where bodies differ in size, the sizes are patched as well. Where
application properties differ, each class of messages has a head of its own.

The sections and their order are those of AMQP 1.0 part 3, section 3.2.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from quiver_fast.arrow.amqp.message_fields import MessageFields, encode_map
from quiver_fast.arrow.run.sizes cimport Sizes

cdef size_t BLOCK = 65536
cdef int MAX_PREFIX = 200
# The bytes of BodySize in the application properties, and of SendTime.
cdef int OUR_PROPERTY = 19
# The most bytes of the head, without the user's fields.
cdef size_t HEAD_LIMIT = 512

# AMQP 1.0 part 1.6: vbin32 carries its length in 32 bits.
MAX_BODY_SIZE = 0xFFFFFFFF
# The largest size that BodySize, an AMQP long, can announce.
MAX_STREAM_SIZE: int = 2 ** 62
# The size of the sections of such a body: clients have sizes of 31 bits.
cdef uint64_t SECTION_SIZE = 1 << 30


cdef inline void put_big_endian(char *field, uint64_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        field[i] = <char>((value >> (8 * (width - 1 - i))) & 0xFF)


cdef class MessageTemplate:
    """The message of a sender, encoded once.

    Args:
        body_size: number of bytes in the body, one Data section; a streaming
            message beyond 4 GiB has several.
        with_id: set a string message-id: ``id_prefix`` and a decimal that counts up.
        id_prefix: ASCII text that makes ids unique among runs.
        first_id: the number in the first message's id.
        streaming: announce the body's size in the application properties.
        fields: the fields that all messages share.
        content: the body; None for ``x`` bytes.
        sizes: draws the size of each body, where they differ; ``body_size`` is the largest.

    Raises:
        ValueError: the body or the prefix is too long.
        MemoryError: no memory for the message.
    """

    def __cinit__(self) -> None:
        self.memory = NULL

    def __init__(
            self, body_size: int, *, with_id: bool = False, id_prefix: str = "",
            first_id: int = 1, streaming: bool = False,
            fields: MessageFields = MessageFields(), content: bytes | None = None,
            sizes: Sizes | None = None) -> None:
        most = MAX_STREAM_SIZE if streaming else MAX_BODY_SIZE
        if not 0 <= body_size <= most:
            raise ValueError(f"body-size must be 0 to {most}, not {body_size}")
        if len(id_prefix) > MAX_PREFIX:
            raise ValueError(f"an id prefix has at most {MAX_PREFIX} characters")
        self.body_size = self.largest_size = body_size
        self.content = content
        self.sizes = sizes
        self.fields = fields
        self.entries = fields.entries()
        self.with_id = with_id
        self.streaming = streaming
        self.section_size = self.body_size if body_size <= MAX_BODY_SIZE else SECTION_SIZE
        self.prefix = id_prefix.encode("ascii")
        self.block_size = min(<size_t>self.body_size, BLOCK)
        self.before = first_id - 1
        digits = str(self.before).encode()
        self.digit_count = len(digits)
        free(self.memory)
        limit = HEAD_LIMIT + len(self.entries) + len(fields.annotations())
        limit += len(fields.message_properties(b"")[0])
        self.memory = <char *>malloc(limit + self.block_size)
        if self.memory == NULL:
            raise MemoryError(f"no memory for a message body of {body_size} bytes")
        self.body = self.memory + <size_t>limit
        if content is None:
            memset(self.body, c"x", self.block_size)
        else:
            self.content_text = content
            memcpy(self.body, self.content_text, self.block_size)
        self.lay_out()
        if self.with_id:
            # The next message counts up.
            memcpy(self.digits, <const char *>digits, <size_t>self.digit_count)

    def __dealloc__(self) -> None:
        free(self.memory)

    cdef int lay_out(self) except -1:
        """Encode the head for the present number of digits."""
        cdef size_t digits_at
        cdef size_t time_at
        head = self.fields.header() + self.fields.annotations()
        text = self.prefix + b"0" * self.digit_count if self.with_id else b""
        properties, id_at = self.fields.message_properties(text)
        digits_at = len(head) + id_at + len(self.prefix)
        head += properties
        ours = b"\xa1\x08SendTime\x81" + bytes(8)
        if self.streaming:
            # In front of SendTime: a scanner stops there.
            ours = b"\xa1\x08BodySize\x81" + self.body_size.to_bytes(8, "big") + ours
        count = 2 * (1 + self.streaming + len(self.fields.properties))
        head += b"\x00\x53\x74" + encode_map(count, ours + self.entries)
        time_at = len(head) - len(self.entries) - 8
        if self.body_size < 256 and self.sizes is None:
            head += b"\x00\x53\x75\xa0" + bytes([self.body_size])
        else:
            self.next_section(self.section_size)
            head += self.section[:8]
        self.head_size = len(head)
        self.largest_head = max(self.largest_head, self.head_size)
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

    cdef int go_behind(self, int64_t number) except -1:
        """Have the message after message ``number`` (from 1; 0 for the first) come next."""
        digits = str(self.before + number).encode()
        if len(digits) != self.digit_count:
            self.digit_count = len(digits)
            self.lay_out()
        memcpy(self.digits, <const char *>digits, <size_t>self.digit_count)
        return 0

    cdef void next_section(self, uint64_t size) noexcept nogil:
        """Encode the head of a Data section of ``size`` bytes in ``section``."""
        memcpy(self.section, b"\x00\x53\x75\xb0", 4)
        put_big_endian(self.section + 4, size, 4)

    cdef void next_size(self) noexcept nogil:
        """Give the present message a body of the next size."""
        self.body_size = self.sizes.next()
        put_big_endian(self.head + self.head_size - 4, self.body_size, 4)
        if self.streaming:
            put_big_endian(self.time_field - OUR_PROPERTY, self.body_size, 8)

    def encode(self, send_time: int) -> bytes:
        """Advance to the next message and return all of its bytes."""
        self.next_message(send_time)
        if self.body_size > MAX_BODY_SIZE:
            raise ValueError("a body of several sections is not for memory")
        return self.head[:self.head_size] + (self.content or b"x" * self.body_size)

    @property
    def size(self) -> int:
        """Size in bytes of the present message; of the largest, where messages differ."""
        return self.largest_head + self.largest_size


cdef class MixedTemplate(MessageTemplate):
    """A message whose body has a new size each time."""

    cdef int next_message(self, int64_t send_time) except -1 nogil:
        cdef int is_new = MessageTemplate.next_message(self, send_time)
        self.next_size()
        return is_new


cdef class ClassTemplate(MessageTemplate):
    """A message whose application properties, and perhaps body's size, differ each time.

    Args:
        body_size: the size of the largest body.
        mix: the properties of the messages: see `quiver_fast.property_mix`.
        stream_values: `MessageFields.stream_value` of each class; None for none.
        fields: the other fields, without properties.
        words: see `MessageTemplate`.
    """

    def __init__(
            self, body_size: int, *, mix: "PropertyMix", stream_values: list[str] | None = None,
            fields: MessageFields = MessageFields(), **words: object) -> None:
        self.mix = mix
        self.classes = mix.classes()
        self.stream_values = stream_values or [""] * len(self.classes)
        self.fields = fields
        self.number_count, self.id_count = len(mix.numbered), len(mix.ids)
        self.number = self.present = 0
        self.step_count = len(mix.mixed)
        for place, (factor, bounds) in enumerate(mix.steps()):
            self.steps[place].factor = factor
            self.steps[place].bound_count = len(bounds)
            for number, bound in enumerate(bounds):
                self.steps[place].bounds[number] = bound
        # There must be room for the largest head.
        the_id = words.get("id_prefix", "") + "0" * 20
        largest = max(
            (self.fields_of(place, the_id) for place in range(len(self.classes))),
            key=lambda one: len(one.entries()) + len(one.annotations()))
        super().__init__(body_size, fields=largest, **words)

    cdef object fields_of(self, int place, str the_id):
        """Return the fields of a message of a class; its number is 0."""
        properties = {**self.classes[place], **dict.fromkeys(self.mix.numbered, 0),
                      **dict.fromkeys(self.mix.ids, the_id)}
        return self.fields._replace(
            properties=properties, stream_value=self.stream_values[place])

    cdef int lay_out(self) except -1:
        cdef ClassHead *head
        cdef bytes encoded
        the_id = self.prefix.decode() + "0" * self.digit_count
        self.encoded = []
        for place in range(len(self.classes)):
            self.fields = self.fields_of(place, the_id)
            self.entries = self.fields.entries()
            MessageTemplate.lay_out(self)
            encoded = self.head[:self.head_size]
            self.encoded.append(encoded)
            head = &self.heads[place]
            head.start, head.size = encoded, self.head_size
            head.time_at = self.time_field - self.head
            head.digits_at = self.digits - self.head
        self.find_copies(self.head_size - head.time_at - 8 - len(self.entries))
        self.turn_to(self.present)
        return 0

    cdef int find_copies(self, size_t behind) except -1:
        """Find the copies of number and id, with ``behind`` bytes between them and the body."""
        the_id = self.prefix.decode() + "0" * self.digit_count
        for place, name in reversed(list(enumerate(self.mix.ids))):
            self.digits_before[place] = behind + self.digit_count
            behind += len(MessageFields(properties={name: the_id}).entries())
        for place, name in reversed(list(enumerate(self.mix.numbered))):
            self.numbers_before[place] = behind + 8
            behind += len(MessageFields(properties={name: 0}).entries())
        return 0

    cdef int next_message(self, int64_t send_time) except -1 nogil:
        cdef int is_new = MessageTemplate.next_message(self, send_time)
        cdef int place
        cdef int i
        self.number += 1
        place = self.class_of(self.number)
        if place != self.present:
            self.turn_to(place)
            put_big_endian(self.time_field, <uint64_t>send_time, 8)
            is_new = 1
        if self.sizes is not None:
            self.next_size()
        for i in range(self.number_count):
            put_big_endian(self.body - self.numbers_before[i], <uint64_t>self.number, 8)
        for i in range(self.id_count):
            memcpy(self.body - self.digits_before[i], self.digits, <size_t>self.digit_count)
        return is_new

    cdef int go_behind(self, int64_t number) except -1:
        self.number = number
        return MessageTemplate.go_behind(self, number)

    cdef int class_of(self, int64_t number) noexcept nogil:
        """Return the class of the message with a number, as `PropertyMix.class_of` does."""
        cdef ClassStep *step
        cdef uint64_t product
        cdef int found = 0
        cdef int value
        cdef int i
        for i in range(self.step_count):
            step = &self.steps[i]
            product = <uint64_t>number * step.factor
            value = 0
            while value < step.bound_count and step.bounds[value] <= product:
                value += 1
            found = found * (step.bound_count + 1) + value
        return found

    cdef void turn_to(self, int place) noexcept nogil:
        """Put the head of a class, with the present id, in front of the body."""
        cdef ClassHead *head = &self.heads[place]
        cdef char[24] digits
        if self.with_id:
            memcpy(digits, self.digits, <size_t>self.digit_count)
        self.present = place
        self.head_size = head.size
        self.head = self.body - head.size
        memcpy(self.head, head.start, head.size)
        self.time_field = self.head + head.time_at
        self.digits = self.head + head.digits_at
        if self.with_id:
            memcpy(self.digits, digits, <size_t>self.digit_count)
