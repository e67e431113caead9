"""A sender that goes on after its connection was lost: what is in doubt then, and its copies.

    message   1 2 3 4 5 6 7      connection lost: 3, 5, 6 and 7 had no outcome
    resend    3 5 6 7 8 9 …      over the next connection: copies first, then the schedule goes on

While copies wait, they count as not sent: so the count, the schedule and the unsettled messages
have room for them.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, malloc

from quiver_fast.amqp.data_plane cimport (
    AMQP_CODE_ACCEPTED, amqp_state_t, amqp_unsettled_settle,
)
from quiver_fast.arrow.amqp.sender cimport Sender
from quiver_fast.arrow.amqp.transport cimport no_memory
from quiver_fast.arrow.run.delays cimport SOCKET
from quiver_fast.errors import PeerError
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.records.digits cimport put_decimal
from quiver_fast.records.formats import SETTLEMENT_SAMPLE_INTERVAL

cdef int64_t SETTLEMENT_SAMPLE = SETTLEMENT_SAMPLE_INTERVAL
# Send times that are kept at first.
cdef int64_t FIRST_TIMES = 4096


cdef class LastingSender(Sender):
    """Send over one connection after the other.

    Args:
        resends: send messages again that had no outcome when a connection was lost.
        options: see Sender. Records have ids, and nothing is presettled.
    """

    cdef bint resends
    # Messages in doubt that are not sent again.
    cdef int64_t doubtful
    # The SendTimes of the last messages, by their numbers: a ring of a power of two.
    cdef int64_t *times
    cdef int64_t capacity
    # (Number, SendTime) of copies to send, the last one first; of those on their way, by
    # delivery-id; of messages that were accepted in the open transaction; and of those in the one
    # before it, whose discharge may have no answer yet.
    cdef list waiting
    cdef dict flying
    cdef list batch
    cdef list discharged
    # How many wait, and are on their way: what the loop looks at.
    cdef int64_t left
    cdef int64_t aloft
    # The numbers of copies that were sent over this connection; and how many were sent in all.
    cdef list resent
    cdef int64_t copies

    def __init__(self, connection, writer, limits, *, resends: bool, **options: object) -> None:
        super().__init__(connection, writer, limits, **options)
        self.resends = resends
        self.waiting, self.flying, self.resent = [], {}, []
        self.batch, self.discharged = [], []

    def __dealloc__(self) -> None:
        free(self.times)

    def account(self) -> "Account":
        told = super().account()
        return told._replace(
            sent=self.sent + self.left, unsettled=told.unsettled + self.left + self.doubtful,
            resent=self.copies)

    def conclude(self) -> None:
        if self.course.started == 0 and not (
                self.course.interrupted or self.course.control.stopped):
            raise PeerError(f"{self.connection.peer}: the peer gave no credit")
        super().conclude()

    # ---- a lost connection -----------------------------------------------------------

    cdef bint is_over_without(self, int64_t now) noexcept nogil:
        if not self.course.stopping and self.course.is_over(now, self.sent):
            self.course.start_draining(now)
        return self.course.stopping

    def lose(self) -> list[int]:
        """Give up what has no outcome: send it again, or leave it in doubt."""
        cdef int64_t now = monotonic_ns()
        cdef bint broken = self.streaming and self.outgoing.is_open and (
            not self.outgoing.is_aborting)
        if self.discharged:
            self.take_commit()
        flying = self.take_unsettled()
        uncommitted = self.discharged + self.batch
        lost = sorted(flying + uncommitted)
        self.accepted -= len(uncommitted)
        if broken:
            self.aborted += 1
            self.course.limits.warnings.append(
                f"{self.connection.peer}: the connection was lost within message {self.sent}, "
                "which is aborted")
        if self.resends:
            self.settled -= len(uncommitted)
            self.sent -= len(lost)
            self.waiting = sorted(lost + self.waiting, reverse=True)
            self.left = len(self.waiting)
            if self.course.stopping and not self.course.is_over(now, self.sent):
                # The count was sent, and is not any more.
                self.course.stopping = False
        else:
            self.settled += len(flying)
            self.doubtful += len(lost) - broken
        self.batch, self.discharged, self.flying = [], [], {}
        self.batch_sent = self.aloft = 0
        self.outgoing.forget()
        if self.course.schedule is not None:
            # Messages that come due wait for a socket; nobody has asked to be woken.
            self.course.schedule.note(SOCKET, now)
            self.course.schedule.wakes = 0
        super().lose()
        return [self.template.before + number for number, _ in lost]

    cdef list take_unsettled(self):
        """Return the number and the SendTime of each delivery without an outcome."""
        cdef uint32_t id = self.outgoing.unsettled.oldest
        cdef uint32_t next = self.outgoing.unsettled.next
        cdef list found = []
        while id != next:
            if amqp_unsettled_settle(&self.outgoing.unsettled, id):
                found.append(self.message_of(id))
            id += 1
        return found

    cdef object message_of(self, uint32_t id):
        """Return the number and the SendTime of a delivery, which is 0 if it is not kept."""
        copy = self.flying.get(id)
        if copy is not None:
            return copy
        # See `Sender.settle_each`.
        number = self.sent - <uint32_t>(self.outgoing.unsettled.next - 1 - id)
        return number, self.times[number & (self.capacity - 1)] if self.capacity else 0

    def take_resent(self) -> list[int]:
        sent, self.resent = self.resent, []
        return sorted(self.template.before + number for number in sent)

    # ---- copies ----------------------------------------------------------------------

    cdef int record(self, int64_t time) except -1 nogil:
        if self.resends:
            self.keep_time(time)
        return Sender.record(self, time)

    cdef int keep_time(self, int64_t time) except -1 nogil:
        """Keep the SendTime of the present message, and of all without an outcome before it."""
        cdef int64_t span = <uint32_t>(
            self.outgoing.unsettled.next - self.outgoing.unsettled.oldest) + self.batch_sent
        while span > self.capacity:
            self.keep_more()
        self.times[self.sent & (self.capacity - 1)] = time
        return 0

    cdef int keep_more(self) except -1 nogil:
        cdef int64_t capacity = 2 * self.capacity if self.capacity else FIRST_TIMES
        cdef int64_t *larger = <int64_t *>malloc(capacity * sizeof(int64_t))
        cdef int64_t number
        if larger == NULL:
            no_memory()
        for number in range(self.sent - self.capacity, self.sent):
            larger[number & (capacity - 1)] = self.times[number & (self.capacity - 1)]
        free(self.times)
        self.times = larger
        self.capacity = capacity
        return 0

    cdef int burst(self, int64_t now) except -1 nogil:
        cdef int64_t most
        if self.left == 0:
            return Sender.burst(self, now)
        most = min(self.left, self.allowance(now))
        with gil:
            while most > 0 and self.room() > 0:
                self.send_copy(now)
                most -= 1
            if self.left == 0:
                # The last message that was ever sent: the next one follows it.
                self.template.go_behind(self.sent)
        return 0

    cdef int send_copy(self, int64_t now) except -1:
        """Send the oldest message that waits again, with its id and SendTime, and no record."""
        number, time = copy = self.waiting.pop()
        self.template.go_behind(number - 1)
        self.template.next_message(time)
        self.sent += 1
        self.batch_sent += 1
        self.left -= 1
        self.copies += 1
        self.outgoing.begin_message(number)
        self.aloft += 1
        self.flying[self.outgoing.delivery_id] = copy
        self.resent.append(number)
        return self.feed_body(now)

    # ---- outcomes --------------------------------------------------------------------

    cdef int64_t settle_each(self, uint32_t first, uint32_t last) except -1 nogil:
        if self.batch_size == 0 and self.aloft == 0:
            return Sender.settle_each(self, first, last)
        with gil:
            return self.settle_some(first, last)

    cdef int64_t settle_some(self, uint32_t first, uint32_t last) except -1:
        """Settle a range in which copies may be; a transaction's commit records it."""
        cdef int64_t count = 0
        cdef uint32_t id = first
        found = []
        while True:
            if amqp_unsettled_settle(&self.outgoing.unsettled, id):
                count += 1
                found.append(self.message_of(id))
                self.aloft -= self.flying.pop(id, None) is not None
            if id == last:
                break
            id += 1
        if self.batch_size:
            self.batch += found
        else:
            self.record_settled(found)
        return count

    cdef int record_settled(self, messages) except -1:
        cdef int64_t time = self.course.wall_time()
        cdef int64_t number
        cdef char[24] digits
        cdef char *end
        for number, _ in messages:
            end = put_decimal(digits, self.template.before + number)
            self.writer.settled(digits, end - digits, time, number % SETTLEMENT_SAMPLE == 1)
        return 0

    cdef int count_outcomes(self, const amqp_state_t *state, int64_t count) except -1 nogil:
        cdef int64_t before = self.accepted
        Sender.count_outcomes(self, state, count)
        if self.batch_size and self.accepted == before:
            with gil:
                # What is refused is so whatever becomes of the transaction.
                self.record_settled(self.batch[-count:])
                del self.batch[-count:]
        return 0

    cdef int transact(self, int64_t now) except -1 nogil:
        cdef int64_t before = self.coordinator.discharged
        cdef bint is_open = self.batch_sent != 0
        try:
            Sender.transact(self, now)
        finally:
            # Also where the next transaction is not declared.
            if self.coordinator.discharged != before:
                with gil:
                    self.record_discharged()
            if is_open and self.batch_sent == 0:
                # Messages of the next transaction may have outcomes before the answer to this one.
                with gil:
                    self.discharged, self.batch = self.batch, []
        return 0

    cdef int take_commit(self) except -1:
        """Take the answer to a discharge that came just before the connection was lost."""
        if self.coordinator is not None and self.coordinator.discharging.asked and (
                self.coordinator.discharging.answer == AMQP_CODE_ACCEPTED):
            self.coordinator.take_discharged()
            self.record_discharged()
        return 0

    cdef int record_discharged(self) except -1:
        self.record_settled(self.discharged)
        self.discharged = []
        return 0
