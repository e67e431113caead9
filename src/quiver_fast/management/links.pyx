"""The links that manage queues: the attach of one makes a queue; two carry requests.

Requests go out by one link, and responses come back by the other. Where the two have the same name
and the property `paired`, they are a pair: RabbitMQ offers the capability LINK_PAIR_V1_0 for this.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from quiver_fast.amqp.data_plane cimport (
    AMQP_ARRIVAL, AMQP_CODE_ACCEPTED, AMQP_NOTHING, amqp_arrival_t, amqp_bytes_t, amqp_event,
    amqp_link_end_t,
)
from quiver_fast.arrow.amqp.connection cimport Connection, put_symbol
from quiver_fast.errors import LinkError
from quiver_fast.loop.interrupt import raise_if_pending
from quiver_fast.proton.conditions cimport condition_text
from quiver_fast.proton.libproton cimport (
    PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, PN_SND_SETTLED, PN_UNSPECIFIED, pn_bytes,
    pn_condition_t, pn_data_enter, pn_data_exit, pn_data_put_bool, pn_data_put_map,
    pn_data_put_symbol, pn_data_t, pn_link_open, pn_link_properties, pn_link_remote_condition,
    pn_link_remote_source, pn_link_set_snd_settle_mode, pn_link_source, pn_link_state,
    pn_link_t, pn_link_target, pn_receiver, pn_sender, pn_session, pn_session_open,
    pn_session_remote_condition, pn_session_state, pn_session_t, pn_state_t,
    pn_terminus_capabilities, pn_terminus_get_address, pn_terminus_get_type,
    pn_terminus_set_address, pn_terminus_set_dynamic,
)
from quiver_fast.proton.libsys cimport monotonic_ns

cdef int64_t SECOND = 1000000000
cdef bytes NAME = b"management-link-pair"
# The only address that a response can go to in a pair: the other link.
cdef str REPLY_TO = "$me"


def attach_queue(connection: Connection, address: str, timeout: float) -> None:
    """Attach a receiving link to a queue, without credit.

    A broker that makes queues on demand makes the queue. A capability asks brokers that also
    have topics for a queue.

    Raises:
        LinkError: the peer refused.
        PeerError: it did not answer in time, or closed.
    """
    cdef int64_t deadline = monotonic_ns() + <int64_t>(timeout * SECOND)
    cdef bytes text = address.encode()
    cdef pn_session_t *session = pn_session(connection.connection)
    cdef pn_link_t *link = pn_receiver(session, b"quiver-declare")
    pn_session_open(session)
    pn_terminus_set_address(pn_link_source(link), text)
    put_symbol(pn_terminus_capabilities(pn_link_source(link)), b"queue")
    pn_link_open(link)
    while (pn_link_state(link) & PN_REMOTE_UNINIT
           or pn_terminus_get_type(pn_link_remote_source(link)) == PN_UNSPECIFIED):
        connection.advance(deadline, f"attach a link to '{address}'")
        refuse_end(connection, pn_session_state(session), pn_session_remote_condition(session))
        refuse_end(connection, pn_link_state(link), pn_link_remote_condition(link))


cdef class RequestLinks:
    """A link to a node that manages a peer, and one for its responses.

    Args:
        connection: an open connection.
        timeout: seconds that the attach, and each request, may take.
        node: the address of the node.
        paired: the two links are a pair, and responses come from the node itself. Without it they
            come from a node that the peer makes for them.
    """

    cdef Connection connection
    cdef int64_t timeout
    cdef bytes node
    cdef bint paired
    cdef pn_session_t *session
    cdef pn_link_t *requests
    cdef pn_link_t *responses
    cdef amqp_link_end_t *request_end
    cdef amqp_link_end_t *response_end
    cdef uint64_t number
    # The bytes of the response so far, and whether it is whole.
    cdef bytearray response
    cdef bint is_whole

    def __init__(
            self, connection: Connection, timeout: float, node: str, *, paired: bool) -> None:
        self.connection = connection
        self.timeout = <int64_t>(timeout * SECOND)
        self.node = node.encode()
        self.paired = paired
        self.response = bytearray()

    def attach(self) -> str:
        """Attach both links; return the address for responses.

        Raises:
            LinkError: the peer refused.
            PeerError: it did not answer in time, or closed.
        """
        cdef int64_t deadline = monotonic_ns() + self.timeout
        self.session = pn_session(self.connection.connection)
        pn_session_open(self.session)
        self.requests = pn_sender(self.session, NAME)
        # The peer tells links of both directions apart, also where they are no pair.
        self.responses = pn_receiver(self.session, NAME)
        pn_link_set_snd_settle_mode(self.requests, PN_SND_SETTLED)
        self.open_link(self.requests)
        self.open_link(self.responses)
        self.request_end = self.connection.end_of(self.requests)
        self.request_end.user = <void *>self
        self.response_end = self.connection.end_of(self.responses)
        self.response_end.user = <void *>self
        self.connection.give_credit(self.response_end, 1, False)
        while pn_link_state(self.responses) & PN_REMOTE_UNINIT or not self.may_ask():
            self.advance(deadline)
        return REPLY_TO if self.paired else self.dynamic_address()

    cdef str dynamic_address(self):
        cdef const char *address = pn_terminus_get_address(pn_link_remote_source(self.responses))
        return address.decode() if address != NULL else ""

    cdef int open_link(self, pn_link_t *link) except -1:
        cdef pn_data_t *properties = pn_link_properties(link)
        pn_terminus_set_address(pn_link_target(link), self.node)
        if self.paired:
            pn_terminus_set_address(pn_link_source(link), self.node)
            pn_data_put_map(properties)
            pn_data_enter(properties)
            pn_data_put_symbol(properties, pn_bytes(6, b"paired"))
            pn_data_put_bool(properties, True)
            pn_data_exit(properties)
        elif link == self.responses:
            pn_terminus_set_dynamic(pn_link_source(link), True)
        pn_link_open(link)
        return 0

    def call(self, request: bytes) -> bytes:
        """Send the message of a request, and return that of its response.

        Raises:
            LinkError: the peer ended link or session.
            PeerError: the peer did not answer in time, or closed.
        """
        cdef int64_t deadline = monotonic_ns() + self.timeout
        while not self.may_ask():
            self.advance(deadline)
        self.response.clear()
        self.is_whole = False
        self.number += 1
        self.send_encoded(b"%d" % self.number, request)
        while not self.is_whole:
            self.advance(deadline)
        self.connection.give_credit(self.response_end, 1, False)
        return bytes(self.response)

    cdef bint may_ask(self) noexcept:
        return (self.request_end.counts.credit > 0
                and self.request_end.session.counts.remote_incoming_window > 0)

    cdef int send_encoded(self, bytes tag, bytes encoded) except -1:
        cdef amqp_bytes_t name
        cdef amqp_bytes_t message
        name.start = tag
        name.size = len(tag)
        message.start = <const uint8_t *>encoded
        message.size = len(encoded)
        self.connection.transfer(self.request_end, name, message, True)
        return 0

    cdef int note_arrival(self, const amqp_arrival_t *arrival) except -1:
        """Append to the response; accept it when it is whole."""
        if arrival.link != self.response_end or self.is_whole:
            return 0
        self.response += (<const char *>arrival.payload.start)[:arrival.payload.size]
        self.is_whole = not arrival.more
        if self.is_whole and not arrival.settled:
            self.connection.accept(
                arrival.link.session, arrival.delivery_id, AMQP_CODE_ACCEPTED)
        return 0

    cdef int advance(self, int64_t deadline) except -1:
        """Exchange once; raise an error if the peer ended connection, session or link."""
        cdef amqp_event event
        raise_if_pending()
        with nogil:
            self.connection.exchange(deadline)
        event = self.connection.next_event()
        while event != AMQP_NOTHING:
            if event == AMQP_ARRIVAL:
                self.note_arrival(&self.connection.plane.arrival)
            event = self.connection.next_event()
        self.connection.judge(deadline, "answer a management request")
        refuse_end(self.connection, pn_session_state(self.session),
                   pn_session_remote_condition(self.session))
        refuse_end(self.connection, pn_link_state(self.requests),
                   pn_link_remote_condition(self.requests))
        refuse_end(self.connection, pn_link_state(self.responses),
                   pn_link_remote_condition(self.responses))
        return 0


cdef int refuse_end(
        Connection connection, pn_state_t state, pn_condition_t *condition) except -1:
    """Raise LinkError if the state is of a session or link that the peer has ended."""
    if state & PN_REMOTE_CLOSED:
        why = condition_text(condition) or "it gave no reason"
        raise LinkError(f"{connection.peer}: the peer refused: {why}")
    return 0
