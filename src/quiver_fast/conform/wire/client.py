"""A client that sends any frames, well-formed or not, and says what it expects of its peer."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from quiver_fast.conform.wire.codec import CodecError
from quiver_fast.conform.wire.frames import (
    AMQP,
    AMQP_HEADER,
    PASSING,
    SASL_HEADER,
    Composite,
    Fields,
    Frame,
    Unexpected,
    composite,
    decode_frame,
    encode_frame,
)
from quiver_fast.conform.wire.trace import Trace, Traced, shown, text
from quiver_fast.errors import PeerError

if TYPE_CHECKING:
    from typing_extensions import Self

ANY: Any = object()
"""The condition that stands for any, or none."""
ENDS = ("detach", "end", "close")
"""Frames that end a link, a session and the connection, from the narrowest to the widest."""
_FOREVER = 1e6
_END = "the end of the connection"
_MALFORMED = "a malformed frame"
_WINDOWS = {"next_outgoing_id": 0, "incoming_window": 1000, "outgoing_window": 1000}
# A larger frame could fill the memory.
_FRAME_MAX = 64 << 20
_CHUNK = 1 << 20
# Of the bytes of one call: more would fill the trace, and nobody reads them.
_TRACED_MAX = 20

_containers = itertools.count()


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes.

    Raises:
        EOFError: The peer closed first.
    """
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


class FrameClient:
    """One TCP connection to a server, spoken to frame by frame.

    Attributes:
        trace: gets what goes by; None where nobody looks.
        theirs: the last open, begin and attach of the peer.
        quiet: seconds of a silence that convinces.
        largest: bytes of the largest frame that came.

    Args:
        port: The server's port.
        host: The server's address.
        timeout: The most seconds of a read or write.
        source: The client's own address; empty for the system's choice.
    """

    quiet = 0.3

    def __init__(
        self, port: int, host: str = "127.0.0.1", timeout: float = 5.0, source: str = ""
    ) -> None:
        own = (source, 0) if source else None
        self._take(socket.create_connection((host, port), timeout, own), None, 0)

    @classmethod
    def on(cls, sock: socket.socket, trace: Trace | None = None, number: int = 0) -> Self:
        """Return a client on a connection that exists, TLS included."""
        client = cls.__new__(cls)
        client._take(sock, trace, number)
        return client

    def _take(self, sock: socket.socket, trace: Trace | None, number: int) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket, self.trace, self._number = sock, trace, number
        self.theirs: dict[str, Fields] = {}
        self._input, self.largest = bytearray(), 0
        self._channels: set[int] = set()
        # The number of our next delivery, if all are on one session.
        self.next_delivery = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    # -- bytes and frames

    def send_bytes(self, data: bytes) -> None:
        """Write any bytes; a server that has closed already gets none."""
        if self.trace is not None:
            for frame in itertools.islice(_frames_in(data), _TRACED_MAX):
                self._note(frame, sent=True)
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def send(self, name: str, /, **fields: Any) -> None:
        """Write one frame; see `encode_frame`."""
        if name == "begin":
            self._channels.add(fields.get("channel", 0))
        if name == "transfer" and isinstance(fields.get("delivery_id"), int):
            self.next_delivery = fields["delivery_id"] + 1
        self.send_bytes(encode_frame(name, **fields))

    def read_header(self) -> bytes:
        """Read a protocol header."""
        self._fill(8)
        self._note(_bytes_as_frame(bytes(self._input)), sent=False)
        return self._taken()

    def read(self) -> Frame:
        """Read one frame.

        Raises:
            EOFError: The server closed the connection.
        """
        self._fill(4)
        size = int.from_bytes(self._input[:4], "big")
        if size < 8:
            raise CodecError(f"a frame of {size} bytes")
        if size > _FRAME_MAX:
            # It may be right, if we named no maximum.
            raise PeerError(f"a frame of {size:,} bytes came, too large for quiver-conform")
        self._fill(size)
        self.largest = max(self.largest, len(self._input))
        data = self._taken()
        try:
            found = decode_frame(data)
        except CodecError:
            self._note(_bytes_as_frame(data), sent=False)
            raise
        if found.name in ("open", "begin", "attach"):
            self.theirs[found.name] = found.fields
        self._note(found, sent=False)
        return found

    def _fill(self, size: int) -> None:
        """Read until so many bytes are there: a time-out in the midst of a frame loses none."""
        end = time.monotonic() + (self.socket.gettimeout() or _FOREVER)
        while len(self._input) < size:
            # A peer that sends byte by byte lets no read run into its time-out.
            if time.monotonic() > end:
                raise TimeoutError
            part = self.socket.recv(min(size - len(self._input), _CHUNK))
            if not part:
                raise EOFError
            self._input += part

    def _taken(self) -> bytes:
        data, self._input = bytes(self._input), bytearray()
        return data

    def _note(self, frame: Frame, *, sent: bool) -> None:
        if self.trace is not None:
            at = time.monotonic() - self.trace.began
            _, channel, name, fields, payload = frame
            # A password may be in it.
            secret = {key: "***" for key in ("initial_response", "response") if key in fields}
            told = {**fields, **secret}
            self.trace.append(Traced(self._number, at, sent, name, channel, told, payload))

    # -- expectations

    def expect(self, name: str, /, *, condition: str | None = ANY, **fields: Any) -> Frame:
        """Read until a frame of this name, which has these fields.

        Only empty frames and flows may come before it. A field is compared by ``==`` (an absent
        one is false), or by a function; ``source__address=x`` looks into a composite.

        Raises:
            Unexpected: another frame comes, or none, or the connection ends.
        """
        if condition is not ANY:
            fields["error"] = condition and (lambda error: error.fields["condition"] == condition)
        named = fields if condition is ANY else {**fields, "error": condition}

        def judge(found: Frame) -> bool | None:
            if found.name != name:
                return None if found.name in PASSING else False
            return all(_agrees(found.fields, *field) for field in fields.items())

        return self._find(_due(name, named), judge)

    def any_frame(self) -> Frame:
        """Expect a frame, whatever it is."""
        return self._find("a frame", lambda _frame: True)

    def header(self, *wanted: bytes) -> None:
        """Expect one of these protocol headers."""
        due = " or ".join(map(_header, wanted))
        try:
            found = self.read_header()
        except TimeoutError:
            raise Unexpected(due, "silence") from None
        except (EOFError, OSError):
            raise Unexpected(due, _END) from None
        if found not in wanted:
            raise Unexpected(due, _header(found))

    def refused(self, least: str, *conditions: str) -> Frame:
        """Expect a detach, end or close with an error, whatever comes before it.

        Args:
            least: the narrowest of them that is an answer: a wider one is an answer, too.
            conditions: if there are any, the error has one of them.

        Raises:
            Unexpected: no such frame comes.
        """

        def judge(found: Frame) -> bool | None:
            if found.name not in ENDS[ENDS.index(least) :]:
                return None
            return found.condition in conditions if conditions else found.condition is not None

        found = self._find(f"{least} with {' or '.join(conditions) or 'an error'}", judge)
        if found.name == "close":
            self.send("close")
        return found

    def over(self) -> None:
        """Expect that it ends the connection, by any close or without a word."""
        try:
            self._find("close", lambda found: found.name == "close" or None)
        except Unexpected as error:
            # A close may quote our bytes, and not be well-formed for that.
            if error.found.startswith(_MALFORMED):
                self.send("close")
                self.ended()
            elif error.found != _END:
                raise
        else:
            self.send("close")

    def nothing(self, *names: str) -> None:
        """Expect that for `quiet` seconds none of these frames comes; others are read over."""
        patience, deadline = self.socket.gettimeout(), time.monotonic() + self.quiet
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.socket.settimeout(left)
                if (found := self.read()).name in names:
                    raise Unexpected(f"no {' or '.join(names)}", shown(found))
        except CodecError as error:
            raise Unexpected(f"no {' or '.join(names)}", f"a malformed frame: {error}") from None
        except (EOFError, OSError):
            pass
        finally:
            self.socket.settimeout(patience)

    def works(self) -> None:
        """Expect that the connection goes on: a begin on a free channel is answered."""
        channel = min({*range(len(self._channels) + 1)} - self._channels)
        self.send("begin", channel=channel, **_WINDOWS)

        def judge(found: Frame) -> bool | None:
            if found.name == "begin" and found.fields.get("remote_channel") == channel:
                return True
            return False if found.name in ("end", "close") else None

        self._find(f"begin remote-channel={channel}", judge)

    def ended(self) -> list[Frame]:
        """Read to the end of the connection, which comes within the patience; return the frames."""
        frames: list[Frame] = []

        def judge(found: Frame) -> None:
            frames.append(found)

        try:
            self._find(_END, judge)
        except Unexpected as error:
            if error.found != _END:
                raise
        return frames

    def outcome(self, number: int, *names: str) -> Frame:
        """Expect a disposition for this delivery, whose outcome has one of these names."""

        def judge(found: Frame) -> bool | None:
            first = found.fields.get("first", 0)
            if found.name == "disposition" and found.fields.get("role") and (
                first <= number <= found.fields.get("last", first)
            ):  # fmt: skip
                return _outcome(found.fields.get("state")) in names
            return False if found.name in ENDS else None

        return self._find(f"disposition first={number} state={' or '.join(names)}", judge)

    def message(self) -> tuple[Frame, bytes]:
        """Expect one delivery, of any number of frames; return its first frame, and its payload."""
        first = found = self.expect("transfer")
        payload = found.payload
        while found.fields.get("more"):
            found = self.expect("transfer")
            payload += found.payload
        return first, payload

    def _find(self, due: str, judge: Callable[[Frame], bool | None]) -> Frame:
        """Read until a frame is judged: true accepts it, false does not, None reads it over."""
        patience = self.socket.gettimeout()
        deadline = time.monotonic() + (patience or _FOREVER)
        try:
            while True:
                if (left := deadline - time.monotonic()) <= 0:
                    # A stream of frames that mean nothing is a silence, too.
                    raise TimeoutError
                self.socket.settimeout(left)
                verdict = judge(found := self.read())
                if verdict is False:
                    raise Unexpected(due, shown(found))
                if verdict:
                    break
        except TimeoutError:
            raise Unexpected(due, f"no such frame in {patience:g} s") from None
        except CodecError as error:
            raise Unexpected(due, f"{_MALFORMED}: {error}") from None
        except (EOFError, OSError):
            raise Unexpected(due, _END) from None
        finally:
            self.socket.settimeout(patience)
        return found

    # -- steps of a conversation

    def until(self, name: str) -> Frame:
        """Read until a frame of this name, whatever comes before it."""
        while (found := self.read()).name != name:
            pass
        return found

    def read_to_end(self) -> list[Frame]:
        """Read all frames until the server has closed the connection.

        Raises:
            TimeoutError: It does not.
        """
        frames = []
        # If the server closes with unread input, its kernel sends RST.
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                frames.append(self.read())
        return frames

    def exchange_header(self, header: bytes = AMQP_HEADER) -> None:
        """Send a protocol header and check that the server answers with the same."""
        self.send_bytes(header)
        self.header(header)

    def authenticate(self, mechanism: str, response: bytes = b"") -> Frame:
        """Speak SASL to its end with one response; return the outcome."""
        self.exchange_header(SASL_HEADER)
        self.expect("sasl_mechanisms")
        self.send("sasl_init", mechanism=mechanism, initial_response=response)
        return self.expect("sasl_outcome")

    def open(self, **fields: Any) -> Frame:
        """Exchange AMQP headers and open frames; return the server's.

        Each client is a container of its own: two of one container share the names of links.
        """
        self.exchange_header()
        self.send("open", **{"container_id": f"frames-{next(_containers)}", **fields})
        return self.expect("open")

    def begin(self, channel: int = 0, **fields: Any) -> Frame:
        """Begin a session; return the server's begin."""
        self.send("begin", channel=channel, **{**_WINDOWS, **fields})
        return self.expect("begin")

    def attach_sender(self, address: str, *, handle: int = 0, **fields: Any) -> Frame:
        """Attach a link that we send on; return the server's attach."""
        ours = {"name": f"to-{handle}", "role": False, "initial_delivery_count": 0}
        termini = {"source": composite("source"), "target": composite("target", address=address)}
        self.send("attach", handle=handle, **{**ours, **termini, **fields})
        return self.expect("attach")

    def attach_receiver(self, address: str, *, handle: int = 0, **fields: Any) -> Frame:
        """Attach a link that we receive on; return the server's attach."""
        ours = {"name": f"from-{handle}", "role": True}
        termini = {"source": composite("source", address=address), "target": composite("target")}
        self.send("attach", handle=handle, **{**ours, **termini, **fields})
        return self.expect("attach")

    def wait_for_credit(self) -> int:
        """Read until the server gives credit on a link; return how much."""
        while True:
            credit = self.expect("flow").fields.get("link_credit", 0)
            if credit:
                return int(credit)

    def give_credit(self, credit: int, *, handle: int = 0, **fields: Any) -> None:
        """Give the server credit on a receiving link that has had no delivery yet."""
        session = {"incoming_window": 1000, "next_outgoing_id": 0, "outgoing_window": 1000}
        link = {"handle": handle, "delivery_count": 0, "link_credit": credit}
        self.send("flow", **{"next_incoming_id": 0, **session, **link, **fields})

    def transfer(self, number: int, payload: bytes, *, handle: int = 0, **fields: Any) -> None:
        """Send one transfer of the session's delivery ``number``."""
        ours = {"delivery_id": number, "delivery_tag": b"%d" % number, "message_format": 0}
        self.send("transfer", handle=handle, payload=payload, **{**ours, **fields})


def _frames_in(data: bytes) -> Iterator[Frame]:
    """Yield the frames and headers that are cut out of bytes; the rest as ``bytes``."""
    while data:
        size = 8 if data[:4] == b"AMQP" else int.from_bytes(data[:4], "big")
        part, data = (data[:size], data[size:]) if 8 <= size <= len(data) else (data, b"")
        try:
            yield decode_frame(part)
        except CodecError:
            yield _bytes_as_frame(part)


def _bytes_as_frame(data: bytes) -> Frame:
    if data[:4] == b"AMQP" and len(data) == 8:
        fields = {"protocol": data[4], "version": ".".join(map(str, data[5:]))}
        return Frame(AMQP, 0, "header", Fields("header", fields), b"")
    fields = {"size": len(data), "first": repr(data[:16])[2:-1]}
    return Frame(AMQP, 0, "bytes", Fields("bytes", fields), b"")


def _header(data: bytes) -> str:
    return shown(_bytes_as_frame(data))


def _agrees(fields: Fields, name: str, wanted: Any) -> bool:
    found: Any = Composite("", fields)
    for part in name.split("__"):
        found = found.fields.get(part) if isinstance(found, Composite) else None
    if callable(wanted):
        return bool(wanted(found))
    return found == wanted or (wanted is False and found is None)


def _due(name: str, fields: dict[str, Any]) -> str:
    """Return the words for a frame that is expected."""
    shown_fields = (
        f"{key.replace('__', '.').replace('_', '-')}={_wanted(value)}"
        for key, value in fields.items()
    )
    return " ".join([name.replace("_", "-"), *shown_fields])


def _wanted(value: Any) -> str:
    if callable(value):
        return "..." if value.__name__ == "<lambda>" else value.__name__.replace("_", " ")
    return text(value, bare=True)


def _outcome(state: Composite | None) -> str:
    """Return the name of a state, or of the outcome within a transaction."""
    if state is not None and state.name == "transactional_state":
        state = state.fields.get("outcome")
    return state.name if state is not None else "none"
