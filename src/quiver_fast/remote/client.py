"""A client of remote queues: append values, tail entries, by index.

    from quiver_fast.remote.client import Queue

    with Queue("csp://example.net/orders") as queue:
        with queue.appender() as appender:
            index = appender.submit("{ item: nails, count: 100 }")
            for index in appender.submit_all([b"raw", "text"]):
                ...
        with queue.tailer(index) as tailer:
            for entry in tailer:
                print(entry.index, entry.value)

Values are ``str``, one value of text wire (a map, a sequence, or a scalar; see `quote`), or
``bytes``, which are stored raw. Only one thread may use a queue, its appenders and its tailers.
"""

from __future__ import annotations

import base64
import itertools
import struct
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from quiver_fast.arguments import endpoint
from quiver_fast.errors import LinkError, PeerError, UsageError
from quiver_fast.remote.wire.replies import (
    Value,
    cid_of,
    end_of,
    entries_of,
    foreign_protocol,
    index_of,
    last_index_of,
    message_of,
    start_of,
    text_of,
    tid_of,
)
from quiver_fast.sockets import connect
from quiver_fast.urls import hide_user, split_url

__all__ = ["Appender", "Entry", "Queue", "Tailer", "Value", "quote"]

DEFAULT_PORT = 9876
_META = 0x40000000
_LENGTH = 0x3FFFFFFF
_READ_SIZE = _WRITE_SIZE = 1 << 18
# A long poll is repeated well before a middle box forgets the connection.
_WAIT = 10.0
_PAUSE = 0.2


@dataclass(frozen=True)
class Entry:
    """One entry of a queue.

    Attributes:
        index: its index; indexes ascend, with a gap at each new cycle.
        value: text wire as ``str``, raw bytes as ``bytes``.
    """

    index: int
    value: Value


def quote(text: str) -> str:
    """Return any text as one value: double-quoted, with the necessary escapes."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(_escape(character) for character in escaped) + '"'


def _escape(character: str) -> str:
    code = ord(character)
    if character == "\n":
        return "\\n"
    if code < 0x20 or 0x7F <= code < 0xA0:
        return f"\\x{code:02x}"
    if code in (0x2028, 0x2029, 0xFEFF, 0xFFFE, 0xFFFF):
        return f"\\u{code:04x}"
    return character


def _parse(url: str) -> tuple[str, int, str]:
    """Return host, port and queue name of a URL.

    Raises:
        UsageError: the URL is none of a queue.
    """
    parts = split_url(url)
    name = parts.rest.strip("/")
    if parts.scheme != "csp" or not parts.host or not name:
        raise UsageError(f"'{hide_user(url)}' is not csp://HOST[:PORT]/NAME")
    if parts.username is not None:
        raise UsageError("a csp URL does not go with a user: remote queues have none")
    return parts.host, parts.port or DEFAULT_PORT, name


class Queue:
    """A remote queue, and one connection to its server.

    A lost connection ends its appenders and tailers, but not the queue: the next appender or
    tailer connects again.

    Args:
        url: ``csp://HOST[:PORT]/NAME``.
        timeout: seconds to wait for the server, for a connection and for an answer.

    Raises:
        UsageError: the URL is none of a queue.
        PeerError: the server cannot be reached.
    """

    def __init__(self, url: str, timeout: float = 10.0) -> None:
        self._host, self._port, self.name = _parse(url)
        self.timeout = timeout
        self._connection = self._connect()
        self._is_closed = False

    @property
    def csp(self) -> str:
        """The queue's address in the protocol."""
        return f"//{self._host}:{self._port}/{self.name}"

    def appender(self) -> Appender:
        """Return a new appender.

        Raises:
            LinkError: the server refused it.
            PeerError: the server is lost or silent.
        """
        return Appender(self)

    def tailer(
        self, index: int | None = None, *, reconnect: float = 0.0, create: bool = True
    ) -> Tailer:
        """Return a new tailer.

        Args:
            index: of the first entry to read; None begins with the first one.
            reconnect: for how many seconds to try again after a lost connection; reading
                continues with the next index. 0: a lost connection is an error.
            create: create a missing queue, for a reader that comes before its writers.
                False: a missing queue is an error.

        Raises:
            LinkError: the server refused it.
            PeerError: the server is lost or silent.
        """
        return Tailer(self, index, reconnect, create=create)

    def last_index(self) -> int:
        """Return the index of the queue's last entry, -1 if there is none."""
        return last_index_of(self._call("Queue", "lastWrittenIndex: { }"), self.csp)

    def close(self) -> None:
        """Close the connection; its appenders and tailers end with it."""
        self._is_closed = True
        self._connection.close()

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def _call(self, view: str, event: str) -> bytes:
        connection = self._open_connection()
        tid = connection.request(f'csp: "{self.csp}#{view}"', event.encode())
        return connection.answer(tid, self.timeout)

    def _connect(self) -> _Connection:
        return _Connection(self._host, self._port, self.timeout)

    def _open_connection(self) -> _Connection:
        """Return the connection, made again if it was lost."""
        if self._is_closed:
            raise PeerError(f"{self.csp}: the queue is closed")
        if not self._connection.is_open:
            self._connection = self._connect()
        return self._connection


class _Part:
    """The common part of an appender and a tailer: a cid, and the connection that knows it."""

    def __init__(self, queue: Queue, event: str) -> None:
        self._queue = queue
        self._event = event
        self._reply = self._open()

    def _open(self) -> bytes:
        reply = self._queue._call("Queue", self._event)
        self._connection = self._queue._open_connection()
        self._cid = cid_of(reply, self._queue.csp)
        return reply

    def _request(self, event: bytes) -> int:
        return self._connection.request(f"cid: {self._cid}", event)

    def _answer(self, tid: int, patience: float = 0.0) -> bytes:
        return self._connection.answer(tid, self._queue.timeout + patience)

    def close(self) -> None:
        """Close it on the server. A lost connection has done that already."""
        if self._connection.is_open:
            self._answer(self._request(b"close: { }"))

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if not isinstance(error, PeerError):
            self.close()


class Appender(_Part):
    """Appends to a queue. Made by `Queue.appender`."""

    def __init__(self, queue: Queue) -> None:
        super().__init__(queue, "createAppender: { }")

    def __enter__(self) -> Appender:
        return self

    def submit(self, value: Value) -> int:
        """Append a value and return its index, once it is as durable as the server promises.

        Raises:
            LinkError: the server refused the value.
            PeerError: the server is lost or silent; whether the value was appended is unknown.
        """
        return next(self.submit_all([value]))

    def submit_all(self, values: Iterable[Value], window: int = 1000) -> Iterator[int]:
        """Append values, without waiting for each, and yield their indexes in order.

        Args:
            values: the values, read as needed.
            window: the largest number of values without an answer.

        Raises:
            LinkError: the server refused a value; later values within the window were
                appended all the same.
            PeerError: the server is lost or silent; values without an index may have
                been appended or not.
        """
        waiting: deque[int] = deque()
        for value in values:
            waiting.append(self._request(b"submit: " + _wire(value)))
            if len(waiting) >= window:
                # Half a window at a time: one request for each reply would be one packet each.
                while len(waiting) > window // 2:
                    yield self._index(waiting.popleft())
        while waiting:
            yield self._index(waiting.popleft())

    def last_index(self) -> int:
        """Return the last index that this appender wrote, -1 before the first."""
        reply = self._answer(self._request(b"lastWrittenIndex: { }"))
        return last_index_of(reply, self._queue.csp)

    def _index(self, tid: int) -> int:
        return index_of(self._answer(tid), self._queue.csp)


class Tailer(_Part):
    """Reads a queue in order, and never removes anything. Made by `Queue.tailer`.

    Iteration never ends by itself: at the end of the queue it waits for more. `read`
    returns the present entries.

    Attributes:
        index: of the next entry to read.
        start: of the first entry when the tailer was made.
        end: the index after the last entry at that time.
    """

    def __init__(
        self, queue: Queue, index: int | None, reconnect: float, *, create: bool = True
    ) -> None:
        # A server that does not know the argument ignores it (B.5), and creates the queue.
        super().__init__(queue, f"createTailer: {{ {'' if create else 'create: false '}}}")
        self.start = start_of(self._reply, queue.csp)
        self.end = end_of(self._reply, queue.csp)
        self.index = self.start if index is None else index
        self._patience = reconnect

    def __enter__(self) -> Tailer:
        return self

    def read(self, batch: int = 1000, wait: float = 0.0) -> list[Entry]:
        """Return the next entries, at most ``batch``; none if none came within ``wait`` s.

        Raises:
            LinkError: the index is after the queue's end, or the server refused.
            PeerError: the connection was lost and could not be made again.
        """
        event = f"hasNext: {{ index: {self.index}, batch: {batch}, wait: {int(wait * 1000)} }}"
        deadline: float | None = None
        while True:
            try:
                reply = self._answer(self._request(event.encode()), wait)
                break
            except PeerError:
                if not self._patience:
                    raise
                deadline = deadline or time.monotonic() + self._patience
                self._reconnect(deadline)
        first, values = entries_of(reply, self._queue.csp)
        entries = [Entry(first + i, value) for i, value in enumerate(values)]
        if entries:
            self.index = entries[-1].index + 1
        return entries

    def __iter__(self) -> Iterator[Entry]:
        while True:
            yield from self.read(wait=_WAIT)

    def _reconnect(self, deadline: float) -> None:
        """Try to connect again until a deadline, and ask for the same index again."""
        while time.monotonic() + _PAUSE < deadline:
            try:
                self._open()
                return
            except PeerError:
                time.sleep(_PAUSE)
        self._open()


def _wire(value: Value) -> bytes:
    if isinstance(value, str):
        return value.encode()
    return b"!!binary " + (base64.b64encode(value) or b'""')


class _Connection:
    """Requests out, and replies in any order."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        self._peer = endpoint(host, port)
        self._sock = connect(host, port, timeout)
        self._tids = itertools.count(1)
        self._timeout = timeout
        self._output: list[bytes] = []
        self._output_size = 0
        self._input = bytearray()
        self._tid = 0
        self._replies: dict[int, bytes] = {}
        self.is_open = True

    def request(self, route: str, event: bytes) -> int:
        """Queue a request and return its tid; the next `answer` sends it at the latest."""
        tid = next(self._tids)
        meta = f"{route}\ntid: {tid}\n".encode()
        self._output += (
            struct.pack("<I", len(meta) | _META), meta, struct.pack("<I", len(event)), event
        )  # fmt: skip
        self._output_size += len(event)
        if self._output_size > _WRITE_SIZE:
            self._send(self._timeout)
        return tid

    def answer(self, tid: int, timeout: float) -> bytes:
        """Return the reply to a request.

        Raises:
            LinkError: it is an exception.
            PeerError: the connection is lost, or nothing came in time.
        """
        if self._output:
            self._send(timeout)
        deadline = time.monotonic() + timeout
        while tid not in self._replies:
            self._receive(deadline)
        reply = self._replies.pop(tid)
        if reply.startswith(b"exception:"):
            raise LinkError(f"{self._peer}: {message_of(reply)}")
        return reply

    def close(self) -> None:
        """Close the socket."""
        self.is_open = False
        self._sock.close()

    def _lose(self, reason: str) -> PeerError:
        self.close()
        return PeerError(f"{self._peer}: {reason}")

    def _send(self, timeout: float) -> None:
        data = b"".join(self._output)
        self._output, self._output_size = [], 0
        try:
            self._sock.settimeout(timeout)
            self._sock.sendall(data)
        except OSError as error:
            raise self._lose(f"connection lost: {error.strerror or error}") from None

    def _receive(self, deadline: float) -> None:
        try:
            self._sock.settimeout(max(0.001, deadline - time.monotonic()))
            data = self._sock.recv(_READ_SIZE)
        except TimeoutError:
            raise self._lose("no answer in time") from None
        except OSError as error:
            raise self._lose(f"connection lost: {error.strerror or error}") from None
        if not data:
            raise self._lose("the server closed the connection")
        self._input += data
        self._take_documents()

    def _take_documents(self) -> None:
        at = 0
        while len(self._input) - at >= 4:
            if other := foreign_protocol(bytes(self._input[at : at + 4])):
                raise self._lose(other)
            header = int.from_bytes(self._input[at : at + 4], "little")
            end = at + 4 + (header & _LENGTH)
            if end > len(self._input):
                break
            body = bytes(self._input[at + 4 : end])
            at = end
            if header & _META:
                self._tid = tid_of(body, self._peer)
            elif self._tid == 0:
                raise self._lose(f"the server ended the connection: {message_of(text_of(body))}")
            else:
                self._replies[self._tid] = text_of(body)
        del self._input[:at]
