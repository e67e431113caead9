"""The table of a queue, ``metadata.cq4t``: its roll cycle and a few shared words (A.9)."""

from __future__ import annotations

import os
import re
import struct
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.create import create_complete
from quiver_fast.queuefile.layout import ROLL_CYCLES, RollCycle, table_document, table_head
from quiver_fast.queuefile.mapped import Mapped

__all__ = ["FREE", "TABLE_NAME", "Table", "cycles_in", "find_roll"]

TABLE_NAME = "metadata.cq4t"
TABLE_SIZE = 131072
# A table that was cut has no room for the keys.
TABLE_MIN = 4096
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
# The first document of a table, of any roll cycle (A.9).
HEAD_MAX = 512
TABLE_HEAD = re.compile(
    rb".[\0\x01]\0\x40\xb9\x06header\xb6\x07STStore.*?"
    rb"(?P<roll>\xc6length(?:\xa1.|\xa2..|\xa5..|\xa6....)"
    rb"\xc6format[\xe0-\xff](?P<pattern>[ -~]*)\xc5epoch(?:\xa1.|\xa2..|\xa5..|\xa6....))",
    re.DOTALL,
)


def cycles_in(directory: Path, roll: RollCycle) -> list[int]:
    """Return the cycles that have a file, oldest first.

    What is no file is not the queue's, whatever its name: it may be another queue's folder.
    """
    with os.scandir(directory) as entries:
        found = [roll.cycle_of(entry.name) for entry in entries if entry.is_file()]
    return sorted(cycle for cycle in found if cycle is not None)


def find_roll(directory: Path, otherwise: RollCycle) -> RollCycle:
    """Return the roll cycle of an existing queue: of its table, else of its file names.

    Raises:
        OutputError: it is one that we do not know; to take another would lose entries.
    """
    path = directory / TABLE_NAME
    setting = _setting_of(path)
    for roll in ROLL_CYCLES.values():
        if setting is not None and setting["roll"] in table_head(roll):
            return roll
    for roll in ROLL_CYCLES.values():
        if cycles_in(directory, roll):
            return roll
    if setting is not None:
        pattern = setting["pattern"].decode()
        raise OutputError(f"{path}: roll cycle {pattern} is not supported")
    return otherwise


def _setting_of(path: Path) -> re.Match[bytes] | None:
    """Return what a table says of the roll cycle; None if there is no readable table."""
    try:
        with path.open("rb") as stream:
            head = stream.read(HEAD_MAX)
    except OSError:
        return None
    return TABLE_HEAD.match(head)


def _documents(data: bytes) -> tuple[dict[str, int], int, bool]:
    """Return the offset of each key's value, that of what is free, and whether all is sound."""
    offsets: dict[str, int] = {}
    at = 0
    while at + 4 <= len(data):
        (header,) = struct.unpack_from("<I", data, at)
        value = at + 4 + (header & 0x3FFFFFFF) - 8
        if header == 0:
            return offsets, at, data[at:].count(0) == len(data) - at
        if header & 0x80000000 or value + 8 > len(data):
            return offsets, at, False
        if not header & 0x40000000:
            # A key's event, then its aligned word (A.3).
            if value < at + 8 or value % 8 or (data[at + 4], data[value - 1]) != (0xB9, 0xA7):
                return offsets, at, False
            name = data[at + 6 : at + 6 + data[at + 5]].decode("ascii", "replace")
            offsets[name] = value
        at = (value + 8 + 3) & ~3
    return offsets, at, False


class Table:
    """The words that readers and writers of one queue share, in any process.

    Args:
        directory: the queue's.
        roll: its roll cycle, for a table that is missing or unreadable and is made anew.

    Attributes:
        changed: a word was set since the last sync.

    Raises:
        OutputError: the table cannot be written.
    """

    def __init__(self, directory: Path, roll: RollCycle) -> None:
        path = directory / TABLE_NAME
        try:
            _make_sound(path, roll)
            self._file = Mapped(path)
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from None
        self._data = memoryview(self._file)
        self._offsets, free, _ = _documents(bytes(self._data))
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
            # The header last: until then the space is free to every reader.
            self._data[at + 4 : at + len(document)] = document[4:]
            self._data[at : at + 4] = document[:4]
            self._offsets[key] = offset
            at += len(document)

    def __getitem__(self, key: str) -> int:
        value: int = struct.unpack_from("<q", self._data, self._offsets[key])[0]
        return value

    def __setitem__(self, key: str, value: int) -> None:
        struct.pack_into("<q", self._data, self._offsets[key], value)
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
        """Write the table to disk."""
        # A word that is set meanwhile may miss this sync.
        self.changed = False
        self._file.flush()

    def close(self) -> None:
        """Unmap the table."""
        self._data.release()
        self._file.close()


def _make_sound(path: Path, roll: RollCycle) -> None:
    """Make the table anew if there is none, or a damaged one: keys that can be read stay."""
    content = path.read_bytes() if path.exists() else b""
    found = TABLE_HEAD.match(content[:HEAD_MAX])
    offsets, _, sound = _documents(content)
    if sound and found and found["roll"] in table_head(roll) and len(content) >= TABLE_MIN:
        return
    words = {key: struct.unpack_from("<q", content, at)[0] for key, at in offsets.items()}
    anew = bytearray(table_head(roll))
    for key, value in DEFAULTS.items():
        anew += table_document(len(anew), key, words.get(key, value))[0]
    create_complete(path, bytes(anew.ljust(TABLE_SIZE, b"\0")))
