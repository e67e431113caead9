"""Files of records as streams of bytes: plain, or zstd known by its first bytes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import FileIO, RawIOBase
from typing import BinaryIO, Protocol, TypeAlias, cast

import zstandard

from quiver_fast.errors import RecordError

__all__ = ["MARKER", "ByteSource", "Place", "PlainSource", "is_zstd", "open_place", "open_source"]

Place: TypeAlias = "str | os.PathLike[str] | Callable[[], RawIOBase]"
"""Where a file is: its path, or what opens it elsewhere, seekable and with a ``name``."""

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# What our compressed files begin with (records/frames.py): a frame that zstd skips.
MARKER = b"\x50\x2a\x4d\x18\x0c\0\0\0quiver lines"
# A decompression step takes as many compressed bytes as gave this much text at the ratio
# of the step before: the strongest compression (32,000 times) does not flood the memory,
# and weak compression does not cost many steps.
_TEXT_STEP = 1 << 20
# No header of a frame is longer (RFC 8878, section 3.1.1.1, and the magic number).
_FRAME_HEADER = 18
_SMALLEST_STEP = 512
_LARGEST_STEP = 1 << 17


class ByteSource(Protocol):
    """What the parser reads from."""

    truncated: bool
    descriptor: int | None
    """That of a plain file, whose bytes may be read from it directly; None for others."""

    @property
    def missing(self) -> int | None:
        """Bytes of text that a truncated frame lacks; None where it does not tell."""

    def readinto(self, view: memoryview) -> int:
        """Fill ``view`` from its beginning; return the bytes read, 0 at the end."""


class PlainSource:
    """The bytes of the file as they are, from where it stands, up to an offset.

    None are left where it stands beyond that already.
    """

    truncated = False
    missing = None

    def __init__(self, file: FileIO, end: int | None) -> None:
        self._file = file
        self.descriptor: int | None = file.fileno() if isinstance(file, FileIO) else None
        self.left = sys.maxsize if end is None else max(end - file.tell(), 0)

    def readinto(self, view: memoryview) -> int:
        """Fill ``view`` from its beginning; return the bytes read, 0 at the end."""
        count = self._file.readinto(view[: self.left]) or 0
        self.skip(count)
        return count

    def skip(self, count: int) -> None:
        """Take note of bytes that were read from the descriptor."""
        self.left -= count


class _ZstdSource:
    """The bytes in the zstd frames of a file, one frame after the other.

    The frames are decompressed one by one, to learn whether the last one is whole. A
    stream reader over all of them does not report a frame that was cut.
    """

    descriptor: int | None = None

    def __init__(self, file: BinaryIO, name: str, end: int | None) -> None:
        self._file = file
        self._name = name
        self._left = sys.maxsize if end is None else end - file.tell()
        self._step = _SMALLEST_STEP
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._compressed = b""
        self._text = memoryview(b"")
        self._begun = b""
        self._of_frame = 0
        self.truncated = False

    def readinto(self, view: memoryview) -> int:
        while not self._text:
            compressed = self._compressed or self._read()
            if not compressed:
                return 0
            self._text = memoryview(self._decompress(compressed))
        count = min(len(view), len(self._text))
        view[:count] = self._text[:count]
        self._text = self._text[count:]
        return count

    @property
    def missing(self) -> int | None:
        if not self.truncated or len(self._begun) < _FRAME_HEADER:
            return None
        size = zstandard.get_frame_parameters(self._begun).content_size
        return None if size == zstandard.CONTENTSIZE_UNKNOWN else size - self._of_frame

    def _read(self) -> bytes:
        compressed = self._file.read(min(self._step, self._left))
        self._left -= len(compressed)
        return compressed

    def _decompress(self, compressed: bytes) -> bytes:
        if self._frame.eof:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
            self._begun, self._of_frame = b"", 0
        try:
            text = self._frame.decompress(compressed)
        except zstandard.ZstdError as error:
            raise RecordError(f"{self._name}: damaged zstd data: {error}") from None
        self._compressed = self._frame.unused_data
        self.truncated = not self._frame.eof
        self._of_frame += len(text)
        if len(self._begun) < _FRAME_HEADER:
            self._begun += compressed[:_FRAME_HEADER]
        taken = len(compressed) - len(self._compressed)
        fitting = taken * _TEXT_STEP // max(len(text), 1)
        self._step = min(max(fitting, _SMALLEST_STEP), _LARGEST_STEP, 2 * self._step)
        return text


def open_place(place: Place) -> FileIO:
    """Open a file of records, unbuffered.

    Raises:
        OSError: it cannot be read.
    """
    if callable(place):
        return cast(FileIO, place())
    return open(place, "rb", buffering=0)


def is_zstd(file: FileIO) -> bool:
    """Say whether the first bytes of ``file``, which is seekable, are those of zstd."""
    file.seek(0)
    return file.read(len(MARKER)).startswith((_ZSTD_MAGIC, MARKER))


def open_source(file: FileIO, start: int = 0, end: int | None = None) -> ByteSource:
    """Return the bytes of ``file``, decompressed where its first bytes say zstd.

    Args:
        file: A seekable file, unbuffered.
        start: Offset in the file where to begin; in a zstd file, of a frame.
        end: Offset where to end, of a frame likewise; None for the end of the file.
    """
    compressed = is_zstd(file)
    file.seek(start)
    return _ZstdSource(file, str(file.name), end) if compressed else PlainSource(file, end)
