"""A session with Python in place of a socket: for tests and tools."""

from libc.stdint cimport int64_t

from quiver_fast.remote.serve.session cimport Session
from quiver_fast.remote.wire.buffer cimport discard, pending


cdef class Exchange(Session):
    """A session without a socket. The caller gives the time, in seconds."""

    def send(self, data: bytes, now: float = 0.0) -> bytes:
        """Give the session ``data`` of its peer; return its output."""
        self.feed(data, len(data), <int64_t>(now * 1e9))
        return self.turn(now)

    def half_close(self, now: float = 0.0) -> bytes:
        """End the peer's input; return the session's output."""
        self.end_of_input(<int64_t>(now * 1e9))
        return self.turn(now)

    def turn(self, now: float) -> bytes:
        """End a turn of the loop at ``now``; return the output."""
        self.store.turn(<int64_t>(now * 1e9))
        said = self.take()
        self.drained(<int64_t>(now * 1e9))
        return said

    def take(self) -> bytes:
        """Return the output, as if a socket took all of it."""
        said = self.output.memory[self.output.start:self.output.used] if self.output.used else b""
        discard(&self.output, pending(&self.output))
        return said

    @property
    def over(self) -> bool:
        """Whether the connection is to be closed."""
        return self.is_over()

    @property
    def reads(self) -> bool:
        """Whether the session wants to read more of its peer (B.9)."""
        return self.wants_input()
