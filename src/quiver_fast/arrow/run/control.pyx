"""The control socket: messages between a wrapper and its arrow during the run.

    arrow    ──  ready        ──>  wrapper    the link is attached, and has credit
    arrow    ──  flushed T N  ──>  wrapper    N bytes have the records of all transfers until T
    receiver ──  rejected N   ──>  wrapper    N messages were rejected; follows the above
    sender   <── hold         ──   wrapper    wait for `start` when ready: there are others
    sender   <── start        ──   wrapper    all senders are ready: begin
    receiver <── sent N       ──   wrapper    the sender has ended: the run has N messages
    arrow    <── stop         ──   wrapper    end in order, now

Each is a line of text on a stream socket whose other end the wrapper holds.
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.signal cimport SIGTERM, raise_
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp
from posix.time cimport timespec

import socket

from quiver_fast.errors import UsageError
from quiver_fast.loop.interrupt cimport pending_count, wake_descriptor
from quiver_fast.proton.libsys cimport (
    MSG_DONTWAIT, MSG_NOSIGNAL, POLLIN, POLLOUT, monotonic_ns, pollfd, ppoll, recv, send,
)

# Digits of the largest number that surely fits 64 bits.
cdef size_t MOST_DIGITS = 18
cdef int64_t SECOND = 1000000000


cdef class Control:
    """The arrow's end of the control socket.

    Args:
        fd: its descriptor; -1 when no wrapper controls this arrow.

    Raises:
        UsageError: the descriptor is not a stream socket.
    """

    def __init__(self, fd: int = -1) -> None:
        self.fd = fd
        self.total = INT64_MAX
        self.was_given = fd >= 0
        if fd >= 0:
            check_socket(fd)

    @property
    def given(self) -> bool:
        """Whether a wrapper controls this arrow, or did until it was gone."""
        return self.was_given

    def fileno(self) -> int:
        """Return the descriptor to wait for; -1 if there is none."""
        return self.fd

    def ready(self) -> None:
        """Tell the wrapper that this arrow is ready to transfer."""
        self.say_ready()

    def read(self) -> None:
        """Read the wrapper's lines, without waiting."""
        self.read_lines()

    cdef int say_ready(self) noexcept nogil:
        # If the socket does not take 6 bytes, its other end is closed: `read_lines` sees that.
        if self.fd >= 0:
            send(self.fd, b"ready\n", 6, MSG_DONTWAIT | MSG_NOSIGNAL)
        return 0

    cdef int say_flushed(self, int64_t time, int64_t size) noexcept nogil:
        """Send the number of bytes of records that were written until ``time`` (monotonic ns)."""
        cdef char[LONGEST_LINE] text
        cdef int length
        # The arrow never waits: a wrapper that does not read loses messages.
        if self.fd >= 0:
            length = snprintf(
                text, sizeof(text), b"flushed %lld %lld\n", <long long>time, <long long>size)
            send(self.fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL)
        if self.fd >= 0 and self.rejected:
            length = snprintf(text, sizeof(text), b"rejected %lld\n", <long long>self.rejected)
            send(self.fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL)
        return 0

    cdef int read_lines(self) noexcept nogil:
        """Read the wrapper's lines, without waiting."""
        cdef char[256] bytes
        cdef ssize_t size
        while self.fd >= 0:
            size = recv(self.fd, bytes, sizeof(bytes), MSG_DONTWAIT)
            if size > 0:
                self.take(bytes, size)
            elif size < 0 and errno == EINTR:
                continue
            elif size < 0 and errno == EAGAIN:
                return 0
            else:
                self.mark_lost()
        return 0

    cdef int wait(self, int fd, bint writing, int64_t until) noexcept nogil:
        """Sleep until a socket is ready, a signal or a line of the wrapper comes, or ``until``.

        Args:
            fd: what is read from.
            writing: whether it is also written to.
            until: on the monotonic clock, in nanoseconds; not after this.
        """
        cdef pollfd[3] fds
        cdef timespec span
        cdef int64_t rest = max(until - monotonic_ns(), <int64_t>0)
        span.tv_sec = rest // SECOND
        span.tv_nsec = rest % SECOND
        fds[0].fd = fd
        fds[0].events = POLLIN | (POLLOUT if writing else 0)
        # The pipe stays readable after the first signal: it must not wake us again.
        fds[1].fd = wake_descriptor() if pending_count() == 0 else -1
        fds[1].events = POLLIN
        fds[2].fd = self.fd
        fds[2].events = POLLIN
        if ppoll(fds, 3, &span, NULL) > 0 and fds[2].revents:
            self.read_lines()
        return 0

    cdef int take(self, const char *bytes, size_t size) noexcept nogil:
        """Collect bytes, and obey each whole line."""
        cdef size_t i
        for i in range(size):
            if bytes[i] == c"\n":
                if not self.overlong:
                    self.obey()
                self.size = 0
                self.overlong = False
            elif self.size == sizeof(self.line):
                self.overlong = True
            else:
                self.line[self.size] = bytes[i]
                self.size += 1
        return 0

    cdef int obey(self) noexcept nogil:
        """Obey a line; ignore an unknown one, which a newer wrapper may send."""
        cdef size_t i
        cdef int64_t number = 0
        if self.is_line(b"stop", 4):
            self.stopped = self.senders_ended = True
            self.held = False
        elif self.is_line(b"hold", 4):
            self.held = not self.stopped
        elif self.is_line(b"start", 5):
            self.held = False
        if not 6 <= self.size <= 5 + MOST_DIGITS or memcmp(self.line, b"sent ", 5) != 0:
            return 0
        for i in range(5, self.size):
            if not c"0" <= self.line[i] <= c"9":
                return 0
            number = 10 * number + (self.line[i] - c"0")
        self.total = number
        self.senders_ended = True
        return 0

    cdef bint is_line(self, const char *word, size_t size) noexcept nogil:
        return self.size == size and memcmp(self.line, word, size) == 0

    cdef int mark_lost(self) noexcept nogil:
        """End the run, because the wrapper is gone: as it asked last, else as at a SIGTERM."""
        self.fd = -1
        self.held = False
        if self.total != INT64_MAX:
            # No `stop` can come any more.
            self.stopped = True
        elif not self.stopped:
            raise_(SIGTERM)
        return 0


def check_socket(fd: int) -> None:
    """Raise UsageError unless ``fd`` is a stream socket."""
    try:
        sock = socket.socket(fileno=fd)
        kind = sock.type
        sock.detach()
    except OSError as error:
        raise UsageError(f"control-fd={fd} cannot be used: {error.strerror}") from None
    if kind != socket.SOCK_STREAM:
        raise UsageError(f"control-fd={fd} is not a stream socket")
