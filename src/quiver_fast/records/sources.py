"""Files of records as streams of bytes: plain, or compressed, which their first bytes tell.

A byte-order mark at the beginning of the text is no part of it.
"""

from __future__ import annotations

import lzma
import os
import shlex
import sys
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable
from io import FileIO, RawIOBase
from typing import BinaryIO, Protocol, TypeAlias, cast

import zstandard

from quiver_fast.errors import RecordError
from quiver_fast.records.compression import HEAD_SIZE, ZSTD, Form, form_of, without_suffix

Place: TypeAlias = "str | os.PathLike[str] | Callable[[], RawIOBase]"
"""Where a file is: its path, or a function that opens it, seekable and with a ``name``."""

# A decompression step takes as many compressed bytes as gave this much text at the ratio
# of the step before: the strongest compression (32,000 times) does not flood the memory,
# and weak compression does not cost many steps.
_TEXT_STEP = 1 << 20
# No header of a frame is longer (RFC 8878, section 3.1.1.1, and the magic number).
_FRAME_HEADER = 18
_SMALLEST_STEP = 512
_LARGEST_STEP = 1 << 17
# The words of Python for a file that needs more memory than it may have.
_TOO_LARGE = "Memory usage limit exceeded"


class ByteSource(Protocol):
    """The source of the bytes that the parser reads."""

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


class _CompressedSource:
    """The text of a compressed file: of its parts (frames, members), one after the other.

    They are decompressed one by one, to learn whether the last one is whole. A reader over
    all of them does not report that.
    """

    descriptor: int | None = None

    def __init__(self, file: BinaryIO, name: str, end: int | None) -> None:
        self._file = file
        self._name = name
        start = file.tell()
        self._left = sys.maxsize if end is None else end - start
        self._begins = start == 0
        self._text = memoryview(b"")
        self.truncated = False

    @property
    def missing(self) -> int | None:
        return None

    def readinto(self, view: memoryview) -> int:
        if self._begins:
            self._text = memoryview(self._beginning())
            self._begins = False
        if not self._text:
            self._text = memoryview(self._more())
        count = min(len(view), len(self._text))
        view[:count] = self._text[:count]
        self._text = self._text[count:]
        return count

    def _beginning(self) -> bytes:
        """Return the first text without its mark; empty where nothing else is there."""
        text = b""
        while len(text) < len(BOM_UTF8) and (more := self._more()):
            text += more
        return text.removeprefix(BOM_UTF8)

    def _more(self) -> bytes:
        """Return the next text, empty at the end."""
        raise NotImplementedError

    def _read(self, size: int) -> bytes:
        compressed = self._file.read(min(size, self._left))
        self._left -= len(compressed)
        return compressed


class _ZstdSource(_CompressedSource):
    """The text of a zstd file, which tells how much a frame that was cut lacks."""

    def __init__(self, file: BinaryIO, name: str, end: int | None) -> None:
        super().__init__(file, name, end)
        self._step = _SMALLEST_STEP
        self._frame = zstandard.ZstdDecompressor().decompressobj()
        self._compressed = b""
        self._begun = b""
        self._of_frame = 0

    @property
    def missing(self) -> int | None:
        if not self.truncated or len(self._begun) < _FRAME_HEADER:
            return None
        size = zstandard.get_frame_parameters(self._begun).content_size
        return None if size == zstandard.CONTENTSIZE_UNKNOWN else size - self._of_frame

    def _more(self) -> bytes:
        while compressed := self._compressed or self._read(self._step):
            if text := self._decompress(compressed):
                return text
        return b""

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


class _StreamSource(_CompressedSource):
    """The text of a file that a decompressor of the standard library reads.

    No step gives more text than asked for, however strong the compression is.
    """

    def __init__(self, file: BinaryIO, name: str, end: int | None, form: Form) -> None:
        super().__init__(file, name, end)
        if form.decompressor is None:
            raise RecordError(_refusal(name, form))
        self._form = form
        self._make = form.decompressor
        self._member = form.decompressor()
        self._compressed = b""

    def _more(self) -> bytes:
        while not self._member.eof or self._next_member():
            compressed = b""
            if self._member.needs_input:
                compressed = self._compressed or self._read(_LARGEST_STEP)
                self._compressed = b""
                if not compressed:
                    return b""
            if text := self._decompress(compressed):
                return text
        return b""

    def _next_member(self) -> bool:
        """Go on behind the end of a member, and NUL bytes that may fill up a file."""
        rest = self._member.unused_data.lstrip(b"\0")
        while not rest and (block := self._read(_LARGEST_STEP)):
            rest = block.lstrip(b"\0")
        if rest:
            self._member, self._compressed = self._make(), rest
        return bool(rest)

    def _decompress(self, compressed: bytes) -> bytes:
        try:
            text = self._member.decompress(compressed, _TEXT_STEP)
        except (OSError, zlib.error, lzma.LZMAError) as error:
            if str(error) == _TOO_LARGE:
                raise RecordError(_refusal(self._name, self._form)) from None
            raise RecordError(f"{self._name}: damaged {self._form.name} data: {error}") from None
        self.truncated = not self._member.eof
        return text


def _refusal(name: str, form: Form) -> str:
    """Say that a file is not read, and which command makes it readable."""
    plain = without_suffix(name)
    plain = f"{name}.csv" if plain == name else plain
    command = f"{form.command} {shlex.quote(name)} > {shlex.quote(plain)}"
    return f"{name} is {form.name} data, which is not read: {command}"


def open_place(place: Place) -> FileIO:
    """Open a file of records, unbuffered.

    Raises:
        OSError: it cannot be read.
    """
    if callable(place):
        return cast(FileIO, place())
    return open(place, "rb", buffering=0)


def is_compressed(file: FileIO) -> bool:
    """Say whether the first bytes of ``file``, which is seekable, are those of no text."""
    return form_of(_head(file)) is not None


def open_source(file: FileIO, start: int = 0, end: int | None = None) -> ByteSource:
    """Return the text of ``file``, decompressed where its first bytes say so.

    Args:
        file: A seekable file, unbuffered.
        start: Offset in the file where to begin; in a zstd file, of a frame.
        end: Offset where to end, of a frame likewise; None for the end of the file.

    Raises:
        RecordError: it is compressed in a form that is not read.
    """
    form = form_of(_head(file))
    file.seek(start)
    if form is None:
        if start == 0:
            skip_mark(file)
        return PlainSource(file, end)
    if form is ZSTD:
        return _ZstdSource(file, str(file.name), end)
    return _StreamSource(file, str(file.name), end, form)


def skip_mark(file: FileIO) -> bool:
    """Go to the beginning of the text of a plain file, behind a byte-order mark.

    Returns:
        Whether that is known: not while a file that grows has a part of a mark alone.
    """
    file.seek(0)
    head = file.read(len(BOM_UTF8))
    file.seek(len(BOM_UTF8) if head == BOM_UTF8 else 0)
    return head in (b"", BOM_UTF8) or not BOM_UTF8.startswith(head)


def _head(file: FileIO) -> bytes:
    file.seek(0)
    return file.read(HEAD_SIZE)
