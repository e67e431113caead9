"""Compressed records in independent zstd frames, with an index, so that readers can split.

A file is

    marker | size | frame | frame | ... | index

where every frame holds whole lines, about 64 MB of them. The index is that of the zstd
seekable format: a skippable frame with the sizes of all frames, the marker among them.
The marker, a skippable frame too, says that frames end at line ends, which the seekable
format does not promise. The size is a skippable frame as well: the bytes of all lines, so that
a file that was cut tells how much is missing. Any zstd reader skips them and reads the lines.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import zstandard

from quiver_fast.records.compression import MARKER
from quiver_fast.records.sources import Place, is_compressed, open_place, open_source

if TYPE_CHECKING:
    from io import FileIO

FRAME_SIZE = 64 << 20
_LEVEL = 1
_READ_SIZE = 1 << 18

# Skippable frame: magic, size of the rest. Seekable format 0.1.0: per frame its
# compressed and decompressed size; then the number of frames, a descriptor (0: no
# checksums), and the magic that ends the file.
_SKIPPABLE = struct.Struct("<II")
_ENTRY = struct.Struct("<II")
_FOOTER = struct.Struct("<IBI")
_INDEX_MAGIC = 0x184D2A5E
# The size of all lines, behind the marker.
_SIZE_MAGIC = 0x184D2A51
_SIZE = struct.Struct("<IIQ")
_FOOTER_MAGIC = 0x8F92EAB1


@dataclass(frozen=True)
class Frame:
    """One zstd frame of whole lines.

    Attributes:
        start: its offset in the file, bytes.
        size: its compressed size, bytes.
        text_size: the size of its lines, bytes.
    """

    start: int
    size: int
    text_size: int


def write_frames(
    source: Path,
    out: BinaryIO,
    *,
    frame_size: int = FRAME_SIZE,
    progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> None:
    """Compress the lines of ``source`` into ``out`` as frames with an index.

    Memory stays constant. Nothing is written for an empty source. A last line without a
    newline stays so.

    Args:
        source: lines of text.
        out: takes the file from its present position, which is its beginning.
        frame_size: bytes of text after which a frame ends, with the line.
        progress: called with the bytes done and the bytes in all.
    """
    compressor = zstandard.ZstdCompressor(level=_LEVEL, threads=-1)
    done, total = 0, source.stat().st_size
    if total == 0:
        return
    out.write(MARKER + _SIZE.pack(_SIZE_MAGIC, _SIZE.size - _SKIPPABLE.size, total))
    entries = [(len(MARKER) + _SIZE.size, 0)]
    with source.open("rb", buffering=_READ_SIZE) as lines:
        while done < total:
            before = out.tell()
            size = _size_of_lines(lines, done, frame_size, total)
            with compressor.stream_writer(out, size=size, closefd=False) as frame:
                _copy(lines, frame, size, lambda copied: progress(copied, total))
            done += size
            entries.append((out.tell() - before, size))
    _write_index(out, entries)


def _size_of_lines(lines: BinaryIO, start: int, size: int, total: int) -> int:
    """Return ``size`` bytes from ``start`` on with the rest of their last line."""
    if start + size >= total:
        lines.seek(start)
        return total - start
    lines.seek(start + size)
    rest = len(lines.readline())
    lines.seek(start)
    return size + rest


def _copy(
    lines: BinaryIO,
    frame: zstandard.ZstdCompressionWriter,
    size: int,
    progress: Callable[[int], None],
) -> None:
    while size and (text := lines.read(min(_READ_SIZE, size))):
        frame.write(text)
        size -= len(text)
        progress(lines.tell())


def _write_index(out: BinaryIO, entries: list[tuple[int, int]]) -> None:
    table = b"".join(_ENTRY.pack(*entry) for entry in entries)
    table += _FOOTER.pack(len(entries), 0, _FOOTER_MAGIC)
    out.write(_SKIPPABLE.pack(_INDEX_MAGIC, len(table)) + table)


@contextmanager
def open_records(place: Place) -> Iterator[OpenRecords]:
    """Open a file of records, plain or compressed, and read its index.

    Raises:
        OSError: the file cannot be read.
    """
    with open_place(place) as file:
        size = file.seek(0, os.SEEK_END)
        yield OpenRecords(place, file, size, is_compressed(file), _index(file, size))


@dataclass(frozen=True)
class OpenRecords:
    """A file of records that is opened once. Damaged compressed data is a RecordError.

    Attributes:
        place: where it is.
        file: the open file.
        size: bytes of the file.
        compressed: whether it is compressed.
        frames: those of a file that :func:`write_frames` wrote; None of any other. A file that
            lost its end has no index; it is read as one piece.
    """

    place: Place
    file: FileIO
    size: int
    compressed: bool
    frames: list[Frame] | None

    @property
    def text_size(self) -> int:
        """Bytes of text; of a compressed file without our index a lower bound."""
        if self.frames is None:
            return self.size
        return sum(frame.text_size for frame in self.frames)

    def head(self, size: int) -> bytes:
        """Return the first ``size`` bytes of text, or fewer."""
        text = bytearray(size)
        return bytes(text[: open_source(self.file).readinto(memoryview(text))])

    def splits(self, size: int) -> list[tuple[int, int]]:
        """Return (start, end) of splits for :func:`quiver_fast.records.runs.scan_runs`.

        Each has about ``size`` bytes of text. A compressed file without our index is one split,
        and an empty file has none.
        """
        if self.frames is not None:
            return _frame_splits(self.frames, size, self.size)
        if self.compressed:
            return [(0, self.size)]
        return [(start, min(start + size, self.size)) for start in range(0, self.size, size)]

    def lost_end(self, truncated: bool) -> bool:
        """Say whether a compressed file was cut: within a frame, or, of ours, before its index.

        If its text is ``truncated``, a file of others is decompressed: only a line may be.
        """
        if not self.compressed:
            return False
        if _is_marked(self.file):
            return self.frames is None
        source, text = open_source(self.file), memoryview(bytearray(_READ_SIZE))
        while truncated and source.readinto(text):
            pass
        return source.truncated

    def missing_text(self) -> int | None:
        """Return how many bytes of text a compressed file lacks; None where nothing tells.

        A file of ours tells how much it should have. In a file of others the header of the frame
        that was cut may tell what is missing of that frame.
        """
        if not self.compressed or self.frames is not None:
            return 0
        announced = _announced(self.file)
        source = open_source(self.file)
        block, size = memoryview(bytearray(_READ_SIZE)), 0
        while count := source.readinto(block):
            size += count
        if announced is not None:
            return announced - size
        return source.missing if source.truncated else 0


def _index(file: FileIO, end: int) -> list[Frame] | None:
    if not _is_marked(file) or end < len(MARKER) + _FOOTER.size:
        return None
    file.seek(end - _FOOTER.size)
    count, descriptor, magic = _FOOTER.unpack(file.read())
    table_size = count * _ENTRY.size
    start = end - _FOOTER.size - table_size - _SKIPPABLE.size
    if (descriptor, magic) != (0, _FOOTER_MAGIC) or start < len(MARKER):
        return None
    file.seek(start + _SKIPPABLE.size)
    frames, offset = [], 0
    for size, text_size in _ENTRY.iter_unpack(file.read(table_size)):
        if text_size:
            frames.append(Frame(offset, size, text_size))
        offset += size
    return frames if offset == start else None


def _is_marked(file: FileIO) -> bool:
    file.seek(0)
    return file.read(len(MARKER)) == MARKER


def _frame_splits(frames: list[Frame], size: int, end: int) -> list[tuple[int, int]]:
    starts, text_size = [0], 0
    for frame in frames:
        if text_size >= size:
            starts.append(frame.start)
            text_size = 0
        text_size += frame.text_size
    return list(zip(starts, [*starts[1:], end], strict=True))


def _announced(file: FileIO) -> int | None:
    """Return the size of all lines that a file of ours says it has."""
    if not _is_marked(file):
        return None
    text = file.read(_SIZE.size)
    if len(text) < _SIZE.size:
        return None
    magic, _, size = _SIZE.unpack(text)
    return size if magic == _SIZE_MAGIC else None
