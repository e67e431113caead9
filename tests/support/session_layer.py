"""The C that counts for sessions and links, and its twin, whose numbers never wrap."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from ctypes import c_bool, c_uint32
from pathlib import Path
from typing import Any

from buildtools import toolchain
from support.frames_layer import SOURCE, CFlow

MODULUS = 2**32


class CSession(ctypes.Structure):
    """An amqp_session_t."""

    _fields_ = [
        (name, c_uint32) for name in (
            "initial_outgoing_id", "next_outgoing_id", "remote_incoming_window",
            "next_incoming_id", "incoming_window", "remote_outgoing_window",
            "next_delivery_id")
    ]  # fmt: skip


class CLink(ctypes.Structure):
    """An amqp_link_t."""

    _fields_ = [
        ("initial_delivery_count", c_uint32), ("delivery_count", c_uint32),
        ("credit", c_uint32), ("available", c_uint32), ("drained", c_uint32),
        ("drain", c_bool), ("awaited", c_bool),
    ]  # fmt: skip


def compile_sessions(folder: Path) -> ctypes.CDLL:
    """Compile the C into a library of its own; ``CFLAGS`` may ask for sanitizers."""
    path = folder / "libsession.so"
    flags = ["-O2", "-g", "-std=gnu11", *shlex.split(os.environ.get("CFLAGS", ""))]
    command = [*toolchain.compiler(), *flags, "-shared", "-fPIC", str(SOURCE / "session.c")]
    subprocess.run([*command, "-o", str(path)], check=True)
    library = ctypes.CDLL(str(path))
    for name in ("session_send", "session_receive", "sender_send", "sender_drained",
                 "receiver_take_flow", "receiver_receive"):  # fmt: skip
        getattr(library, f"amqp_{name}").restype = c_bool
    return library


def flow(**fields: int | None) -> CFlow:
    """Return a flow of these fields, which may be beyond the numbers' end; None for null."""
    result = CFlow()
    for name, value in fields.items():
        if hasattr(result, f"has_{name}"):
            setattr(result, f"has_{name}", value is not None)
        if value is not None:
            setattr(result, name, bool(value) if name == "drain" else value % MODULUS)
    return result


def wrapped(twin: Any) -> dict[str, int]:
    """Return a twin's numbers in the form of the wire."""
    return {name: value % MODULUS for name, value in vars(twin).items()}


def limited(value: int) -> int:
    return min(max(value, 0), MODULUS - 1)


class TwinSession:
    """Part 2.5.6, with ids that never wrap."""

    def __init__(self, ours: int, window: int, theirs: int, peer_window: int) -> None:
        self.initial_outgoing_id = self.next_outgoing_id = ours
        self.remote_incoming_window = peer_window
        self.next_incoming_id = theirs
        self.incoming_window = window
        self.remote_outgoing_window = 0
        # Its users count it on, not these calls.
        self.next_delivery_id = 0

    def take_flow(self, seen: int | None, window: int, theirs: int, outgoing: int) -> None:
        base = self.initial_outgoing_id if seen is None else seen
        self.remote_incoming_window = limited(base + window - self.next_outgoing_id)
        self.next_incoming_id = theirs
        self.remote_outgoing_window = outgoing

    def send(self) -> bool:
        if not self.remote_incoming_window:
            return False
        self.remote_incoming_window -= 1
        self.next_outgoing_id += 1
        return True

    def receive(self) -> bool:
        if not self.incoming_window:
            return False
        self.incoming_window -= 1
        self.next_incoming_id += 1
        self.remote_outgoing_window = max(self.remote_outgoing_window - 1, 0)
        return True


class TwinSender:
    """Part 2.6.7 from the sender's side: its limit is kept, and credit follows from it."""

    def __init__(self, count: int) -> None:
        self.initial, self.count, self.limit = count, count, count
        self.answers = True

    @property
    def credit(self) -> int:
        return limited(self.limit - self.count)

    def take_flow(self, seen: int | None, credit: int | None, drain: bool) -> None:
        self.answers = not drain
        if credit is not None:
            self.limit = (self.initial if seen is None else seen) + credit

    def send(self) -> bool:
        sends = self.credit > 0
        self.count += sends
        return sends

    def drained(self) -> bool:
        if self.answers:
            return False
        self.count, self.answers = max(self.limit, self.count), True
        return True


class TwinReceiver:
    """Part 2.6.7 from the receiver's side."""

    def __init__(self, count: int) -> None:
        self.count, self.limit, self.available, self.drained = count, count, 0, 0

    @property
    def credit(self) -> int:
        return self.limit - self.count

    def take_flow(self, count: int | None, available: int | None) -> bool:
        self.available = self.available if available is None else available
        if count is None:
            return True
        if not self.count <= count <= self.limit:
            return False
        self.drained += count - self.count
        self.count = count
        return True

    def receive(self) -> bool:
        if not self.credit:
            return False
        self.count += 1
        self.available = max(self.available - 1, 0)
        return True
