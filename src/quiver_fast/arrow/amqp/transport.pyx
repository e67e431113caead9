"""The bytes of one connection: the socket, TLS, the data plane, and the engine beside it.

    socket ── TLS ── input ── transfer, flow, disposition ── events ── the link's user
                       └───── all other frames ───────────── engine
    socket ── TLS ── output ── frames of the link's user and of the engine, in their order

The engine opens and closes connection, sessions and links; it never sees a transfer.
"""

from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy, memset

from quiver_fast.amqp.data_plane cimport (
    AMQP_ARRIVAL, AMQP_BEFORE, AMQP_CODE_ACCEPTED, AMQP_CODE_ATTACH, AMQP_CODE_NONE, AMQP_CODE_OPEN,
    AMQP_CODE_TRANSACTIONAL, AMQP_CREDIT, AMQP_FOR_ENGINE, AMQP_FRAME_ROOM, AMQP_INPUT_AGAIN,
    AMQP_INPUT_END, AMQP_NOTHING,
    AMQP_NO_MEMORY, AMQP_OURS, AMQP_OUTCOME, AMQP_RECEIVER, AMQP_REFUSED, AMQP_SENDER,
    AMQP_STATE_ROOM, AMQP_THEIRS, amqp_bytes_t, amqp_code, amqp_disposition_t, amqp_event,
    amqp_link_end_t, amqp_output_add, amqp_output_clear, amqp_output_room, amqp_output_waiting,
    amqp_output_write, amqp_plane_answer, amqp_plane_answer_run, amqp_plane_beat, amqp_plane_credit,
    amqp_plane_drain, amqp_plane_fill, amqp_plane_flow, amqp_plane_free, amqp_plane_next,
    amqp_plane_rest, amqp_receive, amqp_role, amqp_run_add, amqp_send,
    amqp_session_end_t, amqp_session_link, amqp_timers_is_silent, amqp_timers_next,
    amqp_timers_owes, amqp_timers_take_open, amqp_transfer_t, amqp_wait_gave_way, amqp_wait_paid,
    amqp_wait_span, amqp_wait_yield, amqp_write_state, amqp_write_transfer,
)
from quiver_fast.amqp.tls cimport (
    TLS_AGAIN, TLS_FAILED, iovec, tls_events, tls_flush, tls_free, tls_read, tls_socket_error,
    tls_t, tls_write,
)
from quiver_fast.errors import PeerError
from quiver_fast.proton.libproton cimport (
    pn_bytes_t, pn_condition_set_description, pn_condition_set_name, pn_connection_condition,
    pn_connection_driver_destroy, pn_connection_driver_read_buffer,
    pn_connection_driver_read_close, pn_connection_driver_read_closed,
    pn_connection_driver_read_done, pn_connection_driver_write_buffer,
    pn_connection_driver_write_close, pn_connection_driver_write_done, pn_link_is_sender,
    pn_link_name, pn_link_t, pn_rwbytes_t,
)
from quiver_fast.proton.libsys cimport POLLOUT, monotonic_ns

# A process may wake this late on a virtual machine whose core was idle.
cdef int64_t AWAKE = 100 * 1000


cdef int no_memory() except -1 nogil:
    with gil:
        raise MemoryError("no memory for frames")


cdef ssize_t read_tls(void *tls, void *buffer, size_t size) noexcept nogil:
    """Read for the data plane."""
    return tls_read(<tls_t *>tls, buffer, size)


cdef ssize_t write_tls(void *tls, const iovec *parts, int count) noexcept nogil:
    """Write for the data plane; return 0 if the socket takes no more now."""
    cdef ssize_t n = tls_write(<tls_t *>tls, parts, count)
    return 0 if n == TLS_AGAIN else n


cdef class Transport:
    """The bytes of one connection, which a subclass opens."""

    def __cinit__(self, *arguments: object, **options: object) -> None:
        memset(&self.driver, 0, sizeof(self.driver))
        memset(&self.plane, 0, sizeof(self.plane))
        self.fd = -1

    def __dealloc__(self) -> None:
        amqp_plane_free(&self.plane)
        if self.driver.transport != NULL:
            pn_connection_driver_destroy(&self.driver)
        tls_free(self.tls)

    # ---- events ----------------------------------------------------------------------

    cdef amqp_event next_event(self) except? AMQP_NO_MEMORY nogil:
        """Return the next arrival or outcome that was read, or AMQP_NOTHING.

        Its data is valid until the next call.
        """
        cdef amqp_event event = AMQP_CREDIT
        while self.handle_event(event):
            event = amqp_plane_next(&self.plane)
            if event == AMQP_ARRIVAL or event == AMQP_OUTCOME:
                return event
        return AMQP_NOTHING

    cdef bint handle_event(self, amqp_event event) except -1 nogil:
        """Handle an event of the connection itself; say whether more events may come."""
        if event == AMQP_FOR_ENGINE:
            self.feed(self.plane.control)
        elif event == AMQP_NOTHING:
            self.finish_input()
            return False
        elif event == AMQP_REFUSED:
            with gil:
                self.refuse_frame()
        elif event == AMQP_NO_MEMORY:
            no_memory()
        return not self.finished

    cdef int pump(self) except -1 nogil:
        """Take all input where no transfers or outcomes are expected."""
        while self.next_event() != AMQP_NOTHING:
            pass
        return 0

    cdef int feed(self, amqp_bytes_t bytes) except -1 nogil:
        """Give the engine its frames. Our outcomes go out first."""
        cdef pn_rwbytes_t space
        cdef size_t size
        self.send_outcomes()
        while bytes.size:
            # A buffer that is full with a part of a frame grows.
            space = pn_connection_driver_read_buffer(&self.driver)
            if space.size == 0:
                break
            size = min(space.size, bytes.size)
            memcpy(space.start, bytes.start, size)
            pn_connection_driver_read_done(&self.driver, size)
            bytes.start += size
            bytes.size -= size
        self.drain()
        if not self.knows_timeout and self.plane.endpoints.opened[<int>AMQP_THEIRS].seen:
            self.knows_timeout = True
            self.next_tick = 0
            amqp_timers_take_open(
                &self.timers, self.plane.endpoints.opened[<int>AMQP_THEIRS].idle_timeout)
        # The engine stops reading after the peer's close, and, without an error, after a frame
        # that it cannot dispatch.
        self.finished = self.finished or pn_connection_driver_read_closed(&self.driver)
        return 0

    cdef int drain(self) except -1 nogil:
        """Move the engine's output into ours."""
        cdef pn_bytes_t data
        cdef amqp_bytes_t bytes
        while True:
            data = pn_connection_driver_write_buffer(&self.driver)
            if data.size == 0:
                return 0
            bytes.start = <const uint8_t *>data.start
            bytes.size = data.size
            if not amqp_plane_drain(&self.plane, bytes):
                no_memory()
            pn_connection_driver_write_done(&self.driver, data.size)
            if self.plane.unfit or self.plane.shortened == AMQP_CODE_ATTACH:
                self.fail_unfit()

    cdef int fail_unfit(self) except -1 nogil:
        """Give up: the peer takes no frame that is large enough (parts 2.4.1 and 2.7.1)."""
        with gil:
            what = {
                AMQP_CODE_OPEN: "open, with container id and host",
                AMQP_CODE_ATTACH: "attach, with addresses, filter and capabilities",
            }.get(self.plane.shortened, "SASL, with user and password")
            most = self.plane.endpoints.opened[<int>AMQP_THEIRS].max_frame_size
            raise PeerError(f"the peer takes frames of up to {most} bytes, too few for our {what}")

    cdef int finish_input(self) except -1 nogil:
        """Give the engine the rest of the input, after the last read."""
        if not self.cut or self.finished:
            return 0
        self.finished = True
        self.feed(amqp_plane_rest(&self.plane))
        pn_connection_driver_read_close(&self.driver)
        return self.drain()

    cdef int refuse_frame(self) except -1:
        """End the connection because of an invalid frame; `close` sends the reason."""
        condition = self.plane.refusal.condition
        why = self.plane.refusal.why
        self.broken = f"{condition.decode()}: {why.decode()}"
        pn_condition_set_name(pn_connection_condition(self.connection), condition)
        pn_condition_set_description(pn_connection_condition(self.connection), why)
        self.cut = True
        self.finished = True
        return 0

    # ---- frames ----------------------------------------------------------------------

    cdef amqp_link_end_t *end_of(self, pn_link_t *link) except NULL:
        """Return the data plane's structure of a link that we attached and that has no user."""
        cdef bytes name = pn_link_name(link)
        cdef amqp_role role = AMQP_SENDER if pn_link_is_sender(link) else AMQP_RECEIVER
        cdef amqp_session_end_t *session
        cdef amqp_link_end_t *end
        self.drain()
        session = self.plane.endpoints.sessions
        while session != NULL:
            end = amqp_session_link(session, name, len(name), role)
            # A connection that the peer has closed may have ended it already.
            if end != NULL and end.phase[<int>AMQP_OURS] != AMQP_BEFORE:
                return end
            session = session.next
        raise AssertionError(f"no link '{name.decode('utf-8', 'replace')}' was attached")

    cdef int accept(self, amqp_session_end_t *session, uint32_t id, amqp_code code) except -1 nogil:
        """Settle a delivery that came as accepted, in a transaction if ``code`` says so."""
        # Most deliveries continue the range; this saves a call of amqp_run_add.
        if session == self.run_session and code == self.run.code and id == self.run.last + 1:
            self.run.last = id
            return 0
        self.send_outcomes()
        self.run_session = session
        amqp_run_add(&self.run, id, code, True)
        return 0

    cdef int send_outcomes(self) except -1 nogil:
        """Write the disposition of the present range of outcomes."""
        if self.run.code == AMQP_CODE_NONE:
            return 0
        if self.run.code == AMQP_CODE_TRANSACTIONAL:
            return self.send_transactional()
        if not amqp_plane_answer_run(&self.plane, self.run_session, &self.run):
            no_memory()
        return 0

    cdef int send_transactional(self) except -1 nogil:
        cdef amqp_disposition_t disposition
        cdef uint8_t[AMQP_STATE_ROOM] state
        memset(&disposition, 0, sizeof(disposition))
        disposition.role = AMQP_RECEIVER
        disposition.first = self.run.first
        disposition.last = self.run.last
        disposition.settled = self.run.settled
        disposition.state.code = AMQP_CODE_TRANSACTIONAL
        disposition.state.outcome = AMQP_CODE_ACCEPTED
        disposition.state.txn_id = self.run_transaction
        disposition.state.encoded.size = amqp_write_state(state, &disposition.state) - state
        disposition.state.encoded.start = state
        if not amqp_plane_answer(&self.plane, self.run_session, &disposition):
            no_memory()
        self.run.code = AMQP_CODE_NONE
        return 0

    cdef int settle(
            self, amqp_session_end_t *session, uint32_t first, uint32_t last) except -1 nogil:
        """Settle deliveries that we sent, if the peer did not (part 2.6.12)."""
        cdef amqp_disposition_t disposition
        memset(&disposition, 0, sizeof(disposition))
        disposition.role = AMQP_SENDER
        disposition.first = first
        disposition.last = last
        disposition.settled = True
        if not amqp_plane_answer(&self.plane, session, &disposition):
            no_memory()
        return 0

    cdef int give_credit(self, amqp_link_end_t *end, uint32_t more, bint drain) except -1 nogil:
        """Give the peer's sender credit; ``drain`` asks it to use up its credit or to return it."""
        if not amqp_plane_credit(&self.plane, end, more, drain):
            no_memory()
        return 0

    cdef int send_flow(self, amqp_session_end_t *session, amqp_link_end_t *end) except -1 nogil:
        """Send a flow of a session, and of a link of it unless that is NULL."""
        if not amqp_plane_flow(&self.plane, session, end, False):
            no_memory()
        return 0

    cdef size_t largest_frame(self) noexcept nogil:
        """Return the size in bytes of the largest frame that the peer takes."""
        return self.plane.endpoints.opened[<int>AMQP_THEIRS].max_frame_size

    cdef uint32_t transfer(self, amqp_link_end_t *end, amqp_bytes_t tag, amqp_bytes_t message,
                           bint settled) except? 0 nogil:
        """Send a small message of memory, and return its delivery-id."""
        cdef amqp_session_end_t *session = end.session
        cdef size_t most = self.largest_frame() - AMQP_FRAME_ROOM
        cdef size_t left = message.size
        cdef amqp_transfer_t frame
        cdef uint8_t *out
        memset(&frame, 0, sizeof(frame))
        frame.handle = end.handle[<int>AMQP_OURS]
        frame.delivery_id = session.counts.next_delivery_id
        frame.has_delivery_id = frame.has_message_format = frame.has_settled = True
        frame.tag = tag
        frame.payload.start = message.start
        frame.more = True
        while frame.more:
            frame.payload.size = min(left, most)
            left -= frame.payload.size
            frame.more = left > 0
            frame.settled = settled and not frame.more
            out = amqp_output_room(&self.plane.output, AMQP_FRAME_ROOM + frame.payload.size)
            if out == NULL:
                no_memory()
            out = amqp_write_transfer(out, session.channel[<int>AMQP_OURS], &frame)
            memcpy(out, frame.payload.start, frame.payload.size)
            amqp_output_add(&self.plane.output, out + frame.payload.size)
            frame.payload.start += frame.payload.size
            session.counts.next_outgoing_id += 1
            session.counts.remote_incoming_window -= 1
        session.counts.next_delivery_id += 1
        end.counts.delivery_count += 1
        end.counts.credit -= 1
        return frame.delivery_id

    # ---- bytes -----------------------------------------------------------------------

    cdef int exchange(self, int64_t wait_until) except -1 nogil:
        """Write, read, and wait for the socket until ``wait_until`` (monotonic ns).

        Waits only when nothing was read; 0 waits only for a full socket to drain.
        Returns 1 if bytes were read.
        """
        self.tick()
        self.write()
        cdef int got = self.read()
        if got or self.cut:
            return got
        if self.tls != NULL and not self.blocked and amqp_output_waiting(&self.plane.output):
            # Write the output that waited for the handshake: this read may have ended it.
            self.write()
        if self.blocked and wait_until == 0:
            wait_until = INT64_MAX
        if wait_until == 0:
            return 0
        self.control.wait(self.fd, self.blocked, min(wait_until, self.next_tick))
        if self.blocked:
            self.write()
        return self.read()

    cdef int exchange_awake(self, int64_t until) except -1 nogil:
        """Like exchange, but spin for the last moments before ``until``.

        A process that sleeps wakes too late for records of microseconds. The spin yields the
        core to other processes.
        """
        if monotonic_ns() < until - AWAKE:
            return self.exchange(until - AWAKE)
        cdef int got = self.exchange(0)
        while not got and not self.cut and monotonic_ns() < until:
            amqp_wait_yield()
            got = self.read()
        return got

    cdef int exchange_spinning(self, int64_t wait_until) except -1 nogil:
        """Like exchange, but spin for a moment before sleeping."""
        return self.exchange(0 if self.spin() else wait_until)

    cdef int spin(self) except -1 nogil:
        """Poll for input for a moment, where that has paid before; return 1 if some came."""
        cdef int64_t span = amqp_wait_span(&self.patience)
        cdef int64_t before, now, deadline
        if span == 0:
            return 0
        self.write()
        # Input that is here already does not show whether spinning pays.
        if self.read():
            return 1
        now = monotonic_ns()
        deadline = now + span
        while now < deadline and not self.cut:
            before = now
            amqp_wait_yield()
            now = monotonic_ns()
            if now - before > span:
                amqp_wait_gave_way(&self.patience)
                return self.read()
            if self.read():
                amqp_wait_paid(&self.patience, now < deadline)
                return 1
        amqp_wait_paid(&self.patience, False)
        return 0

    cdef int write(self) except -1 nogil:
        """Write the output until there is no more or the socket is full; note when it is full."""
        self.write_output()
        if self.blocked != (self.blocked_from > self.blocked_to):
            if self.blocked:
                self.blocked_from = monotonic_ns()
            else:
                self.blocked_to = monotonic_ns()
        return 0

    cdef int write_output(self) except -1 nogil:
        self.send_outcomes()
        self.drain()
        self.blocked = False
        if self.lost:
            amqp_output_clear(&self.plane.output)
            return 0
        if self.tls == NULL:
            if amqp_output_waiting(&self.plane.output) == 0:
                return 0
            return self.note_written(
                amqp_output_write(&self.plane.output, amqp_send, &self.fd))
        if tls_flush(self.tls) == TLS_FAILED:
            return self.mark_lost(tls_socket_error(self.tls))
        self.note_written(amqp_output_write(&self.plane.output, write_tls, self.tls))
        # A handshake that waits for the peer needs input: it is not blocked.
        self.blocked = (tls_events(self.tls) & POLLOUT) != 0
        return 0

    cdef int note_written(self, int state) except -1 nogil:
        """Take the result of amqp_output_write."""
        if state < 0:
            return self.mark_lost(errno if self.tls == NULL else tls_socket_error(self.tls))
        self.blocked = state == 0
        if self.timers.period:
            self.timers.spoken = monotonic_ns()
        return 0

    cdef int mark_lost(self, int error) noexcept nogil:
        """Mark the connection as lost: nothing more is written.

        Input is still read: it may have the reason why the peer closed.
        """
        self.socket_error = error
        self.lost = True
        amqp_output_clear(&self.plane.output)
        pn_connection_driver_write_close(&self.driver)
        return 0

    cdef int read(self) noexcept nogil:
        """Read once; return 1 if bytes came."""
        cdef ssize_t n
        self.cut = self.cut or self.finished
        if self.cut:
            return 0
        if self.tls != NULL:
            n = amqp_plane_fill(&self.plane, read_tls, self.tls)
        else:
            n = amqp_plane_fill(&self.plane, amqp_receive, &self.fd)
        if n > 0:
            if not self.heard:
                self.heard = True
                self.first_byte = self.plane.input.buffer[self.plane.input.to - n]
            if self.timers.patience:
                self.timers.heard = monotonic_ns()
            return 1
        if n == AMQP_INPUT_AGAIN:
            # No more bytes come over a lost connection.
            self.cut = self.lost
            return 0
        self.hung_up = n == AMQP_INPUT_END
        if not self.hung_up and not self.lost:
            self.socket_error = tls_socket_error(self.tls) if self.tls != NULL else errno
        self.cut = True
        return 0

    cdef int tick(self) except -1 nogil:
        """Check both idle time-outs (part 2.4.5)."""
        cdef int64_t now = monotonic_ns()
        if now < self.next_tick:
            return 0
        # This process may be late: input that waits shows that the peer was not silent.
        if amqp_timers_is_silent(&self.timers, now) and not self.read() and not self.cut:
            with gil:
                self.give_up_peer()
        if amqp_timers_owes(&self.timers, now):
            self.timers.spoken = now
            if amqp_output_waiting(&self.plane.output) == 0 and not amqp_plane_beat(&self.plane):
                no_memory()
        self.next_tick = amqp_timers_next(&self.timers)
        return 0

    cdef int give_up_peer(self) except -1:
        """End a connection whose peer was silent; `close` sends the reason."""
        pn_condition_set_name(
            pn_connection_condition(self.connection), b"amqp:resource-limit-exceeded")
        pn_condition_set_description(
            pn_connection_condition(self.connection), b"local-idle-timeout expired")
        self.silent = True
        self.cut = True
        self.finished = True
        return 0
