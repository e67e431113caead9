"""The entries of a queue, decoded: text as str, raw entries as bytes, the rest undecoded."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from quiver_fast.queuefile.tailer import Tailer

# A raw entry: block, length of the block, byte array (A.6).
RAW_HEAD = struct.Struct("<BIB")
BLOCK, BYTE_ARRAY = 0x82, 0x8A


class Form(Enum):
    """The form of an entry's bytes (A.6)."""

    TEXT = "text"
    RAW = "raw"
    BINARY = "binary"


@dataclass(frozen=True)
class Entry:
    """One entry of a queue.

    Attributes:
        index: its index.
        form: `TEXT`; `RAW` bytes; or `BINARY`, a document of binary wire that a Java
            application wrote.
        content: text as str; raw bytes as submitted; the whole document of binary wire.
    """

    index: int
    form: Form
    content: str | bytes

    def as_text(self) -> str:
        """Return the entry as a value of text wire."""
        if isinstance(self.content, str):
            return self.content
        return f"!!binary {base64.b64encode(self.content).decode() or chr(34) * 2}"


def decode(index: int, content: bytes) -> Entry:
    """Return an entry from its bytes in the file; text that is no UTF-8 counts as binary."""
    if content[0] < 0x80:
        # A text whose first byte would mean binary wire has a line break before it.
        padded = content[0] == ord("\n") and len(content) > 1 and content[1] >= 0x80
        try:
            return Entry(index, Form.TEXT, content[padded:].decode())
        except UnicodeDecodeError:
            return Entry(index, Form.BINARY, content)
    if len(content) >= RAW_HEAD.size:
        code, length, array = RAW_HEAD.unpack_from(content)
        if (code, array) == (BLOCK, BYTE_ARRAY) and length == len(content) - 5:
            return Entry(index, Form.RAW, content[RAW_HEAD.size :])
    return Entry(index, Form.BINARY, content)


def read_entries(directory: str | Path, start: int = 0) -> Iterator[Entry]:
    """Yield the present entries, from the first with an index of ``start`` or more.

    Raises:
        OutputError: the files cannot be read.
    """
    tailer = Tailer(directory)
    tailer.move_to(start)
    while (found := tailer.read()) is not None:
        yield decode(*found)
