"""The client's side of a connection of the queue protocol, for the arrow's hot loops."""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp, memcpy, strlen

import os

from quiver_fast import sockets
from quiver_fast.arguments import endpoint
from quiver_fast.arrow.run.control cimport Control
from quiver_fast.errors import LinkError, PeerError
from quiver_fast.loop.interrupt cimport pending_count
from quiver_fast.proton.libsys cimport MSG_DONTWAIT, MSG_NOSIGNAL, monotonic_ns, recv, send
from quiver_fast.records.digits cimport put_decimal
from quiver_fast.remote.wire.buffer cimport discard, pending, release, reserve
from quiver_fast.remote.wire.replies import foreign_protocol, message_of
from quiver_fast.remote.wire.textwire cimport Slice, parse_int64
from quiver_fast.remote.wire.wire cimport (
    HEADER_SIZE, LENGTH_MASK, META, end_document, read_header, scan_meta, without_preamble,
)

cdef size_t READ_SIZE = 262144
# The largest reply to our requests: a batch of one entry of 16 MiB, as base64.
cdef size_t MAX_REPLY = 24 << 20


cdef bint starts(Slice text, const char *prefix) noexcept nogil:
    cdef size_t size = strlen(prefix)
    return text.size >= size and memcmp(text.start, prefix, size) == 0


cdef class Channel:
    """A connected client.

    Args:
        host, port: the server.
        timeout: seconds to wait for the connection.
        control: the control socket.

    Raises:
        PeerError: it cannot be reached.
    """

    def __init__(self, host: str, port: int, timeout: float, control: Control) -> None:
        self.control = control
        self.peer = endpoint(host, port)
        self.sock = sockets.connect(host, port, timeout)
        self.fd = self.sock.fileno()
        # A closed socket has no peer address.
        self.place = sockets.peer_address(self.sock)

    def __dealloc__(self) -> None:
        release(&self.input)
        release(&self.output)

    def close(self) -> None:
        """Close the connection."""
        self.sock.close()
        self.cut = True

    # ---- requests ----------------------------------------------------------------

    cdef char *request_room(self, size_t size) except NULL nogil:
        """Return the place for ``size`` more bytes of requests."""
        cdef char *out = reserve(&self.output, size)
        if out == NULL:
            with gil:
                raise MemoryError("no memory for requests")
        return out

    cdef char *begin_meta(self, char *out, int64_t cid, int64_t tid) noexcept nogil:
        """Write the meta-data of a request to ``cid`` (60 bytes at most)."""
        cdef char *header = out
        memcpy(out + HEADER_SIZE, b"cid: ", 5)
        out = put_decimal(out + HEADER_SIZE + 5, cid)
        memcpy(out, b"\ntid: ", 6)
        out = put_decimal(out + 6, tid)
        out[0] = c"\n"
        return end_document(header, out + 1, META)

    cdef int request(self, int64_t cid, int64_t tid, const char *event) except -1 nogil:
        """Write a request: meta-data, and ``event`` as the data document."""
        cdef size_t size = strlen(event)
        cdef char *header = self.begin_meta(self.request_room(128 + size), cid, tid)
        memcpy(header + HEADER_SIZE, event, size)
        self.output.used = (
            end_document(header, header + HEADER_SIZE + size, 0) - self.output.memory)
        return 0

    cdef int post(self, bytes csp, int64_t tid, bytes event) except -1:
        """Write a request to a csp, with ``event`` as the data document."""
        meta = b'csp: "%b"\ntid: %d\n' % (csp, tid)
        text = b"".join(
            (len(body) | bits).to_bytes(4, "little") + body
            for body, bits in ((meta, META), (event, 0)))
        memcpy(self.request_room(len(text)), <const char *>text, len(text))
        self.output.used += len(text)
        return 0

    cdef bytes call(self, bytes csp, bytes event, int64_t deadline):
        """Send an event to a csp and return its reply, which must be the next one."""
        cdef Reply reply
        self.post(csp, 1, event)
        while not self.next_reply(&reply):
            if monotonic_ns() >= deadline:
                raise PeerError(f"{self.peer}: no answer to {event.decode().strip()}")
            self.exchange(deadline)
            if self.cut:
                self.lost()
            if pending_count():
                raise PeerError(f"{self.peer}: interrupted")
        body = reply.body.start[:reply.body.size]
        if body.startswith(b"exception:"):
            raise LinkError(f"{self.peer}: {message_of(body)}")
        return body

    # ---- replies -----------------------------------------------------------------

    cdef bint next_reply(self, Reply *reply) except? -1 nogil:
        """Take the next complete reply; False if there is none."""
        cdef uint32_t header
        cdef uint32_t size
        cdef const char *at
        while pending(&self.input) >= HEADER_SIZE:
            at = self.input.memory + self.input.start
            header = read_header(at)
            size = header & LENGTH_MASK
            if size > MAX_REPLY:
                with gil:
                    other = foreign_protocol(at[:HEADER_SIZE])
                    raise PeerError(f"{self.peer}: {other or f'a reply of {size} bytes'}")
            if pending(&self.input) - HEADER_SIZE < size:
                return False
            # Not discard(): a reply stays valid until the next read.
            self.input.start += HEADER_SIZE + size
            at += HEADER_SIZE
            if header & META:
                if scan_meta(at, size, &self.meta) != NULL:
                    with gil:
                        raise PeerError(f"{self.peer}: a reply with malformed meta-data")
                continue
            reply.tid = self.tid_of_meta()
            reply.body = without_preamble(at, size)
            return True
        return False

    cdef int64_t tid_of_meta(self) noexcept nogil:
        cdef Slice text
        cdef int64_t tid = 0
        text.start = self.meta.tid.text
        text.size = self.meta.tid.size
        parse_int64(text, &tid)
        return tid

    # ---- the socket --------------------------------------------------------------

    cdef int exchange(self, int64_t wait_until) except -1 nogil:
        """Write pending requests, wait for the peer until ``wait_until``, and read."""
        self.write()
        if self.read() == 0 and not self.cut and wait_until > 0:
            self.control.wait(self.fd, self.blocked, wait_until)
            self.write()
            self.read()
        return 0

    cdef int write(self) noexcept nogil:
        cdef ssize_t size
        self.blocked = False
        while pending(&self.output) > 0:
            size = send(self.fd, self.output.memory + self.output.start, pending(&self.output),
                        MSG_DONTWAIT | MSG_NOSIGNAL)
            if size < 0 and errno == EINTR:
                continue
            if size < 0:
                self.blocked = errno == EAGAIN
                if not self.blocked:
                    self.socket_error = errno
                    self.cut = True
                return 0
            discard(&self.output, size)
        return 0

    cdef int read(self) except -1 nogil:
        """Read once; return how many bytes came."""
        cdef char *out
        cdef ssize_t size
        if self.cut:
            return 0
        if self.input.start == self.input.used:
            self.input.start = self.input.used = 0
        out = reserve(&self.input, READ_SIZE)
        if out == NULL:
            with gil:
                raise MemoryError("no memory for replies")
        size = recv(self.fd, out, READ_SIZE, MSG_DONTWAIT)
        if size > 0:
            self.input.used += size
            return <int>size
        if size == 0 or (errno != EAGAIN and errno != EINTR):
            self.socket_error = 0 if size == 0 else errno
            self.cut = True
        return 0

    cdef int lost(self) except -1:
        """Raise the error that ended the connection."""
        if self.socket_error:
            raise PeerError(f"{self.peer}: connection lost: {os.strerror(self.socket_error)}")
        raise PeerError(f"{self.peer}: the peer closed the connection")
