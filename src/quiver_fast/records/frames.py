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
from collections.abc import Callable
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

# Skippable frame: magic, size of what follows. Seekable format 0.1.0: per frame its
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


def read_index(path: Place) -> list[Frame] | None:
    """Return the frames of a file that :func:`write_frames` wrote; None of any other.

    A file that lost its end has no index; it is read as one piece.

    Raises:
        OSError: the file cannot be read.
    """
    with open_place(path) as file:
        if file.read(len(MARKER)) != MARKER:
            return None
        end = file.seek(0, os.SEEK_END)
        if end < len(MARKER) + _FOOTER.size:
            return None
        file.seek(end - _FOOTER.size)
        count, descriptor, magic = _FOOTER.unpack(file.read())
        table_size = count * _ENTRY.size
        start = end - _FOOTER.size - table_size - _SKIPPABLE.size
        if (descriptor, magic) != (0, _FOOTER_MAGIC) or start < len(MARKER):
            return None
        file.seek(start + _SKIPPABLE.size)
        sizes = list(_ENTRY.iter_unpack(file.read(table_size)))
    frames, offset = [], 0
    for size, text_size in sizes:
        if text_size:
            frames.append(Frame(offset, size, text_size))
        offset += size
    return frames if offset == start else None


def lost_end(path: Place, truncated: bool) -> bool:
    """Say whether a compressed file was cut: within a frame, or, of ours, before its index.

    A plain file does not tell.

    Args:
        path: the file.
        truncated: its text ends within a line or a frame; then a file without our index is
            decompressed to see which of both.

    Raises:
        OSError: the file cannot be read.
        RecordError: compressed data is damaged.
    """
    with open_place(path) as file:
        if not is_compressed(file):
            return False
        file.seek(0)
        if file.read(len(MARKER)) == MARKER:
            return read_index(path) is None
        source, text = open_source(file), memoryview(bytearray(_READ_SIZE))
        while truncated and source.readinto(text):
            pass
        return source.truncated


def split_points(path: Place, size: int) -> list[tuple[int, int]]:
    """Divide a file of records into splits for :func:`quiver_fast.records.runs.scan_runs`.

    Args:
        path: the file, plain or compressed.
        size: bytes of text in each split, about; at least 1.

    Returns:
        (start, end) of each split in bytes of the file, together the whole file; one
        split for a compressed file without our index, none for an empty file.

    Raises:
        OSError: the file cannot be read.
    """
    with open_place(path) as file:
        end = file.seek(0, os.SEEK_END)
        compressed = is_compressed(file)
    frames = read_index(path)
    if frames is not None:
        return _frame_splits(frames, size, end)
    if compressed:
        return [(0, end)]
    return [(start, min(start + size, end)) for start in range(0, end, size)]


def _frame_splits(frames: list[Frame], size: int, end: int) -> list[tuple[int, int]]:
    starts, text_size = [0], 0
    for frame in frames:
        if text_size >= size:
            starts.append(frame.start)
            text_size = 0
        text_size += frame.text_size
    return list(zip(starts, [*starts[1:], end], strict=True))


def missing_text(path: Place) -> int | None:
    """Return how many bytes of text a compressed file that was cut lacks at its end.

    A file of ours tells how much it should have; any other, where the frame that was cut
    says how large it is, what is missing of that frame at least.

    Args:
        path: the file, plain or compressed.

    Returns:
        0 for a file that is plain or not cut; None where nothing tells.

    Raises:
        OSError: the file cannot be read.
        RecordError: compressed data is damaged.
    """
    with open_place(path) as file:
        if not is_compressed(file) or read_index(path) is not None:
            return 0
        announced = _announced(file)
        source = open_source(file)
        block, size = memoryview(bytearray(_READ_SIZE)), 0
        while count := source.readinto(block):
            size += count
        if announced is not None:
            return announced - size
        return source.missing if source.truncated else 0


def _announced(file: FileIO) -> int | None:
    """Return the size of all lines that a file of ours says it has."""
    file.seek(len(MARKER))
    text = file.read(_SIZE.size)
    if len(text) < _SIZE.size:
        return None
    magic, _, size = _SIZE.unpack(text)
    file.seek(0)
    return size if magic == _SIZE_MAGIC and file.read(len(MARKER)) == MARKER else None
