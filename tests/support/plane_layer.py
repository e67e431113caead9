"""The data plane's C as a separate library, with values of Python as results."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_uint16, c_uint32, c_uint64
from pathlib import Path
from typing import Any, NamedTuple

from buildtools import toolchain
from quiver_fast.conform.wire.frames import NAMES
from support.frames_layer import SOURCE, Bytes
from support.session_layer import CSession

OURS, THEIRS = 0, 1
KINDS = ("nothing", "arrival", "outcome", "credit", "engine", "refused", "memory", "dropped",
         "ending")  # fmt: skip
EXTENTS = ("link", "session", "connection")
UNKNOWN = 0xFF


class CParts(ctypes.Structure):
    """An iovec."""

    _fields_ = [("base", ctypes.c_void_p), ("size", c_size_t)]


SINK = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_void_p, POINTER(CParts), c_int)
RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class CHold(ctypes.Structure):
    """An amqp_hold_t."""

    _fields_ = [("users", c_uint32), ("release", RELEASE)]


class CEvent(ctypes.Structure):
    """A door_event_t."""

    _fields_ = [
        ("kind", c_int), ("channel", c_uint32), ("handle", c_uint32), ("has_link", c_bool),
        ("delivery_id", c_uint32), ("message_format", c_uint32),
        *((name, c_bool) for name in ("first", "more", "aborted", "settled")),
        ("tag", Bytes), ("payload", Bytes), ("control", Bytes), ("role", c_int),
        ("first_id", c_uint32), ("last_id", c_uint32), ("code", c_int), ("outcome", c_int),
        ("txn_id", Bytes), ("extent", c_int), ("condition", c_char_p),
    ]  # fmt: skip


class CLinkEnd(ctypes.Structure):
    """A door_link_t."""

    _fields_ = [
        ("role", c_int), ("phase", c_int * 2), ("handle", c_uint32 * 2),
        ("max_message_size", c_uint64 * 2), ("delivery_count", c_uint32), ("credit", c_uint32),
        ("drain", c_bool),
    ]  # fmt: skip


class Event(NamedTuple):
    """The plane's events for one or more frames."""

    kind: str
    fields: dict[str, Any]


def name_of(code: int) -> str | None:
    return NAMES.get(code, "unknown") if code else None


def compile_plane(folder: Path) -> ctypes.CDLL:
    """Compile the C and the tests' door; ``CFLAGS`` may ask for sanitizers."""
    path = folder / "libplane.so"
    files = [file for file in sorted(SOURCE.glob("*.c")) if not file.name.startswith("tls_")]
    files.append(Path(__file__).with_name("plane_door.c"))
    flags = ["-O2", "-g", "-std=gnu11", f"-I{SOURCE}", *shlex.split(os.environ.get("CFLAGS", ""))]
    command = [*toolchain.compiler(), *flags, "-shared", "-fPIC", *map(str, files)]
    subprocess.run([*command, "-o", str(path)], check=True)
    library = ctypes.CDLL(str(path))
    for name in ("door_new", "door_output_new", "door_output", "amqp_index_find",
                 "door_deliveries_new"):  # fmt: skip
        getattr(library, name).restype = ctypes.c_void_p
    for name in ("door_link", "door_session", "door_drain", "door_credit", "door_answer_run",
                 "door_output_add", "door_output_refer", "amqp_index_add", "door_arrive",
                 "door_keep", "door_current", "door_deliveries_free", "door_send_whole",
                 "amqp_timers_is_silent", "amqp_timers_owes", "amqp_unsettled_init",
                 "amqp_read_content", "amqp_plane_beat"):  # fmt: skip
        getattr(library, name).restype = c_bool
    for name in ("amqp_timers_next", "amqp_wait_span"):
        getattr(library, name).restype = ctypes.c_int64
    library.door_fill.restype = library.door_send.restype = ctypes.c_ssize_t
    library.door_read.restype = library.door_capacity.restype = c_size_t
    library.door_state_room.restype = c_size_t
    library.door_walk.restype = c_uint32
    library.door_output_waiting.restype = library.door_stamp.restype = c_size_t
    return library


class Output:
    """An amqp_output_t.

    Args:
        library: see `compile_plane`.
        pointer: one that is somebody else's; without it the output is its own.
    """

    def __init__(self, library: ctypes.CDLL, pointer: int | None = None) -> None:
        self.library = library
        self.is_own = pointer is None
        self.pointer = ctypes.c_void_p(pointer or library.door_output_new())

    def add(self, data: bytes) -> None:
        assert self.library.door_output_add(self.pointer, data, c_size_t(len(data)))

    def refer(self, data: ctypes.Array[Any], hold: CHold | None) -> None:
        held = byref(hold) if hold is not None else None
        assert self.library.door_output_refer(self.pointer, data, c_size_t(len(data)), held)

    def lend(self, data: ctypes.Array[Any]) -> None:
        assert self.library.door_output_lend(self.pointer, data, c_size_t(len(data)))

    def keep(self, hold: CHold | None = None) -> None:
        """Copy the unsent bytes of a hold's payloads, or of lent ones."""
        held = byref(hold) if hold is not None else ctypes.c_void_p(1)
        assert self.library.amqp_output_keep(self.pointer, held)

    @property
    def waiting(self) -> int:
        return int(self.library.door_output_waiting(self.pointer))

    def write(self, limit: int) -> tuple[int, bytes]:
        """Write to a sink that takes ``limit`` bytes at most; return the result and the bytes."""
        taken = bytearray()

        def take(_: Any, parts: Any, count: int) -> int:
            assert count > 0
            given = b"".join(ctypes.string_at(parts[i].base, parts[i].size) for i in range(count))
            fresh = given[: limit - len(taken)]
            taken.extend(fresh)
            return len(fresh)

        result = self.library.amqp_output_write(self.pointer, SINK(take), None)
        return int(result), bytes(taken)

    def free(self) -> None:
        if self.is_own:
            self.library.door_output_free(self.pointer)


class Plane:
    """An amqp_plane_t.

    Args:
        library: see `compile_plane`.
        max_frame_size: the largest frame that it takes.
        seed: of its index.
        lenient: take deliveries beyond the credit.
    """

    def __init__(
        self, library: ctypes.CDLL, max_frame_size: int = 65536, seed: int = 1, *,
        lenient: bool = False,
    ) -> None:  # fmt: skip
        self.library = library
        made = library.door_new(c_uint32(max_frame_size), c_uint64(seed), lenient)
        self.pointer = ctypes.c_void_p(made)
        self.output = Output(library, library.door_output(self.pointer))

    def take(self, data: bytes, chunk: int = 65536) -> list[Event]:
        """Give bytes, ``chunk`` at a time; return the events up to a refusal."""
        events: list[Event] = []
        while data:
            piece = data[:chunk]
            taken = self.library.door_fill(self.pointer, piece, c_size_t(len(piece)))
            assert taken > 0
            data = data[taken:]
            while (event := self.next()).kind != "nothing":
                if event.kind in ("dropped", "ending"):
                    continue
                events.append(event)
                if event.kind in ("refused", "memory"):
                    return events
        return events

    def secure(self) -> None:
        """Say that SASL has succeeded."""
        self.library.amqp_plane_secure(self.pointer)

    def hold(self, held: bool) -> None:
        """Say whether an answer is owed within SASL."""
        self.library.door_hold(self.pointer, c_bool(held))

    def beat(self) -> bool:
        return bool(self.library.amqp_plane_beat(self.pointer))

    def next(self) -> Event:
        record = CEvent()
        self.library.door_next(self.pointer, byref(record))
        kind = KINDS[record.kind]
        return Event(kind, self.fields(kind, record))

    def fields(self, kind: str, record: CEvent) -> dict[str, Any]:
        if kind == "engine":
            return {"bytes": record.control.value()}
        if kind == "refused":
            condition = record.condition.decode()
            return {"extent": EXTENTS[record.extent], "condition": condition}
        found: dict[str, Any] = {"channel": record.channel}
        if record.has_link:
            found["handle"] = record.handle
        if kind == "arrival":
            names = ["delivery_id", "message_format", "first", "more", "aborted", "settled"]
            found |= {name: getattr(record, name) for name in names}
            found |= {"payload": record.payload.value() or b"", "tag": record.tag.value()}
        if kind == "outcome":
            found |= {"role": bool(record.role), "first": record.first_id}
            found |= {"last": record.last_id, "settled": record.settled}
            found |= {"code": name_of(record.code), "outcome": name_of(record.outcome)}
            found["txn_id"] = record.txn_id.value()
        return found

    def drain(self, data: bytes) -> bool:
        """Give the plane the engine's bytes."""
        return bool(self.library.door_drain(self.pointer, data, c_size_t(len(data))))

    def credit(self, channel: int, handle: int, more: int, *, drain: bool = False) -> bool:
        numbers = c_uint16(channel), c_uint32(handle), c_uint32(more), c_bool(drain)
        return bool(self.library.door_credit(self.pointer, *numbers))

    def answer_run(self, channel: int, first: int, last: int) -> bool:
        numbers = c_uint16(channel), c_uint32(first), c_uint32(last)
        return bool(self.library.door_answer_run(self.pointer, *numbers))

    def link(self, side: int, channel: int, handle: int) -> CLinkEnd | None:
        found = CLinkEnd()
        numbers = c_int(side), c_uint16(channel), c_uint32(handle)
        return found if self.library.door_link(self.pointer, *numbers, byref(found)) else None

    def session(self, side: int, channel: int) -> CSession | None:
        found = CSession()
        numbers = c_int(side), c_uint16(channel)
        return found if self.library.door_session(self.pointer, *numbers, byref(found)) else None

    @property
    def capacity(self) -> int:
        """The size of its input buffer."""
        return int(self.library.door_capacity(self.pointer))

    def kept(self) -> tuple[int, int]:
        """Return how many sessions and links it knows."""
        sessions, links = c_uint32(), c_uint32()
        self.library.door_kept(self.pointer, byref(sessions), byref(links))
        return sessions.value, links.value

    def free(self) -> None:
        self.library.door_free(self.pointer)
