"""A receiver that empties a queue: it takes every message and records none."""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

from quiver_fast.engine.link cimport Endpoint
from quiver_fast.engine.receiver import breaks_on_drain
from quiver_fast.errors import LinkError
from quiver_fast.proton.libproton cimport (
    PN_ACCEPTED, PN_RCV_FIRST, pn_delivery_aborted, pn_delivery_partial, pn_delivery_readable,
    pn_delivery_settle, pn_delivery_settled, pn_delivery_t, pn_delivery_update, pn_link_credit,
    pn_link_current, pn_link_drain, pn_link_drained, pn_link_flow, pn_link_queued,
    pn_link_set_rcv_settle_mode, pnx_take,
)
from quiver_fast.proton.libsys cimport monotonic_ns

cdef size_t WASTE_SIZE = 65536
cdef int64_t SECOND = 1000000000
# How long a peer may take to answer a drain, or to send the next message.
cdef int64_t DRAIN_TIMEOUT = 2 * SECOND
# The same for a peer that cannot be drained: only silence shows that it has no more.
cdef int64_t SILENCE = SECOND


cdef class Purger(Endpoint):
    """Accept and settle all messages of a queue until it is empty.

    Args:
        connection, writer, limits, address, name: see Endpoint; no limit holds.
        credit_window: messages that the peer may send ahead.
    """

    def __cinit__(self) -> None:
        self.waste = NULL

    def __init__(self, connection, writer, limits, *, address: str, name: str,
                 credit_window: int) -> None:
        super().__init__(connection, writer, limits, address=address, name=name,
                         time_unit="ms", transaction_size=0)
        self.is_sender = False
        self.credit_window = credit_window
        self.drainable = not breaks_on_drain(connection.identity())
        self.patience = DRAIN_TIMEOUT if self.drainable else SILENCE
        self.waste = <uint8_t *>malloc(WASTE_SIZE)
        if self.waste == NULL:
            raise MemoryError("no memory for a receive buffer")

    def __dealloc__(self) -> None:
        free(self.waste)

    def prepare(self) -> None:
        pn_link_set_rcv_settle_mode(self.link, PN_RCV_FIRST)

    @property
    def queue_empty(self) -> bool | None:
        """Whether the queue was read to its end; None where the peer cannot say."""
        return self.was_drained if self.drainable else None

    def run(self) -> None:
        """Take messages until there are no more, or a signal comes.

        Raises:
            PeerError, LinkError: the peer failed, or left before that.
        """
        with nogil:
            self.loop()

    cdef int loop(self) except -1 nogil:
        cdef int64_t now = monotonic_ns()
        self.silence_end = now + self.patience
        while not self.was_drained and not self.interrupted and now < self.silence_end:
            if self.closed_by_peer():
                with gil:
                    raise LinkError(f"{self.connection.peer}: the peer closed the link after "
                                    f"{self.purged} messages")
            self.take_messages(now)
            self.notice_signals(now)
            self.ask_for_more()
            if not self.was_drained:
                self.connection.exchange(self.silence_end)
            now = monotonic_ns()
        return 0

    cdef int take_messages(self, int64_t now) noexcept nogil:
        """Discard the bytes that the engine has, and settle each message that is complete."""
        cdef pn_delivery_t *delivery = pn_link_current(self.link)
        while delivery != NULL and pn_delivery_readable(delivery):
            self.silence_end = now + self.patience
            while pnx_take(self.link, <char *>self.waste, WASTE_SIZE).size:
                pass
            if pn_delivery_partial(delivery) and not pn_delivery_aborted(delivery):
                return 0
            if not pn_delivery_aborted(delivery):
                self.purged += 1
                if not pn_delivery_settled(delivery):
                    pn_delivery_update(delivery, PN_ACCEPTED)
            pn_delivery_settle(delivery)
            delivery = pn_link_current(self.link)
        return 0

    cdef int ask_for_more(self) noexcept nogil:
        """Have the peer send a window of messages, and say when it has none (part 2.6.7)."""
        cdef int credit = pn_link_credit(self.link)
        if not self.drainable:
            if 2 * credit <= self.credit_window:
                pn_link_flow(self.link, <int>(self.credit_window - credit))
            return 0
        if credit or pn_link_queued(self.link):
            return 0
        # Credit that the peer gave back, unlike credit that messages used up. ActiveMQ Classic
        # gives it back after each page of its queue: only a drain without a message counts.
        self.was_drained = pn_link_drained(self.link) > 0 and self.purged == self.drained_at
        if not self.was_drained:
            self.drained_at = self.purged
            pn_link_drain(self.link, <int>self.credit_window)
        return 0
