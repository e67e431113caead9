"""The base of both ends of an arrow over csp: a channel, and one cid of a queue (B.10)."""

from libc.stdint cimport int64_t

from quiver_fast.arrow.csp.channel cimport Channel, Reply
from quiver_fast.arrow.run.course cimport OVER, Course, Limits, flush_and_report
from quiver_fast.loop.interrupt cimport pending_count
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.records.writer cimport RecordWriter
from quiver_fast.remote.wire.replies import cid_of, message_of

cdef int64_t SECOND = 1000000000


cdef class Endpoint:
    """One end of a run: an appender's or a tailer's.

    Args:
        channel: a connected channel.
        writer: where the records go.
        limits, time_unit: see Course.
        queue: the queue's name.
        id_prefix: the prefix of this run's ids.
        with_ids: write ids into the records (revisions v1 and v2).
    """

    def __init__(self, channel: Channel, writer: RecordWriter, limits: Limits, *, queue: str,
                 id_prefix: str, with_ids: bool, time_unit: str) -> None:
        self.course = Course(limits, time_unit)
        self.writer = writer
        self.channel = channel
        self.queue = queue
        self.prefix = id_prefix.encode("ascii")
        self.prefix_text = self.prefix
        self.prefix_size = len(self.prefix)
        self.with_ids = with_ids

    def attach(self, timeout: float) -> None:
        """Get a cid from the server, and start the clock of the run.

        Args:
            timeout: seconds to wait for the server's answer.

        Raises:
            LinkError: the server refused it.
            PeerError: it did not answer.
        """
        raise NotImplementedError

    def run(self) -> None:
        """Transfer until a limit or a signal.

        Raises:
            LinkError, PeerError: the server refused a request, or the connection was lost.
            OutputError: the records could not be written.
        """
        cdef int64_t wake
        with nogil:
            self.course.control.say_ready()
            self.await_start()
            wake = self.turn(monotonic_ns())
            while wake != OVER:
                self.await_input(wake)
                wake = self.turn(monotonic_ns())
            flush_and_report(self.writer, self.course.control)

    def transfer(self, timeout: float) -> None:
        """Attach, run to the end, and close the channel in any case.

        Args:
            timeout: see `attach`.

        Raises:
            QuiverError: see `attach` and `run`.
        """
        try:
            self.attach(timeout)
            self.run()
        finally:
            self.channel.close()

    def identity(self) -> dict[str, str | int | None]:
        """Return the address of the server, in the form of `Connection.identity`."""
        return {"product": None, "version": None, "container": None, **self.channel.place}

    @property
    def interrupted(self) -> int:
        """Number of the signal that ended the run early, or 0."""
        return self.course.interrupted

    def account(self) -> "Account":
        """Return the `Account` of this end."""
        from quiver_fast.arrow.run.account import Account

        return Account(sending_ns=self.course.sending_ns)

    cdef bytes create(self, bytes event, double timeout):
        """Send an event that creates an appender or a tailer; keep its cid; return the reply."""
        deadline = monotonic_ns() + <int64_t>(timeout * SECOND)
        reply = self.channel.call(self.csp(), event, deadline)
        self.cid = cid_of(reply, self.channel.peer)
        return reply

    cdef bytes csp(self):
        """Return the address of the queue on its server."""
        return f"//{self.channel.peer}/{self.queue}#Queue".encode()

    cdef int await_start(self) except -1 nogil:
        """Wait for the wrapper's `start` after a `hold`; then start the clock."""
        self.course.control.read_lines()
        if not self.course.control.held:
            return 0
        while self.course.control.held and pending_count() == 0 and not self.channel.cut:
            self.channel.exchange(monotonic_ns() + SECOND)
        return self.course.start_clock()

    cdef int64_t turn(self, int64_t now) except? -1 nogil:
        """Take all replies; return when the next turn is due without one, or OVER."""
        return OVER

    cdef int await_input(self, int64_t wake) except -1 nogil:
        if self.channel.cut:
            with gil:
                self.channel.lost()
        return self.channel.exchange(wake)

    cdef str reason_of(self, const Reply *reply):
        """Return the exception of a reply as one line."""
        return message_of(reply.body.start[:reply.body.size])
