"""Files of records, and their cutting into splits that are read independently.

A split of a plain file is a range of bytes; it has the lines that begin in
``[start, end)``. A split of a zstd file is a range of whole frames; as the text
before it is unknown, it has the lines that begin in ``(start, end]`` of the text
(for the first split also the one at its start). Either way every line is in
exactly one split, wherever the cuts fall.
"""

from __future__ import annotations

import glob
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any

import zstandard

from quiver_fast.errors import RecordError, UsageError
from quiver_fast.records import formats

__all__ = [
    "RecordFile",
    "Split",
    "Text",
    "describe",
    "discover",
    "is_cut_short",
    "split_text",
    "splits_of",
]

SPLIT_SIZE = 256 << 20
# Small enough to stay in the cache between copy, parser and run-length.
_BLOCK_SIZE = 1 << 20
# A line is far shorter: what follows the end of a split is read in small steps.
_LINE_STEP = 1 << 16
_SUFFIXES = ("-transfers.csv", "-transfers.csv.zst")
_MAGIC = b"\x28\xb5\x2f\xfd"
# RFC 8878, section 3.1.2: sixteen magic numbers begin a frame without content.
_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_LARGEST_HEADER = 18

Text = Sequence[bytes | memoryview]
"""A piece of text as the buffers that it consists of, in order."""


@dataclass(frozen=True)
class RecordFile:
    """One file of records.

    Attributes:
        number: its index in the job.
        path: where every executor finds it.
        run: the run that it belongs to: its folder, relative to the path asked for.
        arrow: its name without ``-transfers.csv``; unique within the run.
        record_format: ``"v1"``, ``"v2"`` or ``"v3"``; None where no line tells it.
        operation: ``"send"`` or ``"receive"``; None likewise.
        unit: ``"ms"``, ``"us"`` or ``"ns"``.
        compressed: whether it is zstd.
    """

    number: int
    path: str
    run: str
    arrow: str
    record_format: str | None
    operation: str | None
    unit: str
    compressed: bool


@dataclass(frozen=True)
class Split:
    """The part of a file that one task reads: bytes ``start`` to ``end`` of ``file``."""

    file: RecordFile
    start: int
    end: int


def discover(paths: Iterable[str]) -> list[RecordFile]:
    """Find the files of records under ``paths``, and what each is.

    Args:
        paths: files, folders (searched throughout for ``*-transfers.csv`` and
            ``*-transfers.csv.zst``), and glob patterns of either.

    Raises:
        UsageError: nothing is there, or two files are one arrow of one run.
    """
    found: dict[tuple[str, str], RecordFile] = {}
    for root, path in _files(paths):
        run = _run(root, path)
        arrow = _arrow(path)
        if (run, arrow) in found:
            other = found[run, arrow].path
            if other == str(path):
                continue
            raise UsageError(f"'{path}' and '{other}' are both arrow '{arrow}' of run '{run}'")
        found[run, arrow] = describe(path, len(found), run, arrow)
    return list(found.values())


def describe(path: Path, number: int, run: str, arrow: str) -> RecordFile:
    """Read the beginning of a file, up to its first record, and say what the file is.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as file:
        compressed = file.read(len(_MAGIC)) == _MAGIC
    unknown = RecordFile(number, str(path), run, arrow, None, None, "ms", compressed)
    for text in split_text(Split(unknown, 0, path.stat().st_size)):
        for line in b"".join(text).splitlines(keepends=True):
            found = formats.detect(line[:-1]) if line.endswith(b"\n") else None
            if found is not None:
                unit = _unit(line[:-1], *found)
                return RecordFile(number, str(path), run, arrow, *found, unit, compressed)
    return unknown


def splits_of(file: RecordFile, size: int = SPLIT_SIZE) -> list[Split]:
    """Cut a file into splits of about ``size`` bytes of text.

    Raises:
        OSError: the file cannot be read.
        RecordError: zstd data is damaged.
    """
    if file.compressed:
        return [Split(file, start, end) for start, end in _frame_groups(file.path, size)]
    end = Path(file.path).stat().st_size
    return [Split(file, start, min(start + size, end)) for start in range(0, end, size)]


def split_text(split: Split) -> Iterator[Text]:
    """Yield the lines of a split, about a megabyte at a time.

    Every text ends with a newline, except that of the file's last line if that is
    not whole.

    Raises:
        OSError: the file cannot be read.
        RecordError: zstd data is damaged.
    """
    if split.end <= split.start:
        return
    with open(split.file.path, "rb", buffering=0) as file:
        if split.file.compressed:
            body = _frames(file, split.start, split.end)
            beyond = _frames(file, split.end, None)
        else:
            # With the byte before it, the first line shows whether it begins here.
            body = _plain(file, max(split.start - 1, 0), split.end - 1, _BLOCK_SIZE)
            beyond = _plain(file, split.end - 1, None, _LINE_STEP)
        yield from _whole_lines(body, beyond, skip=split.start > 0)


def _whole_lines(body: Iterator[bytes], beyond: Iterator[bytes], skip: bool) -> Iterator[Text]:
    """Yield the lines that begin in ``body``; the last one may end in ``beyond``."""
    whole: list[bytes | memoryview] = []
    begun = b""
    for block in body:
        first = 0
        if skip:
            first = block.find(b"\n") + 1
            if first == 0:
                continue
            skip = False
        last = block.rfind(b"\n", first) + 1
        if last == 0:
            begun += block[first:]
            continue
        # Held back until the next, so that the last line does not stand alone.
        if whole:
            yield whole
        whole = [begun, memoryview(block)[first:last]]
        begun = block[last:]
    if not skip:
        whole.append(begun + _line(beyond))
    if any(whole):
        yield whole


def _line(blocks: Iterator[bytes]) -> bytes:
    """Return the text up to the first newline, or all if there is none."""
    line = b""
    for block in blocks:
        end = block.find(b"\n") + 1
        if end > 0:
            return line + block[:end]
        line += block
    return line


def _plain(file: FileIO, start: int, end: int | None, step: int) -> Iterator[bytes]:
    position = start
    while end is None or position < end:
        file.seek(position)
        block = file.read(step if end is None else min(step, end - position))
        if not block:
            return
        position += len(block)
        yield block


def _frames(file: FileIO, start: int, end: int | None) -> Iterator[bytes]:
    """Yield the text of the frames between two positions of the file."""
    file.seek(start)
    source: Any = file if end is None else _Range(file, end - start)
    decompressor = zstandard.ZstdDecompressor()
    with decompressor.stream_reader(source, read_across_frames=True, closefd=False) as reader:
        while True:
            try:
                block = reader.read(_BLOCK_SIZE)
            except zstandard.ZstdError as error:
                raise _damaged(str(file.name), str(error)) from None
            if not block:
                return
            yield block


class _Range:
    """So many bytes of a file, from where it stands."""

    def __init__(self, file: FileIO, size: int) -> None:
        self._file = file
        self._left = size

    def read(self, size: int) -> bytes:
        data = self._file.read(min(size, self._left)) or b""
        self._left -= len(data)
        return data


def _frame_groups(path: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of neighbouring frames that hold about ``size`` bytes of text."""
    with open(path, "rb", buffering=0) as file:
        file_end = file.seek(0, 2)
        start = end = text = 0
        for frame_end, content in _walk(file):
            end = min(frame_end, file_end)
            text += content
            if text >= size:
                yield start, end
                start, text = end, 0
        if end > start:
            yield start, end


def _walk(file: FileIO) -> Iterator[tuple[int, int]]:
    """Yield, for each frame, where it ends and the bytes of text in it.

    Only headers are read (RFC 8878, sections 3.1.1 and 3.1.2). The end of a frame
    that is cut short lies behind the file's. A frame that does not say its content's
    size counts as a split of its own: such are written by one call for a whole file.
    """
    size = file.seek(0, 2)
    position = 0
    while position < size:
        file.seek(position)
        position, content = _frame(file, position, file.read(_LARGEST_HEADER))
        yield position, content


def _frame(file: FileIO, position: int, header: bytes) -> tuple[int, int]:
    if len(header) >= 8 and struct.unpack_from("<I", header)[0] in _SKIPPABLE:
        return position + 8 + int(struct.unpack_from("<I", header, 4)[0]), 0
    try:
        parameters = zstandard.get_frame_parameters(header)
        position += int(zstandard.frame_header_size(header))
    except zstandard.ZstdError as error:
        raise _damaged(str(file.name), str(error)) from None
    last = False
    while not last:
        file.seek(position)
        block = int.from_bytes(file.read(3).ljust(3, b"\1"), "little")
        last, kind, length = bool(block & 1), block >> 1 & 3, block >> 3
        # A block of one repeated byte (kind 1) gives its length decompressed.
        position += 3 + (1 if kind == 1 else length)
    known = parameters.content_size != zstandard.CONTENTSIZE_UNKNOWN
    content = parameters.content_size if known else SPLIT_SIZE
    return position + (4 if parameters.has_checksum else 0), int(content)


def is_cut_short(file: RecordFile) -> bool:
    """Say whether a zstd file ends within a frame.

    Raises:
        OSError: the file cannot be read.
    """
    if not file.compressed:
        return False
    with open(file.path, "rb", buffering=0) as opened:
        size = opened.seek(0, 2)
        return any(end > size for end, _ in _walk(opened))


def _damaged(path: str, why: str) -> RecordError:
    return RecordError(f"{path}: damaged zstd data: {why}")


def _files(paths: Iterable[str]) -> Iterator[tuple[Path, Path]]:
    """Yield (the path asked for, a file in it) in a stable order."""
    for pattern in paths:
        roots = [Path(name) for name in sorted(glob.glob(pattern))]
        if Path(pattern).exists():
            roots = [Path(pattern)]
        found = [(root, path) for root in roots for path in _files_in(root)]
        if not found:
            raise UsageError(f"no files of records at '{pattern}'")
        for root, path in found:
            yield root.resolve(), path.resolve()


def _files_in(root: Path) -> list[Path]:
    if not root.is_dir():
        return [root]
    return sorted(path for path in root.rglob("*-transfers.csv*") if path.name.endswith(_SUFFIXES))


def _run(root: Path, path: Path) -> str:
    """Return the run's name: the file's folder, seen from the folder asked for."""
    top = root if root.is_dir() else root.parent
    return path.parent.relative_to(top.parent).as_posix()


def _arrow(path: Path) -> str:
    """Return the arrow's name, which is the file's without what all have in common."""
    return path.name.removesuffix(".zst").removesuffix(".csv").removesuffix("-transfers")


def _unit(line: bytes, record_format: str, operation: str) -> str:
    """Return the unit of the time that the arrow itself took."""
    fields = line.split(b",")
    stamped_first = record_format == formats.V3 and operation == formats.SEND
    return formats.time_unit(int(fields[0] if stamped_first else fields[-1]))
