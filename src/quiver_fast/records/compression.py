"""Compressed forms of files of records: their suffixes, first bytes and decompressors."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

HEAD_SIZE = 20
"""Bytes at the beginning of a file that tell its form."""

MARKER = b"\x50\x2a\x4d\x18\x0c\0\0\0quiver lines"
"""The beginning of our compressed files (records/frames.py): a frame that zstd skips."""

# gzip's own header and check, with the largest window.
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
# "xz -9" takes 65 MiB; a file can ask for 4 GiB.
_XZ_MEMORY = 256 << 20


class Decompressor(Protocol):
    """The interface of the standard library's decompressors."""

    @property
    def eof(self) -> bool:
        """Whether the end of the compressed stream was reached."""

    @property
    def needs_input(self) -> bool:
        """Whether more text needs more compressed bytes."""

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the stream."""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        """Take ``data``; return at most ``max_length`` bytes of text."""


class _Gzip:
    """One member of a gzip file, with the interface of the other decompressors."""

    needs_input = True

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(_GZIP_WINDOW)

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        text = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        # zlib may hold back text for which there was no room, although all bytes are taken.
        self.needs_input = not self._inner.unconsumed_tail and len(text) < max_length
        return text


@dataclass(frozen=True)
class Form:
    """A form of compression.

    Attributes:
        name: its name.
        suffix: the end of the names of such files.
        head: matches the first bytes of a file.
        command: prints the text of a file, whose name follows.
        decompressor: makes a decompressor of a stream; None for zstd, which has a reader of
            its own, and for forms that are not read.
    """

    name: str
    suffix: str
    head: re.Pattern[bytes]
    command: str
    decompressor: Callable[[], Decompressor] | None = None


ZSTD = Form("zstd", ".zst", re.compile(rb"\x28\xb5\x2f\xfd|" + re.escape(MARKER)), "zstd -dc")

_XZ = partial(lzma.LZMADecompressor, lzma.FORMAT_XZ, _XZ_MEMORY)
_READ = (
    ZSTD,
    Form("xz", ".xz", re.compile(rb"\xfd7zXZ\0"), "xz -dc", _XZ),
    Form("gzip", ".gz", re.compile(rb"\x1f\x8b\x08"), "gzip -dc", _Gzip),
    # Three letters could begin an id: those of the first block, or of the end, follow.
    Form("bzip2", ".bz2", re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2 -dc",
         bz2.BZ2Decompressor),
)  # fmt: skip
# The standard library has no reader of these.
_REFUSED = (
    Form("LZ4", ".lz4", re.compile(rb"\x04\x22\x4d\x18"), "lz4 -dc"),
    Form("lzip", ".lz", re.compile(rb"LZIP\x01"), "lzip -dc"),
    Form("lzma", ".lzma", re.compile(rb"\x5d\0\0"), "xz -dc"),
    Form("compress", ".Z", re.compile(rb"\x1f\x9d"), "gzip -dc"),
    Form("zip", ".zip", re.compile(rb"PK\x03\x04"), "unzip -p"),
    Form("7z", ".7z", re.compile(rb"7z\xbc\xaf\x27\x1c"), "7z x -so"),
)

READ_SUFFIXES = tuple(form.suffix for form in _READ)
"""Suffixes of the forms that are read; that of our own tools first."""

SUFFIXES = (*READ_SUFFIXES, *(form.suffix for form in _REFUSED))
"""All suffixes: a file that is not read is found, so that an error can name it."""


def form_of(head: bytes) -> Form | None:
    """Return the form of a file that begins with ``head``; None for text."""
    return next((form for form in (*_READ, *_REFUSED) if form.head.match(head)), None)


def without_suffix(name: str) -> str:
    """Return a file's name without the suffix of a compressed form."""
    suffix = next((suffix for suffix in SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix)
