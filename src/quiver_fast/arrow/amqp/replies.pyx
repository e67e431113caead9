"""Requests that wait for their replies, and the fields by which a reply finds its request.

    request   message-id 17, reply-to ──>   responder
    reply     <── correlation-id 17, SendTime, ReceiveTime (when the request was taken)

    number    1 … oldest … newest     a ring has the due times from `oldest` on
              └──────┴─ in time ─┘    before it, all are answered or timed out
"""

from libc.stdint cimport INT64_MIN, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memset

from quiver_fast.amqp.data_plane cimport (
    AMQP_FINE, AMQP_SECTION_APPLICATION_PROPERTIES, AMQP_SECTION_DATA, AMQP_SECTION_NONE,
    AMQP_SECTION_PROPERTIES, LONG, NULL_, STRING32, STRING8, amqp_bytes_t, amqp_fields_t,
    amqp_read_content, amqp_read_list, amqp_read_map, amqp_read_section, amqp_read_value,
    amqp_reader, amqp_reader_t, amqp_section, amqp_value_t,
)
from quiver_fast.arrow.amqp.scanner cimport time_field
from quiver_fast.arrow.amqp.transport cimport no_memory
from quiver_fast.records.log_histogram cimport LogHistogram

cdef int64_t ANSWERED = INT64_MIN
cdef int64_t FIRST_ROOM = 1024
VERDICTS = ("in_time", "late", "duplicate", "foreign")


cdef bint read_letter(const uint8_t *data, size_t size, Letter *letter) noexcept nogil:
    cdef amqp_reader_t reader = amqp_reader(data, size)
    cdef amqp_value_t value
    cdef amqp_section section
    cdef bint found = False
    memset(letter, 0, sizeof(Letter))
    letter.send_time = letter.receive_time = -1
    while True:
        section = amqp_read_section(&reader)
        if section == AMQP_SECTION_NONE or section >= AMQP_SECTION_DATA:
            return found
        if section == AMQP_SECTION_PROPERTIES:
            read_properties(&reader, letter)
            found = True
        elif section == AMQP_SECTION_APPLICATION_PROPERTIES:
            read_times(&reader, letter)
            return found
        else:
            amqp_read_content(&reader, &value)
        if reader.fault != AMQP_FINE:
            return found


cdef int read_properties(amqp_reader_t *reader, Letter *letter) noexcept nogil:
    """Take message-id, reply-to and correlation-id: fields 0, 4 and 5 (part 3.2.4)."""
    cdef amqp_fields_t fields = amqp_read_list(reader)
    cdef amqp_value_t value
    cdef unsigned i
    for i in range(min(<unsigned>fields.left, 6)):
        if i == 0:
            letter.id = amqp_read_value(&fields.inside)
        elif not amqp_read_content(&fields.inside, &value):
            return 0
        elif i == 4 and (
                value.constructor == STRING8 or value.constructor == STRING32):
            # A reply to an address of another type could not be encoded.
            letter.reply_to = value.content
        elif i == 5 and value.constructor != NULL_:
            letter.correlation = value
    return 0


cdef int read_times(amqp_reader_t *reader, Letter *letter) noexcept nogil:
    cdef amqp_fields_t fields = amqp_read_map(reader)
    cdef amqp_value_t key
    cdef amqp_value_t value
    while fields.left >= 2:
        fields.left -= 2
        if not amqp_read_content(&fields.inside, &key) or not amqp_read_content(
                &fields.inside, &value):
            return 0
        if value.constructor != LONG:
            continue
        if key.content.size == 8 and memcmp(key.content.start, b"SendTime", 8) == 0:
            letter.send_time = time_field(value.content.start)
        elif key.content.size == 11 and memcmp(key.content.start, b"ReceiveTime", 11) == 0:
            letter.receive_time = time_field(value.content.start)
    return 0


cdef class Replies:
    """The replies that came to a process.

    Args:
        timeout: after how many ticks a request without a reply is timed out.
    """

    def __init__(self, timeout: int) -> None:
        self.timeout = timeout
        self.back = LogHistogram()
        self.work = LogHistogram()

    cdef int count(self, Verdict verdict, const Letter *letter, int64_t now) noexcept nogil:
        """Count a reply that came ``now``; of one in time also how long its parts took."""
        self.verdicts[<int>verdict] += 1
        if verdict == IN_TIME and letter.send_time >= 0:
            self.back.add_one(now - letter.send_time)
            if letter.receive_time >= 0:
                self.work.add_one(letter.send_time - letter.receive_time)
        return 0

    def document(self) -> dict[str, Any]:
        """Return the counts, and the times of ``back`` and ``work`` as (ticks, count) pairs."""
        counts = {name: self.verdicts[number] for number, name in enumerate(VERDICTS)}
        times = {"back": self.back.cells(), "work": self.work.cells()}
        return counts | {"timed_out": self.timed_out} | times


cdef class Requests:
    """The requests of one end, by their numbers from 1.

    Args:
        replies: where their replies are counted.
    """

    def __cinit__(self) -> None:
        self.due = NULL
        self.answered = NULL

    def __init__(self, replies: Replies) -> None:
        self.replies = replies
        self.oldest = 1

    def __dealloc__(self) -> None:
        free(self.due)
        free(self.answered)

    cdef int add(self, int64_t due) except -1 nogil:
        """Add the next request."""
        self.newest += 1
        if self.newest - self.oldest >= self.room or self.newest >= self.bits:
            self.make_room()
        self.due[self.newest % self.room] = due
        self.waiting += 1
        return 0

    cdef int make_room(self) except -1 nogil:
        cdef int64_t room = max(2 * self.room, FIRST_ROOM)
        cdef int64_t bits = max(2 * self.bits, 8 * FIRST_ROOM)
        cdef int64_t number
        cdef int64_t *due
        cdef uint8_t *answered
        if self.newest >= self.bits:
            answered = <uint8_t *>realloc(self.answered, bits // 8)
            if answered == NULL:
                no_memory()
            memset(answered + self.bits // 8, 0, (bits - self.bits) // 8)
            self.answered = answered
            self.bits = bits
        if self.newest - self.oldest >= self.room:
            due = <int64_t *>malloc(room * sizeof(int64_t))
            if due == NULL:
                no_memory()
            for number in range(self.oldest, self.newest):
                due[number % room] = self.due[number % self.room]
            free(self.due)
            self.due = due
            self.room = room
        return 0

    cdef int expire(self, int64_t now) noexcept nogil:
        """Time out the requests whose time is over at ``now``."""
        cdef int64_t due
        while self.oldest <= self.newest:
            due = self.due[self.oldest % self.room]
            if due != ANSWERED and now - due <= self.replies.timeout:
                return 0
            if due != ANSWERED:
                self.replies.timed_out += 1
                self.waiting -= 1
            self.oldest += 1
        return 0

    cdef Verdict answer(self, int64_t number, int64_t now) noexcept nogil:
        """Note a reply that came ``now``, and return what it is."""
        cdef uint8_t bit = <uint8_t>(1 << (number & 7))
        cdef int64_t *due
        if not 1 <= number <= self.newest:
            return FOREIGN
        if self.answered[number >> 3] & bit:
            return DUPLICATE
        self.answered[number >> 3] |= bit
        if number < self.oldest:
            return LATE
        due = &self.due[number % self.room]
        if now - due[0] > self.replies.timeout:
            return LATE
        due[0] = ANSWERED
        self.waiting -= 1
        return IN_TIME

    # ---- for tests -------------------------------------------------------------------

    def send(self, due: int) -> None:
        """Add the next request."""
        self.add(due)

    def take(self, number: int, now: int) -> str:
        """Note a reply, and return the name of what it is."""
        cdef Letter letter
        letter.send_time = -1
        cdef Verdict verdict = self.answer(number, now)
        self.replies.count(verdict, &letter, now)
        return VERDICTS[<int>verdict]

    def pass_time(self, now: int) -> None:
        """Time out the requests whose time is over."""
        self.expire(now)


def letter_of(data: bytes) -> tuple[bytes, bytes, bytes, int, int] | None:
    """Return the fields of a Letter, a missing one as empty bytes or -1; None without properties.
    """
    cdef Letter letter
    cdef const uint8_t *start = data
    if not read_letter(start, len(data), &letter):
        return None
    texts = text_of(letter.id), text_of(letter.reply_to), text_of(letter.correlation.content)
    return *texts, letter.send_time, letter.receive_time


cdef bytes text_of(amqp_bytes_t field):
    return (<const char *>field.start)[:field.size] if field.start != NULL else b""
