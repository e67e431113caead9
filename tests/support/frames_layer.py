"""The C that reads frames, as a separate library, with dictionaries as results."""

from __future__ import annotations

import ctypes
import os
import shlex
import subprocess
from collections.abc import Callable
from ctypes import c_bool, c_char_p, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_uint64
from pathlib import Path
from typing import Any

from buildtools import toolchain
from quiver_fast.conform.wire.frames import COMPOSITES, FIELDS, NAMES
from support.frames_twin import Head, RefusedError

SOURCE = Path(__file__).resolve().parents[2] / "src" / "quiver_fast" / "amqp"
KINDS = ("empty", "transfer", "flow", "disposition", "control")
UNKNOWN = 0xFF
# As in frames_out.h: a sanitizer sees writes past them.
FRAME_ROOM, STATE_HEAD = 96, 18


class Bytes(ctypes.Structure):
    """An amqp_bytes_t."""

    _fields_ = [("start", ctypes.c_void_p), ("size", c_size_t)]

    def value(self) -> bytes | None:
        return ctypes.string_at(self.start, self.size) if self.start else None


class CFrame(ctypes.Structure):
    """An amqp_frame_t."""

    _fields_ = [
        ("size", c_uint32), ("channel", c_uint16), ("kind", c_int), ("body", Bytes),
        ("fields", Bytes), ("code", c_int),
    ]  # fmt: skip


class CState(ctypes.Structure):
    """An amqp_state_t."""

    _fields_ = [
        ("code", c_int), ("outcome", c_int), ("encoded", Bytes), ("txn_id", Bytes),
        ("condition", Bytes), ("description", Bytes), ("delivery_failed", c_bool),
        ("undeliverable_here", c_bool), ("annotations", Bytes), ("section_number", c_uint32),
        ("section_offset", c_uint64),
    ]  # fmt: skip


class CTransfer(ctypes.Structure):
    """An amqp_transfer_t."""

    _fields_ = [
        ("handle", c_uint32), ("delivery_id", c_uint32), ("message_format", c_uint32),
        ("has_delivery_id", c_bool), ("has_message_format", c_bool), ("has_settled", c_bool),
        ("settled", c_bool), ("more", c_bool), ("has_rcv_settle_mode", c_bool),
        ("rcv_settle_mode", c_uint8), ("resume", c_bool), ("aborted", c_bool),
        ("batchable", c_bool), ("delivery_tag", Bytes), ("state", Bytes), ("payload", Bytes),
    ]  # fmt: skip


class CFlow(ctypes.Structure):
    """An amqp_flow_t."""

    _fields_ = [
        *((name, c_uint32) for name in (
            "next_incoming_id", "incoming_window", "next_outgoing_id", "outgoing_window",
            "handle", "delivery_count", "link_credit", "available")),
        *((name, c_bool) for name in (
            "has_next_incoming_id", "has_handle", "has_delivery_count", "has_link_credit",
            "has_available", "drain", "echo", "acquires")),
    ]  # fmt: skip


class CDisposition(ctypes.Structure):
    """An amqp_disposition_t."""

    _fields_ = [
        ("role", c_int), ("first", c_uint32), ("last", c_uint32), ("settled", c_bool),
        ("batchable", c_bool), ("state", CState),
    ]  # fmt: skip


class CSwift(ctypes.Structure):
    """An amqp_swift_t."""

    _fields_ = [
        ("size", c_uint32), ("channel", c_uint16), ("settled", c_bool), ("more", c_bool),
        ("handle", c_uint32), ("delivery_id", c_uint32), ("message_format", c_uint32),
        ("delivery_tag", Bytes), ("payload", Bytes),
    ]  # fmt: skip


RECORDS = {"transfer": CTransfer, "flow": CFlow, "disposition": CDisposition}


def found(record: ctypes.Structure, names: list[str]) -> dict[str, Any]:
    """Return the named fields, with bytes as bytes; missing fields are left out."""
    result: dict[str, Any] = {}
    for name in names:
        value = getattr(record, name)
        value = value.value() if isinstance(value, Bytes) else value
        if getattr(record, f"has_{name}", True) and value is not None:
            result[name] = value
    return result


def state_of(record: CState) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the fields of a state; None for null."""
    code = record.code
    if not code:
        return None
    name = "unknown" if code == UNKNOWN else NAMES[code]
    # Annotations are kept as bytes, which tests of the server look at.
    kept = [key for key, _ in FIELDS.get(name, []) if hasattr(record, key)]
    names = [key for key in kept if key != "annotations"]
    fields = found(record, names)
    if name == "rejected" and record.condition.start:
        fields["error"] = found(record, ["condition", "description"])
    if name == "transactional_state":
        del fields["outcome"]
        if record.outcome:
            inner = CState.from_buffer_copy(record)
            inner.code, inner.txn_id = record.outcome, Bytes()
            fields["outcome"] = state_of(inner)
    return name, fields


class Frames:
    """The functions of frames.h.

    Args:
        folder: the folder for the library. ``CFLAGS`` may ask for sanitizers.
    """

    def __init__(self, folder: Path) -> None:
        library = folder / "libframes.so"
        flags = ["-O2", "-g", "-std=gnu11", *shlex.split(os.environ.get("CFLAGS", ""))]
        files = [str(SOURCE / name) for name in ("values.c", "frames.c", "frames_out.c")]
        command = [*toolchain.compiler(), *flags, "-shared", "-fPIC", *files, "-o", str(library)]
        subprocess.run(command, check=True)
        self.library = ctypes.CDLL(str(library))
        self.library.amqp_condition.restype = c_char_p
        self.library.amqp_read_swift_transfer.restype = c_bool
        self.library.amqp_read_state.argtypes = [Bytes, ctypes.c_void_p]

    def check(self, fault: int) -> None:
        if fault:
            raise RefusedError(self.library.amqp_condition(fault).decode())

    def _frame(self, data: ctypes.Array[Any], limit: int) -> CFrame:
        frame = CFrame()
        size = c_size_t(len(data))
        self.check(self.library.amqp_read_frame(data, size, c_uint32(limit), ctypes.byref(frame)))
        return frame

    def head(self, data: bytes, limit: int) -> Head | None:
        """Return a frame's header and descriptor, in the form of the twin."""
        frame = self._frame(exactly(data), limit)
        return Head(frame.size, frame.channel, KINDS[frame.kind]) if frame.size else None

    def performative(self, name: str, data: bytes) -> tuple[dict[str, Any], bytes]:
        """Return the fields of a whole frame, in the form of the twin."""
        read = getattr(self.library, f"amqp_read_{name}")
        return self._performative(name, data, lambda *args: self.check(read(*args)))

    def swift_transfer(self, data: bytes, limit: int) -> tuple[Head, dict[str, Any], bytes] | None:
        """Return the fields that the short way reads; None if it refuses the frame."""
        held, record = exactly(data), CSwift()
        read = self.library.amqp_read_swift_transfer
        if not read(held, c_size_t(len(data)), c_uint32(limit), ctypes.byref(record)):
            return None
        names = ["handle", "delivery_id", "message_format", "delivery_tag", "settled", "more"]
        fields = found(record, names)
        payload = record.payload.value() or b""
        return Head(record.size, record.channel, "transfer"), fields, payload

    def _performative(
        self, name: str, data: bytes, read: Callable[..., None]
    ) -> tuple[dict[str, Any], bytes]:
        held = exactly(data)
        frame, record = self._frame(held, 2**32 - 1), RECORDS[name]()
        assert KINDS[frame.kind] == name
        read(ctypes.byref(frame), ctypes.byref(record))
        names = [key for key, _ in FIELDS[name] if hasattr(record, key)]
        fields = found(record, names)
        if name == "disposition":
            fields["state"] = state_of(record.state)
        return fields, (record.payload.value() or b"") if name == "transfer" else b""

    def rewritten(self, name: str, data: bytes) -> bytes:
        """Return a whole frame as the writer has it, after the reader."""
        held, record = exactly(data), RECORDS[name]()
        frame = self._frame(held, 2**32 - 1)
        read = getattr(self.library, f"amqp_read_{name}")
        self.check(read(ctypes.byref(frame), ctypes.byref(record)))
        out = (c_uint8 * (FRAME_ROOM + len(data)))()
        write = getattr(self.library, f"amqp_write_{name}")
        write.restype = ctypes.c_void_p
        end = write(out, c_uint16(frame.channel), ctypes.byref(record))
        payload = (record.payload.value() or b"") if name == "transfer" else b""
        return bytes(out)[: end - ctypes.addressof(out)] + payload

    def written_state(self, name: str, **fields: Any) -> bytes:
        """Return a state as the writer has it; a txn_id's bytes, and an outcome's name."""
        codes = {each: COMPOSITES[each][0] for each in (name, fields.get("outcome")) if each}
        record = CState(code=codes[name])
        for key, value in fields.items():
            if key == "txn_id":
                held = exactly(value)
                record.txn_id = Bytes(ctypes.addressof(held), len(value))
            else:
                setattr(record, key, codes[value] if key == "outcome" else value)
        out = (c_uint8 * (STATE_HEAD + len(fields.get("txn_id", b""))))()
        self.library.amqp_write_state.restype = ctypes.c_void_p
        end = self.library.amqp_write_state(out, ctypes.byref(record))
        return bytes(out)[: end - ctypes.addressof(out)]

    def state(self, data: bytes) -> tuple[str, dict[str, Any]] | None:
        """Return the state that bytes are, as the twin's function does."""
        held, record = exactly(data), CState()
        encoded = Bytes(ctypes.addressof(held), len(data))
        self.check(self.library.amqp_read_state(encoded, ctypes.byref(record)))
        return state_of(record)


def exactly(data: bytes) -> ctypes.Array[Any]:
    """Return a buffer of the exact size, so that sanitizers see a read past its end."""
    return (c_uint8 * len(data)).from_buffer_copy(data)
