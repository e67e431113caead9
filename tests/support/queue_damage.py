"""Cycle files of several kinds, and damage done to them anywhere."""

from __future__ import annotations

import functools
import random
import struct
from dataclasses import dataclass

from hypothesis import strategies as st

from quiver_fast.queuefile.layout import ROLL_CYCLES
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
