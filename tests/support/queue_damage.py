"""Cycle files of several kinds, and damage done to them anywhere."""

from __future__ import annotations

import functools
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hypothesis import strategies as st

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.layout import ROLL_CYCLES
from quiver_fast.queuefile.live import (
    mark_decision,
    mark_prepared,
    mark_transaction,
    remove_entries,
)
from quiver_fast.queuefile.verify import crc32c
from support.queue_twin import END, META, NOT_READY, TwinFile, raw

ROLL = ROLL_CYCLES["TEST4_DAILY"]
INTACT_KINDS = 5

# Before the damage


@functools.cache
def intact(kind: int) -> bytes:
    """A file of some kind, as its writer left it."""
    generator = random.Random(kind)
    twin = TwinFile(ROLL)
    summed = len(twin.data)
    for number in range([0, 3, 140, 700, 300][kind]):
        twin.write(entry(generator, number))
        if generator.random() < 0.05:
            twin.write(b"\xb9\x01a\x82\x03\0\0\0", meta=True)
        if kind != 3 and generator.random() < 0.03:
            twin.write(checkpoint(bytes(twin.data), summed, twin.sequence), meta=True)
            summed = len(twin.data)
    return twin.finish(end=kind == 4)


def entry(generator: random.Random, number: int) -> bytes:
    body = b"%d " % number + b"t" * generator.randrange(60)
    return raw(body) if generator.random() < 0.3 else body


def checkpoint(data: bytes, at: int, entries: int) -> bytes:
    value, start = 0, at
    while at < len(data):
        (header,) = struct.unpack_from("<I", data, at)
        content = data[at : at + 4 + (header & 0x3FFFFFFF)]
        if content[4:11] != b"\xb9\x05index":
            value = crc32c(content, value)
        at = (at + len(content) + 3) & ~3
    return b"checkpoint: { seq: %d, pos: %d, crc32c: %08x }" % (entries, start, value)


# Damage: each takes the file and changes it; places are shares of it


def offsets(data: bytes) -> list[int]:
    found, at = [], 0
    while at + 4 <= len(data) and (header := struct.unpack_from("<I", data, at)[0]) not in (0, END):
        found.append(at)
        at = (at + 4 + (header & 0x3FFFFFFF) + 3) & ~3
    return [*found, at]


@dataclass(frozen=True)
class Damage:
    kind: str
    place: float
    value: int

    def do(self, data: bytearray) -> None:
        if data:
            getattr(self, self.kind)(data, int(self.place * len(data)))

    def near(self, data: bytearray) -> int:
        """The offset of a document, of the tail at last."""
        found = [at for at in offsets(data) if at + 8 <= len(data)] or [0]
        return found[int(self.place * len(found))]

    def flip(self, data: bytearray, at: int) -> None:
        data[at] ^= 1 << self.value % 8

    def flip_in_head(self, data: bytearray, at: int) -> None:
        data[at % min(200, len(data))] ^= 1 << self.value % 8

    def flip_in_index(self, data: bytearray, at: int) -> None:
        data[(200 + at % 640) % len(data)] ^= 1 << self.value % 8

    def flip_in_header(self, data: bytearray, at: int) -> None:
        at = self.near(data) + self.value // 8 % 4
        data[at % len(data)] ^= 1 << self.value % 8

    def flip_in_pad(self, data: bytearray, at: int) -> None:
        data[self.near(data) - 1] ^= 1 << self.value % 8

    def header(self, data: bytearray, at: int) -> None:
        at = self.near(data)
        if at + 4 > len(data):
            return
        (header,) = struct.unpack_from("<I", data, at)
        length = header & 0x3FFFFFFF
        headers = [
            0, END, NOT_READY, META, NOT_READY | length, NOT_READY | META | length,
            META | length, length, 0x3FFFFFFF, NOT_READY | 1, length + 4,
        ]  # fmt: skip
        struct.pack_into("<I", data, at, headers[self.value % len(headers)])

    def zero(self, data: bytearray, at: int) -> None:
        at &= ~63
        end = min(at + 64 * (1 + self.value % 40), len(data))
        data[at:end] = bytes(end - at)

    def noise(self, data: bytearray, at: int) -> None:
        content = random.Random(self.value).randbytes(1 + self.value % 60)
        data[at : at + len(content)] = content[: len(data) - at]

    def word(self, data: bytearray, at: int) -> None:
        """An aligned word, mostly a slot, that names something else."""
        places = offsets(data)
        words = [places[self.value % len(places)], self.value % len(data) & ~3, self.value, 0]
        at = (at % 1200 if self.value & 4 else at) & ~7
        if at + 8 <= len(data):
            struct.pack_into("<q", data, at, words[self.value % len(words)])

    def cut(self, data: bytearray, at: int) -> None:
        del data[at:]

    def cut_near(self, data: bytearray, at: int) -> None:
        del data[self.near(data) + self.value % 9 :]

    def dirt(self, data: bytearray, at: int) -> None:
        data += random.Random(self.value).randbytes(self.value % 9000)

    def room(self, data: bytearray, at: int) -> None:
        data += bytes(self.value % 9000)


KINDS = [name for name in vars(Damage) if callable(getattr(Damage, name)) and name[0] != "_"]
KINDS = [name for name in KINDS if name not in ("do", "near")]
DAMAGES = st.lists(
    st.builds(Damage, st.sampled_from(KINDS), st.floats(0, 0.999999), st.integers(0, 1 << 40)),
    min_size=1,
    max_size=4,
)


# Every kind of record that a server reads at its start

MESSAGE = b"\x00\x53\x70\xc0\x02\x01\x41\x00\x53\x77\xa1\x03abc"
# With a time to live: it has a state.
MORTAL = (
    b"\x00\x53\x70\xc0\x08\x03\x41\x40\x70"
    + struct.pack(">I", 4_000_000)
    + b"\x00\x53\x77\xa1\x01x"
)
HOME = "home"


def state(index: int, end: int, failures: int) -> bytes:
    numbers = struct.pack("<QQQ", index, end, failures)
    return b"\xb9\x0cquiver.state\x82" + struct.pack("<I", 1 + len(numbers)) + b"\x8a" + numbers


def part(chain: int, number: int, ending: int, content: bytes) -> bytes:
    named = struct.pack("<QII", chain, number, ending) + content
    return b"\xb9\x0bquiver.part\x82" + struct.pack("<I", 1 + len(named)) + b"\x8a" + named


def write_records(directory: Path) -> list[int]:
    """Make a queue with each kind of record; return the indexes of its live entries."""
    with Appender(directory, roll=ROLL.name) as appender:
        indexes = [appender.append_raw(MESSAGE) for _ in range(8)]
        mortal = appender.append_raw(MORTAL)
        appender.append_meta_data(state(mortal, 1 << 42, 3))
        remove_entries(appender, [indexes[0], indexes[2], indexes[3]])
        mark_transaction(appender, "begin")
        kept = appender.append_raw(MESSAGE)
        remove_entries(appender, [indexes[1]])
        mark_transaction(appender, "commit")
        mark_transaction(appender, "begin")
        appender.append_raw(MESSAGE)
        mark_transaction(appender, "rollback")
        mark_transaction(appender, "begin")
        decided = appender.append_raw(MESSAGE)
        mark_prepared(appender, 7, HOME)
        mark_decision(appender, 7)
        appender.append_meta_data(part(5, 0, 0, MESSAGE[:10]))
        appender.append_meta_data(part(5, 1, 1, MESSAGE[10:]))
        named = struct.pack("<QIIQ", 5, 2, 0, len(MESSAGE))
        long = appender.append_raw(b"\xffquiver\x02" + named + MESSAGE)
        mark_transaction(appender, "begin")
        appender.append_raw(MESSAGE)
        mark_prepared(appender, 8, HOME)
    return [*indexes[4:], mortal, kept, decided, long]


def flips(data: bytes, stride: int = 1) -> Iterator[bytes]:
    """Yield a file's bytes with one bit of a record, or of its header, the other way.

    Args:
        data: the file.
        stride: from one bit to the next.
    """
    begin = next(at for at in offsets(data) if data[at + 3] & 0xC0 == 0)
    for bit in range(8 * begin, 8 * offsets(data)[-1], stride):
        yield data[: bit >> 3] + bytes([data[bit >> 3] ^ 1 << (bit & 7)]) + data[(bit >> 3) + 1 :]
