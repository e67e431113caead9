"""A session whose bytes come from and go to Python: for tests and tools."""

from libc.stdint cimport int64_t

from quiver_fast.remote.serve.session cimport Session
from quiver_fast.remote.wire.buffer cimport discard, pending


cdef class Exchange(Session):
    """A session without a socket. Time is the caller's, in seconds."""

    def send(self, data: bytes, now: float = 0.0) -> bytes:
        """Give the session ``data`` of its peer; return what it has to say to that."""
        self.feed(data, len(data), <int64_t>(now * 1e9))
        return self.turn(now)

    def half_close(self, now: float = 0.0) -> bytes:
        """Say that the peer sends no more; return what the session says to that."""
        self.end_of_input(<int64_t>(now * 1e9))
        return self.turn(now)

    def turn(self, now: float) -> bytes:
        """End a turn of the loop at ``now``; return what there is to send."""
        self.store.turn(<int64_t>(now * 1e9))
        said = self.take()
        self.drained(<int64_t>(now * 1e9))
        return said

    def take(self) -> bytes:
        """Return what is to be sent, as if a socket took all of it."""
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
