"""Queues for cases: made by the broker's own means, known to nobody else, and removed."""

from __future__ import annotations

import contextlib
import itertools
import secrets
import threading
from collections.abc import Callable
from typing import Any

from quiver_fast.conform.case import Unobservable
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import Unexpected, composite, message
from quiver_fast.conform.wire.trace import sections

NONE = "none"
_MISSING = "it offers neither management nor dynamic nodes that others may use; give --address"
# Between the empty frames that keep a connection, where its server names no time.
_IDLE_SECONDS, _IDLE_LEAST = 30.0, 0.05
# More than the requests of a run.
_MANY = 100_000
_EXPIRY_MS = 30 * 60 * 1000


class Queues:
    """No queues.

    Attributes:
        means: how queues are made, in words.
        parallel: whether each case gets a queue of its own.
        fresh: whether a queue is new, and empty.
    """

    means, parallel, fresh = NONE, True, True

    def make(self) -> str:
        """Make a queue and return its address."""
        raise Unobservable(_MISSING)

    def remove(self, _address: str) -> str:
        """Remove a queue; return why it stays, empty if it is gone."""
        return ""

    def close(self) -> None:
        """End the connection that makes queues."""


class Named(Queues):
    """The queues of ``--address``, where ``{}`` stands for a number for each case."""

    means, fresh = "--address", False

    def __init__(self, address: str) -> None:
        self._address = address
        self.parallel = "{}" in address
        self._numbers = itertools.count(1)

    def make(self) -> str:
        """Return the next address."""
        return self._address.replace("{}", str(next(self._numbers)))


class _Kept(Queues):
    """Queues that are made on one connection, which stays.

    Args:
        open_: opens a connection.
    """

    def __init__(self, open_: Callable[[], FrameClient]) -> None:
        self._peer = open_()
        self._peer.begin(incoming_window=_MANY)
        self._handles: dict[str, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._stay, daemon=True).start()

    def close(self) -> None:
        """Close the connection; nodes that are left go with it."""
        self._ended.set()
        with self._lock, contextlib.suppress(Unexpected, EOFError, OSError):
            self._peer.send("close")
            self._peer.ended()
        self._peer.socket.close()

    def _stay(self) -> None:
        """Send empty frames, so that the connection is not idle (part 2.4.5)."""
        idle = (self._peer.theirs["open"].get("idle_time_out") or 0) / 2000 or _IDLE_SECONDS
        while not self._ended.wait(min(max(idle, _IDLE_LEAST), _IDLE_SECONDS)):
            with self._lock, contextlib.suppress(OSError):
                self._peer.send_bytes(bytes.fromhex("0000000802000000"))


class Dynamic(_Kept):
    """Dynamic nodes, each of which lives as long as its link."""

    means = "dynamic nodes"

    def make(self) -> str:
        """Attach a dynamic target; its address is the queue."""
        with self._lock:
            handle = min({*range(len(self._handles) + 1)} - {*self._handles.values()})
            target = composite("target", dynamic=True)
            try:
                told = self._peer.attach_sender("", handle=handle, target=target).fields
                address = str(told["target"].fields["address"])
            except (Unexpected, AttributeError, EOFError, OSError) as error:
                raise Unobservable(f"cannot make a queue: {error}") from None
            self._handles[address] = handle
            return address

    def remove(self, address: str) -> str:
        """Detach the link of a queue."""
        with self._lock:
            try:
                self._peer.send("detach", handle=self._handles.pop(address), closed=True)
                self._peer.expect("detach")
            except (Unexpected, EOFError, OSError) as error:
                return str(error)
            return ""


class Managed(_Kept):
    """Queues of RabbitMQ 4, which takes requests by a pair of links of one name."""

    means = "management"

    def __init__(self, open_: Callable[[], FrameClient]) -> None:
        super().__init__(open_)
        paired = Value("map", ((Value("symbol", "paired"), Value("boolean", True)),))
        node = "/management"
        pair: dict[str, Any] = {
            "name": "quiver-conform", "properties": paired, "snd_settle_mode": 1,
            "source": composite("source", address=node),
            "target": composite("target", address=node),
        }  # fmt: skip
        self._peer.attach_sender(node, **pair)
        self._peer.attach_receiver(node, handle=1, **pair)
        self._peer.give_credit(_MANY, handle=1, incoming_window=_MANY)

    def make(self) -> str:
        """Ask for a queue, which goes by itself if nobody can remove it."""
        address = f"/queues/quiver-conform-{secrets.token_hex(8)}"
        expiry = (Value("string", "x-expires"), Value("ulong", _EXPIRY_MS))
        body = [(Value("string", name), Value("boolean", name == "durable"))
                for name in ("durable", "exclusive", "auto_delete")]  # fmt: skip
        body.append((Value("string", "arguments"), Value("map", (expiry,))))
        if reason := self._asked("PUT", address, Value("map", tuple(body)), "201"):
            raise Unobservable(f"cannot make a queue: {reason}")
        return address

    def remove(self, address: str) -> str:
        """Ask for the end of a queue."""
        return self._asked("DELETE", address, Value("null", None), "200")

    def _asked(self, method: str, address: str, body: Value, wanted: str) -> str:
        """Send a request; return why it failed, empty if it did not."""
        with self._lock:
            number, texts = self._peer.next_delivery, (address, method, "$me")
            head = (Value("ulong", number), Value("null", None), *(
                Value("string", text) for text in texts))  # fmt: skip
            request = encode(_section(0x73, Value("list", head))) + encode(_section(0x77, body))
            try:
                self._peer.transfer(number, request, settled=True)
                answer = sections(self._peer.message()[1])
            except (Unexpected, EOFError, OSError) as error:
                return str(error)
            return "" if f'subject="{wanted}"' in answer else answer


def _section(code: int, body: Value) -> Value:
    return Value("described", (Value("ulong", code), body))


def find(open_: Callable[[], FrameClient], address: str | None) -> Queues:
    """Return the means by which this broker's queues are made.

    Args:
        open_: opens a connection.
        address: of ``--address``.
    """
    if address is not None:
        return Named(address)
    with open_() as peer:
        able = peer.theirs["open"].get("offered_capabilities") or ()
    # An attach to a name that is there nowhere makes a queue of it at some brokers.
    for kind in (Managed, Dynamic) if "LINK_PAIR_V1_0" in able else (Dynamic,):
        queues: Queues | None = None
        with contextlib.suppress(Unobservable, Unexpected, EOFError, OSError):
            queues = kind(open_)
            name = queues.make()
            _check_others_may_use(open_, name)
            queues.remove(name)
            return queues
        if queues is not None:
            queues.close()
    return Queues()


def _check_others_may_use(open_: Callable[[], FrameClient], address: str) -> None:
    with open_() as peer:
        peer.begin()
        peer.attach_sender(address)
        peer.wait_for_credit()
        peer.transfer(0, message(b"conform"))
        peer.outcome(0, "accepted")
        peer.attach_receiver(address, handle=1)
        peer.give_credit(1, handle=1)
        peer.message()
