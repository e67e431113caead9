"""Files of records as streams of bytes: plain, or zstd known by its first bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Protocol

import zstandard

from quiver_fast.errors import RecordError

if TYPE_CHECKING:
    from io import FileIO

__all__ = ["ByteSource", "open_source"]

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# One decompression step takes this much: enough to make the step's cost small, little
# enough that the strongest compression (32,000 times) does not flood the memory.
_COMPRESSED_STEP = 4096


class ByteSource(Protocol):
    """What the parser reads from."""

    truncated: bool

    def readinto(self, view: memoryview) -> int:
        """Fill ``view`` from its beginning; return the bytes read, 0 at the end."""


class _PlainSource:
    """The bytes of the file as they are."""

    truncated = False

    def __init__(self, file: FileIO) -> None:
        self._file = file

    def readinto(self, view: memoryview) -> int:
        return self._file.readinto(view) or 0


class _ZstdSource:
    """The bytes in the zstd frames of a file, one frame after the other.

    The frames are decompressed one by one because only then is it known whether the
    last one is whole; a stream reader over all of them ends in silence.
    """

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self._name = name
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._compressed = b""
        self._text = memoryview(b"")
        self.truncated = False

    def readinto(self, view: memoryview) -> int:
        while not self._text:
            compressed = self._compressed or self._file.read(_COMPRESSED_STEP)
            if not compressed:
                return 0
            self._text = memoryview(self._decompress(compressed))
        count = min(len(view), len(self._text))
        view[:count] = self._text[:count]
        self._text = self._text[count:]
        return count

    def _decompress(self, compressed: bytes) -> bytes:
        if self._frame.eof:
            self._frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            text = self._frame.decompress(compressed)
        except zstandard.ZstdError as error:
            raise RecordError(f"{self._name}: damaged zstd data: {error}") from None
        self._compressed = self._frame.unused_data
        self.truncated = not self._frame.eof
        return text


def open_source(file: FileIO) -> ByteSource:
    """Return the bytes of ``file``, decompressed where its first bytes say zstd.

    Args:
        file: A seekable file, unbuffered, at its beginning.
    """
    magic = file.read(len(_ZSTD_MAGIC))
    file.seek(0)
    return _ZstdSource(file, str(file.name)) if magic == _ZSTD_MAGIC else _PlainSource(file)
