"""A relay in front of a right peer that makes one fault in what the peer says."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from quiver_fast.conform.mutation import Mutation
from quiver_fast.conform.wire.codec import Value, decode, encode
from quiver_fast.conform.wire.frames import (
    FIELDS,
    NAMES,
    Frame,
    decode_frame,
    encode_frame,
    frame,
    plain,
    typed,
)

_CHUNK = 1 << 18
_HEADER = b"AMQP\x00"
NULL = Value("null", None)


class Mutator:
    """Makes one fault in frames and headers.

    Attributes:
        happened: how many times it was made.

    Args:
        fault: the fault; None for none.
    """

    def __init__(self, fault: Mutation | None) -> None:
        self.fault = fault
        self.happened = 0
        self._seen: Counter[str] = Counter()
        self._lock = threading.Lock()

    def parts(self, unit: bytes, waiting: list[bytes]) -> Iterator[bytes | None]:
        """Yield what goes out in place of a frame or header; None ends the connection.

        Args:
            unit: the frame or header.
            waiting: the frames of its connection that are held back.
        """
        fault = self.fault
        name = "header" if unit[:4] == b"AMQP" else decode_frame(unit).name
        if fault is None or not self._meets(fault, name, unit):
            yield unit
            if waiting and fault and name == fault.fields["second"]:
                # Before it is sent: nobody may look earlier.
                self.happened += 1
                yield waiting.pop()
            return
        if fault.kind == "swapped":
            waiting.append(unit)
            return
        # Before it is over: nobody may wait for its end.
        self.happened += fault.kind == "late"
        parts = list(_PARTS[fault.kind](fault, unit))
        self.happened += parts != [unit]
        yield from parts

    def _meets(self, fault: Mutation, name: str, unit: bytes) -> bool:
        """Say whether the fault is made in this frame."""
        if name != fault.name or (name == "header" and not unit.startswith(_HEADER)):
            return False
        with self._lock:
            self._seen[name] += 1
            return fault.nth in (0, self._seen[name])


class MutatingRelay:
    """Passes all on, but for one fault on the way from the peer.

    Attributes:
        mutator: makes the fault, and knows how many times.

    Args:
        port: the peer's port on this machine.
        fault: the fault; None for none.
    """

    def __init__(self, port: int, fault: Mutation | None) -> None:
        self._port, self.mutator = port, Mutator(fault)
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> MutatingRelay:
        _start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            peer = socket.create_connection(("127.0.0.1", self._port))
            self._open += client, peer
            for one in (client, peer):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _start(lambda client=client, peer=peer: _copy(client, peer))
            _start(lambda client=client, peer=peer: self._look(peer, client))

    def _look(self, peer: socket.socket, client: socket.socket) -> None:
        """Pass frames and headers on, one by one."""
        rest, waiting = peer.recv(_CHUNK), list[bytes]()
        if not rest.startswith(b"AMQP"[: len(rest)]):
            client.sendall(rest)  # TLS
            _copy(peer, client)
            return
        data = rest
        while data:
            while unit := _first_unit(rest):
                rest = rest[len(unit) :]
                for part in self.mutator.parts(unit, waiting):
                    if part is None:
                        client.shutdown(socket.SHUT_RDWR)
                        return
                    client.sendall(part)
            data = _received(peer)
            rest += data
        # Bytes that are no frame pass as they are: those of TLS.
        client.sendall(rest)
        kind = self.mutator.fault.kind if self.mutator.fault else ""
        self.mutator.happened += kind == "held"
        if kind not in ("held", "silenced"):
            client.shutdown(socket.SHUT_WR)


def _first_unit(data: bytes) -> bytes:
    """Return the first whole frame or header; empty if there is none yet."""
    if len(data) < 8:
        return b""
    size = 8 if data[:4] == b"AMQP" else int.from_bytes(data[:4], "big")
    return data[:size] if 8 <= size <= len(data) else b""


def _added(fault: Mutation, unit: bytes) -> Iterator[bytes]:
    fields = dict(fault.fields)
    name, channel = fields.pop(""), fields.pop("channel", decode_frame(unit).channel)
    yield unit
    yield encode_frame(name, channel=channel, **fields)


def _late(fault: Mutation, unit: bytes) -> Iterator[bytes]:
    time.sleep(fault.fields["seconds"])
    yield unit


def _changed(fault: Mutation, unit: bytes) -> Iterator[bytes]:
    found = decode_frame(unit)
    value, _ = decode(unit[unit[4] * 4 :])
    own = {"channel": found.channel, "payload": found.payload}
    for name, new in fault.fields.items():
        if name in own:
            own[name] = new(own[name]) if callable(new) else new
        else:
            value = _edited(value, name.split("__"), new)
    yield _encoded(found, value, **own)


def _encoded(found: Frame, value: Value, *, channel: int, payload: bytes) -> bytes:
    return frame(encode(value) + payload, kind=found.kind, channel=channel)


def _edited(value: Value, path: list[str], new: Any) -> Value:
    """Return a composite with another value in one of its fields."""
    if value.kind != "described":
        return value
    descriptor, inner = value.value
    known = FIELDS[NAMES[descriptor.value]]
    at = [name for name, _ in known].index(path[0])
    items = [*inner.value, *[NULL] * (len(known) - len(inner.value))]
    if path[1:]:
        items[at] = _edited(items[at], path[1:], new)
    else:
        items[at] = typed(known[at][1], new(plain(items[at])) if callable(new) else new)
    while items and items[-1] == NULL:
        items.pop()
    return Value("described", (descriptor, Value("list", tuple(items))))


_PARTS: dict[str, Callable[[Mutation, bytes], Iterator[bytes | None]]] = {
    "added": _added,
    "changed": _changed,
    "cut": lambda _fault, _unit: iter([None]),
    "dropped": lambda _fault, _unit: iter(()),
    "header": lambda fault, _unit: iter([fault.fields["data"]]),
    "late": _late,
    "silenced": lambda _fault, _unit: iter(()),
    "twice": lambda _fault, unit: iter([unit, unit]),
}


def _received(peer: socket.socket) -> bytes:
    """Read; a reset, which follows input that nobody read, is an end, too."""
    try:
        return peer.recv(_CHUNK)
    except ConnectionError:
        return b""


def _copy(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(_CHUNK):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


def _start(run: Callable[[], None]) -> None:
    def quietly() -> None:
        with contextlib.suppress(OSError):
            run()

    threading.Thread(target=quietly, daemon=True).start()
