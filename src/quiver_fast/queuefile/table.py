"""The table of a queue, ``metadata.cq4t``: its roll cycle and a few shared words (A.9)."""

from __future__ import annotations

import errno
import logging
import os
import re
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.create import create_complete
from quiver_fast.queuefile.layout import ROLL_CYCLES, RollCycle, table_document, word_document
from quiver_fast.queuefile.mapped import Mapped
from quiver_fast.queuefile.tablehead import (
    HEAD_MAX,
    find_head,
    find_roll_near,
    read_epoch,
    read_pattern,
    read_roll,
)

LOG = logging.getLogger(__name__)

TABLE_NAME = "metadata.cq4t"
TABLE_SIZE = 131072
# A truncated table has no room for the keys.
TABLE_MIN = 4096
# This part of a table is allocated on disk: all of the page with the keys.
ALLOCATED = max(TABLE_MIN, os.sysconf("SC_PAGE_SIZE"))
# A lock word that nobody holds, and listings of an empty directory.
FREE = -(1 << 63)
NO_HIGHEST, NO_LOWEST = -(1 << 31), (1 << 31) - 1

DEFAULTS = {
    "listing.highestCycle": NO_HIGHEST,
    "listing.lowestCycle": NO_LOWEST,
    "listing.modCount": 0,
    "chronicle.write.lock": FREE,
    "chronicle.append.lock": FREE,
    "chronicle.lastIndexReplicated": -1,
    "chronicle.lastAcknowledgedIndexReplicated": -1,
    "chronicle.lastIndexMSynced": -1,
    "quiver.bootId": 0,
    "quiver.clean": 0,
}
# A key: code of an event's name, length, name; then pad and code of its word (A.3).
EVENT = b"\xb9"
WORD = re.compile(rb"(?:\x8f{0,4}|\x8e[\0-\x03]\0{3,6})\xa7")
# The most damaged letters in a key's name.
LETTERS_MAX = 2


def cycles_in(directory: Path, roll: RollCycle) -> list[int]:
    """Return the cycles that have a file, oldest first.

    Folders do not count, whatever their name: one may be another queue's folder (`strays_in`).
    """
    with os.scandir(directory) as entries:
        found = [roll.cycle_of(entry.name) for entry in entries if entry.is_file()]
    return sorted(cycle for cycle in found if cycle is not None)


def strays_in(directory: Path, roll: RollCycle) -> list[tuple[Path, str]]:
    """Return what has the name of a cycle's file and is none, with a word of what it is.

    Writers and servers go on without it; entries may be missing.
    """
    with os.scandir(directory) as entries:
        found = [
            Path(entry.path)
            for entry in entries
            if roll.cycle_of(entry.name) is not None and not entry.is_file()
        ]
    return [(path, _kind_of(path)) for path in sorted(found) if not (path / TABLE_NAME).is_file()]


def _kind_of(path: Path) -> str:
    if path.is_dir():
        return "a folder"
    return "a special file" if path.exists() else "a link to a file that is not there"


def find_roll(directory: Path, otherwise: RollCycle) -> RollCycle:
    """Return the roll cycle of an existing queue: from its table, else from its file names.

    Raises:
        OutputError: it is unknown; using another would lose entries.
    """
    path = directory / TABLE_NAME
    head = _beginning(path)
    try:
        roll = read_roll(head)
    except ValueError as error:
        raise OutputError(f"{path}: {error}") from None
    named = next((roll for roll in ROLL_CYCLES.values() if cycles_in(directory, roll)), None)
    if roll is None:
        roll = _roll_of_damaged(path, head, named)
    # A wrong roll cycle would make the queue look empty.
    if roll and roll.epoch_ms and named and not cycles_in(directory, roll):
        raise OutputError(f"{path}: the epoch {roll.epoch_ms} is later than the files")
    return roll or otherwise


def _roll_of_damaged(path: Path, head: bytes, named: RollCycle | None) -> RollCycle | None:
    """Return the roll cycle of a queue with an unreadable table; None if it is unknown.

    Args:
        path: the table.
        head: its first bytes.
        named: the roll cycle by the names of the files.
    """
    pattern = read_pattern(head)
    if named is None and pattern is not None:
        raise OutputError(f"{path}: roll cycle {pattern} is not supported")
    entries = path.parent.iterdir()
    if named is None and any(entry.suffix == ".cq4" and entry.is_file() for entry in entries):
        raise OutputError(f"{path.parent}: the names of its files are of no supported roll cycle")
    roll = find_roll_near(head, [named] if named else ROLL_CYCLES.values())
    if roll is None and named is not None:
        roll = replace(named, epoch_ms=read_epoch(head))
    return roll


def _beginning(path: Path) -> bytes:
    """Return a table's first bytes; none if there is no readable table."""
    try:
        with path.open("rb") as stream:
            return stream.read(HEAD_MAX)
    except OSError:
        return b""


@dataclass(frozen=True)
class Key:
    """A key of a table, and its word.

    Attributes:
        event: the key's bytes in the table: code, length and name.
        name: its name.
        at: the offset of its value.
        value: its value.
    """

    event: bytes
    name: str
    at: int
    value: int


def _key_at(data: bytes, at: int) -> Key | None:
    """Return the key whose document begins at an offset; None if it is damaged."""
    start = at + 4
    if data[start : start + 1] != EVENT or start + 3 > len(data):
        return None
    size, name_at = data[start + 1], start + 2
    if size & 0x80:
        # Java encodes the length with 7 bits a byte.
        size, name_at = size & 0x7F | data[start + 2] << 7, start + 3
    word = WORD.match(data, name_at + size)
    if word is None or word.end() % 8 or word.end() + 8 > len(data):
        return None
    (header,) = struct.unpack_from("<I", data, at)
    if header != word.end() + 8 - start:
        return None
    (value,) = struct.unpack_from("<q", data, word.end())
    name = data[name_at : name_at + size]
    return Key(data[start:name_at] + name, name.decode("utf-8", "replace"), word.end(), value)


def _next_key(data: bytes, at: int) -> int:
    """Return the offset of the first undamaged key from an offset on; the end without one."""
    for place in range(at, len(data) - 4, 4):
        if data[place + 4] == EVENT[0] and _key_at(data, place) is not None:
            return place
    return len(data)


def _read_keys(data: bytes, at: int) -> tuple[list[Key], int, int | None]:
    """Return the keys from an offset on, their end, and the offset of damage, if any."""
    keys: list[Key] = []
    damaged_at = None
    while at + 4 <= len(data):
        key = _key_at(data, at)
        if key is not None:
            keys.append(key)
            at = key.at + 8
        elif data.count(0, at) == len(data) - at:
            break
        else:
            # Only the documents before the next undamaged key are lost.
            damaged_at = at if damaged_at is None else damaged_at
            at = _next_key(data, at + 4)
    return keys, at, damaged_at


def _named_right(keys: list[Key]) -> tuple[list[Key], int | None]:
    """Repair damaged names; return the keys, and the offset of the first damaged name."""
    missing = set(DEFAULTS) - {key.name for key in keys}
    right = []
    damaged_at = None
    for key in keys:
        name = next((name for name in missing if _nearly(key.name, name)), None)
        if name is not None:
            missing.discard(name)
            damaged_at = key.at if damaged_at is None else damaged_at
            key = replace(key, name=name, event=key.event[: -len(name)] + name.encode())
        right.append(key)
    return right, damaged_at


def _nearly(name: str, other: str) -> bool:
    """Say whether a name may be another name with damaged letters."""
    if len(name) != len(other):
        return False
    return sum(one != two for one, two in zip(name, other, strict=True)) <= LETTERS_MAX


class Table:
    """The words that readers and writers of one queue share, in any process.

    Args:
        directory: the queue's.
        roll: its roll cycle, for a missing or unreadable table, which is made anew.

    Attributes:
        changed: whether a word was set since the last sync.

    Raises:
        OutputError: the table cannot be written.
    """

    def __init__(self, directory: Path, roll: RollCycle) -> None:
        self._path = path = directory / TABLE_NAME
        try:
            keys_at = _make_sound(path, roll)
            self.resume()
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from None
        keys, free, _ = _read_keys(bytes(self._data), keys_at)
        # Java uses the first of several keys with the same name.
        self._offsets = {key.name: key.at for key in reversed(keys)}
        self._add_missing(free)
        self.changed = True

    def _add_missing(self, at: int) -> None:
        """Add the keys that a table made by Java lacks, from the free offset ``at`` on."""
        for key, value in DEFAULTS.items():
            if key in self._offsets:
                continue
            document, offset = table_document(at, key, value)
            if at + len(document) > len(self._data):
                raise OutputError(f"the queue's table has no room for {key}")
            self._file.publish(at, document)
            self._offsets[key] = offset
            at += len(document)

    def __getitem__(self, key: str) -> int:
        return self._file.load(self._offsets[key])

    def __setitem__(self, key: str, value: int) -> None:
        self._file.store(self._offsets[key], value)
        self.changed = True

    def list_cycles(self, cycles: list[int]) -> None:
        """Set the listing words to the cycles that have a file."""
        highest = cycles[-1] if cycles else NO_HIGHEST
        lowest = cycles[0] if cycles else NO_LOWEST
        if (self["listing.highestCycle"], self["listing.lowestCycle"]) != (highest, lowest):
            self["listing.highestCycle"] = highest
            self["listing.lowestCycle"] = lowest
            self["listing.modCount"] += 1

    def sync(self) -> None:
        """Sync the table."""
        # A word that is set meanwhile may miss this sync.
        self.changed = False
        self._file.flush()

    def resume(self) -> None:
        """Map the table, also again after `close`.

        Raises:
            OSError: it cannot be mapped.
        """
        self._file = Mapped(self._path)
        self._data = memoryview(self._file)
        if len(self._data) < TABLE_MIN:
            # Another process has cut it.
            self.close()
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def close(self) -> None:
        """Unmap the table."""
        self._data.release()
        self._file.close()


def _make_sound(path: Path, roll: RollCycle) -> int:
    """Make a missing table, or mend a damaged one; return the offset of its keys.

    All readable parts stay: the head with fields of other writers, and each key.
    """
    content = path.read_bytes() if path.exists() else b""
    head = find_head(content, roll)
    keys, _, lost_at = _read_keys(content, len(head.content))
    keys, misnamed_at = _named_right(keys)
    damage = [at for at in (head.damaged_at, misnamed_at, lost_at) if at is not None]
    if not damage and len(content) >= TABLE_MIN:
        _allocate(path, len(content))
        return len(head.content)
    anew = bytearray(head.content)
    for key in keys:
        anew += word_document(len(anew), key.event, key.value)[0]
    create_complete(path, bytes(anew.ljust(ALLOCATED, b"\0")), max(TABLE_SIZE, len(content)))
    if content:
        LOG.warning("%s: damaged at %d, and mended; it keeps %d keys",
                    path, min(damage, default=len(content)), len(keys))  # fmt: skip
    return len(head.content)


def _allocate(path: Path, size: int) -> None:
    """Allocate a table's first page: a system of smaller pages may have left a hole in it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.posix_fallocate(descriptor, 0, min(size, ALLOCATED))
    finally:
        os.close(descriptor)
