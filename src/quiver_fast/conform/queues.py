"""Queues for cases: made by the broker's own means, known to nobody else, and removed."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable

from quiver_fast.conform.case import Unobservable
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import Unexpected, composite, message

NONE = "none"
_MISSING = "it offers neither management nor dynamic nodes that others may use; give --address"
# Between the empty frames that keep a connection, where its server names no time.
_IDLE_SECONDS = 30.0


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


class Dynamic(Queues):
    """Dynamic nodes of one connection, each of which lives as long as its link."""

    means = "dynamic nodes"

    def __init__(self, open_: Callable[[], FrameClient]) -> None:
        self._peer = open_()
        self._peer.begin()
        self._handles: dict[str, int] = {}
        self._lock = threading.Lock()
        self._ended = threading.Event()
        threading.Thread(target=self._stay, daemon=True).start()

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

    def close(self) -> None:
        """Close the connection; nodes that are left go with it."""
        self._ended.set()
        with self._lock, contextlib.suppress(Unexpected, EOFError, OSError):
            self._peer.send("close")
            self._peer.ended()
        self._peer.socket.close()

    def _stay(self) -> None:
        """Send empty frames, so that the connection is not idle (part 2.4.5)."""
        idle = self._peer.theirs["open"].get("idle_time_out", 2000 * _IDLE_SECONDS)
        while not self._ended.wait(min(idle / 2000, _IDLE_SECONDS)):
            with self._lock, contextlib.suppress(OSError):
                self._peer.send_bytes(bytes.fromhex("0000000802000000"))


def find(open_: Callable[[], FrameClient], address: str | None) -> Queues:
    """Return the means by which this broker's queues are made.

    Args:
        open_: opens a connection.
        address: of ``--address``.
    """
    if address is not None:
        return Named(address)
    queues: Queues | None = None
    with contextlib.suppress(Unobservable, Unexpected, EOFError, OSError):
        queues = Dynamic(open_)
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
