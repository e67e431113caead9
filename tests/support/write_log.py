"""A server's writes to its store, recorded by `tests/faults/write_log.c`, and the possible states
after a power loss.

Until a sync of a file is done, each of its pages, and its size, may be on disk in any state since
the last sync, independently of the other pages. Names in a folder since its last sync may be
missing, the later ones first.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

PAGE = 4096
HEAD = struct.Struct("<cIQI")
# Chooses how many of so many changes reached the disk.
Choose = Callable[[int], int]


@dataclass(frozen=True)
class Record:
    """One thing that happened; `end` is the length of the log after it."""

    kind: bytes
    file: int
    number: int
    content: bytes
    end: int


def read_log(path: Path) -> list[Record]:
    """Read a log, up to a record that a kill cut short."""
    data = path.read_bytes()
    records, at = [], 0
    while at + HEAD.size <= len(data):
        kind, file, number, size = HEAD.unpack_from(data, at)
        at += HEAD.size
        if at + size > len(data):
            break
        records.append(Record(kind, file, number, data[at : at + size], at + size))
        at += size
    return records


@dataclass
class Changes:
    """Successive values of one thing; those before `safe` are overwritten for good."""

    values: list[bytes | int | None] = field(default_factory=list)
    safe: int = 0

    def chosen(self, choose: Choose) -> bytes | int | None:
        """Return the value that is on disk, None if there is none."""
        count = self.safe + choose(len(self.values) - self.safe)
        return self.values[count - 1] if count else None


@dataclass
class File:
    """A file's pages and sizes, with their changes."""

    pages: dict[int, Changes] = field(default_factory=lambda: defaultdict(Changes))
    size: Changes = field(default_factory=Changes)
    # By number of a sync that began: how many changes each had.
    begun: dict[int, dict[int, int]] = field(default_factory=dict)

    def write(self, at: int, content: bytes) -> None:
        while content:
            page, offset = divmod(at, PAGE)
            part = content[: PAGE - offset]
            values = self.pages[page].values
            old = values[-1] if values else bytes(PAGE)
            assert isinstance(old, bytes)
            values.append(old[:offset] + part + old[offset + len(part) :])
            at += len(part)
            content = content[len(part) :]

    def sync_begins(self, number: int) -> None:
        counts = {page: len(changes.values) for page, changes in self.pages.items()}
        self.begun[number] = {**counts, -1: len(self.size.values)}

    def sync_ends(self, number: int) -> None:
        for page, count in self.begun.pop(number).items():
            changes = self.size if page < 0 else self.pages[page]
            changes.safe = max(changes.safe, count)

    def content(self, choose: Choose) -> bytes:
        """Return its state on disk."""
        size = self.size.chosen(choose) or 0
        assert isinstance(size, int)
        data = bytearray(size)
        for page, changes in self.pages.items():
            value = changes.chosen(choose)
            if isinstance(value, bytes) and page * PAGE < size:
                data[page * PAGE : (page + 1) * PAGE] = value[: size - page * PAGE]
        return bytes(data)


class Disk:
    """The store's files and names after a part of a log."""

    def __init__(self, records: list[Record], store: Path) -> None:
        self.files: dict[int, File] = defaultdict(File)
        # By folder: changes of its names, and how many of them are safe.
        self.operations: dict[Path, list[tuple[bytes, Path, Path | int]]] = defaultdict(list)
        self.safe_names: dict[Path, int] = defaultdict(int)
        self.store = store
        for record in records:
            self._take(record)

    def _take(self, record: Record) -> None:
        file = self.files[record.file]
        if record.kind == b"W":
            file.write(record.number, record.content)
        elif record.kind == b"T":
            file.size.values.append(record.number)
        elif record.kind == b"B":
            file.sync_begins(record.number)
        elif record.kind == b"E":
            file.sync_ends(record.number)
        else:
            self._take_name(record)

    def _take_name(self, record: Record) -> None:
        paths = [Path(part.decode()) for part in record.content.split(b"\0")]
        folder = paths[0].parent
        if record.kind == b"F":
            self.safe_names[paths[0]] = len(self.operations[paths[0]])
        elif record.kind == b"R":
            assert paths[1].parent == folder, "a name never leaves its folder"
            self.operations[folder].append((record.kind, paths[0], paths[1]))
        else:
            self.operations[folder].append((record.kind, paths[0], record.file))

    def restore(self, to: Path, choose: Choose) -> None:
        """Write a possible state after a power loss into a folder.

        Args:
            choose: says how many of so many changes reached the disk.
        """
        self._restore_folder(self.store.parent, to.parent, choose, only=self.store)

    def _restore_folder(
        self, folder: Path, to: Path, choose: Choose, only: Path | None = None
    ) -> None:
        operations = self.operations[folder]
        safe = self.safe_names[folder]
        there: dict[Path, int | None] = {}
        for kind, path, other in operations[: safe + choose(len(operations) - safe)]:
            if kind == b"R" and path in there:
                assert isinstance(other, Path)
                there[other] = there.pop(path)
            elif kind == b"U":
                there.pop(path, None)
            elif kind == b"M":
                there[path] = None
            elif kind == b"C":
                assert isinstance(other, int)
                there[path] = other
        for path, file in there.items():
            if only not in (None, path):
                continue
            place = to / path.name
            if file is None:
                place.mkdir()
                self._restore_folder(path, place, choose)
            else:
                place.write_bytes(self.files[file].content(choose))
