"""The links that manage queues: the attach of one makes a queue; a pair carries requests.

Requests carry the method, path and status of HTTP in AMQP messages. They go out by one link
of the pair, and responses come back by the other. The two links have the same name, and the
property `paired` makes them a pair. RabbitMQ offers the capability LINK_PAIR_V1_0 for this.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from quiver_fast.amqp.data_plane cimport (
    AMQP_ARRIVAL, AMQP_CODE_ACCEPTED, AMQP_NOTHING, amqp_arrival_t, amqp_bytes_t, amqp_event,
    amqp_link_end_t,
)
from quiver_fast.arrow.amqp.connection cimport Connection, put_symbol
from quiver_fast.errors import LinkError, MessageError
from quiver_fast.loop.interrupt import raise_if_pending
from quiver_fast.proton.conditions cimport condition_text
from quiver_fast.proton.libproton cimport (
    PN_OVERFLOW, PN_REMOTE_CLOSED, PN_REMOTE_UNINIT, PN_SND_SETTLED, PN_STRING, PN_UNSPECIFIED,
    pn_bytes, pn_bytes_t, pn_condition_t, pn_data_enter, pn_data_exit, pn_data_get_bytes,
    pn_data_next, pn_data_put_bool, pn_data_put_map, pn_data_put_null, pn_data_put_symbol,
    pn_data_put_ulong, pn_data_rewind, pn_data_t, pn_data_type, pn_link_open, pn_link_properties,
    pn_link_remote_condition, pn_link_remote_source, pn_link_set_snd_settle_mode, pn_link_source,
    pn_link_state, pn_link_t, pn_link_target, pn_message, pn_message_body, pn_message_decode,
    pn_message_encode, pn_message_free, pn_message_get_subject, pn_message_id,
    pn_message_set_address, pn_message_set_reply_to, pn_message_set_subject, pn_message_t,
    pn_receiver, pn_sender, pn_session, pn_session_open, pn_session_remote_condition,
    pn_session_state, pn_session_t, pn_state_t, pn_terminus_capabilities, pn_terminus_get_type,
    pn_terminus_set_address,
)
from quiver_fast.proton.libsys cimport monotonic_ns

cdef int64_t SECOND = 1000000000
cdef bytes NODE = b"/management"
cdef bytes NAME = b"management-link-pair"
# The only address that a response can go to: the other link of the pair.
cdef bytes REPLY_TO = b"$me"


class Response:
    """What a management node answered.

    Attributes:
        status: as of HTTP; 200 and 201 are success.
        text: the body if that is text, as the reason of a failure is; else empty.
    """

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        self.text = text


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
    """A pair of links to the management node of a peer.

    Args:
        connection: an open connection.
        timeout: seconds that the attach, and each request, may take.
    """

    cdef Connection connection
    cdef int64_t timeout
    cdef pn_session_t *session
    cdef pn_link_t *requests
    cdef pn_link_t *responses
    cdef amqp_link_end_t *request_end
    cdef amqp_link_end_t *response_end
    cdef uint64_t number
    # The bytes of the response so far, and whether it is whole.
    cdef bytearray response
    cdef bint is_whole

    def __init__(self, connection: Connection, timeout: float) -> None:
        self.connection = connection
        self.timeout = <int64_t>(timeout * SECOND)
        self.response = bytearray()

    def attach(self) -> None:
        """Attach both links.

        Raises:
            LinkError: the peer refused.
            PeerError: it did not answer in time, or closed.
        """
        cdef int64_t deadline = monotonic_ns() + self.timeout
        self.session = pn_session(self.connection.connection)
        pn_session_open(self.session)
        self.requests = pn_sender(self.session, NAME)
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

    cdef int open_link(self, pn_link_t *link) except -1:
        cdef pn_data_t *properties = pn_link_properties(link)
        pn_terminus_set_address(pn_link_source(link), NODE)
        pn_terminus_set_address(pn_link_target(link), NODE)
        pn_data_put_map(properties)
        pn_data_enter(properties)
        pn_data_put_symbol(properties, pn_bytes(6, b"paired"))
        pn_data_put_bool(properties, True)
        pn_data_exit(properties)
        pn_link_open(link)
        return 0

    def call(self, method: str, path: str, *, with_map: bool = False) -> Response:
        """Send one request and return its response.

        Args:
            method: as of HTTP, such as ``PUT``.
            path: of the object that the request is about.
            with_map: the body is an empty map, which leaves every setting to the peer;
                without it the body is null.

        Raises:
            LinkError: the peer ended link or session.
            MessageError: the answer is not a response.
            PeerError: the peer did not answer in time, or closed.
        """
        cdef int64_t deadline = monotonic_ns() + self.timeout
        while not self.may_ask():
            self.advance(deadline)
        self.response.clear()
        self.is_whole = False
        self.send(method.encode(), path.encode(), with_map)
        while not self.is_whole:
            self.advance(deadline)
        self.connection.give_credit(self.response_end, 1, False)
        return self.take_response()

    cdef bint may_ask(self) noexcept:
        return (self.request_end.counts.credit > 0
                and self.request_end.session.counts.remote_incoming_window > 0)

    cdef int send(self, bytes method, bytes path, bint with_map) except -1:
        cdef pn_message_t *message = pn_message()
        self.number += 1
        tag = b"%d" % self.number
        pn_data_put_ulong(pn_message_id(message), self.number)
        pn_message_set_subject(message, method)
        pn_message_set_address(message, path)
        pn_message_set_reply_to(message, REPLY_TO)
        if with_map:
            pn_data_put_map(pn_message_body(message))
        else:
            pn_data_put_null(pn_message_body(message))
        try:
            self.send_encoded(tag, encode(message))
        finally:
            pn_message_free(message)
        return 0

    cdef int send_encoded(self, bytes tag, bytearray encoded) except -1:
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

    cdef object take_response(self):
        cdef pn_message_t *message = pn_message()
        cdef bytes encoded = bytes(self.response)
        try:
            if pn_message_decode(message, encoded, len(encoded)) != 0:
                raise MessageError(f"{self.connection.peer}: the response is no AMQP message")
            return self.response_of(message)
        finally:
            pn_message_free(message)

    cdef object response_of(self, pn_message_t *message):
        cdef const char *subject = pn_message_get_subject(message)
        cdef pn_data_t *body = pn_message_body(message)
        status = subject if subject != NULL else b""
        if not status.isdigit():
            raise MessageError(f"{self.connection.peer}: the response has no status")
        pn_data_rewind(body)
        is_text = pn_data_next(body) and pn_data_type(body) == PN_STRING
        return Response(int(status), text_of(body) if is_text else "")

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


cdef bytearray encode(pn_message_t *message):
    """Return an encoded message, whatever its size."""
    cdef bytearray room = bytearray(1024)
    cdef size_t size = len(room)
    while pn_message_encode(message, room, &size) == PN_OVERFLOW:
        room = bytearray(2 * len(room))
        size = len(room)
    del room[size:]
    return room


cdef int refuse_end(
        Connection connection, pn_state_t state, pn_condition_t *condition) except -1:
    """Raise LinkError if the state is of a session or link that the peer has ended."""
    if state & PN_REMOTE_CLOSED:
        why = condition_text(condition) or "it gave no reason"
        raise LinkError(f"{connection.peer}: the peer refused: {why}")
    return 0


cdef str text_of(pn_data_t *data):
    cdef pn_bytes_t value = pn_data_get_bytes(data)
    return value.start[:value.size].decode("utf-8", "replace")
