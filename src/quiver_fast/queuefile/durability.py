"""Durability: the policies of A.11, and the thread of `interval`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Policy(IntEnum):
    """The durability of an append; the numbers are those of Durability in appender.pxd."""

    NEVER = 0
    INTERVAL = 1
    GROUP = 2


def boot_id() -> int:
    """Return a number that changes when the machine restarts; 0 if it is unknown.

    A service that cannot read the kernel's file gets the id from its unit, as `QUIVER_BOOT_ID`.
    """
    try:
        words = BOOT_ID.read_text()
    except OSError:
        words = os.environ.get("QUIVER_BOOT_ID", "")
    try:
        return int.from_bytes(bytes.fromhex(words.replace("-", ""))[:8], "little", signed=True)
    except ValueError:
        return 0


def parse_durability(text: str) -> tuple[Policy, float]:
    """Return a policy and its interval in seconds from ``none``, ``interval:<ms>`` or ``group``.

    Raises:
        ValueError: it is none of these.
    """
    if text == "none":
        return Policy.NEVER, 0.0
    if text == "group":
        return Policy.GROUP, 0.0
    name, _, milliseconds = text.partition(":")
    if name != "interval" or not milliseconds.isdecimal() or int(milliseconds) == 0:
        raise ValueError("durability must be none, interval:<ms> or group")
    return Policy.INTERVAL, int(milliseconds) / 1000


class Syncing:
    """The thread of the policy `interval`.

    Args:
        sync: the function that it calls; never while paused.
        interval: seconds between two calls.
    """

    def __init__(self, sync: Callable[[], None], interval: float) -> None:
        self._sync = sync
        self._interval = interval
        self._stopping = threading.Event()
        self._turn = threading.Lock()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._interval):
            with self._turn:
                self._sync()

    def pause(self) -> None:
        """Do not touch the file until `resume`."""
        self._turn.acquire()

    def resume(self) -> None:
        """Go on syncing."""
        self._turn.release()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._thread.join()
