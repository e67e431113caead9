"""The test's side of `tests/faults/nth_call.c`: which call of a process fails, and when."""

from __future__ import annotations

import enum
import mmap
import struct
from pathlib import Path

from support.preload import preloading

# armed, kind, number, lasting, seen, failed, armed_by
LAYOUT = struct.Struct("@6Q256s")


class Kind(enum.IntEnum):
    """The calls of which one fails, and with what error."""

    MEMORY = 1
    MAPPING = 2
    WRITE = 4
    SYNC = 8
    SIZE = 16
    NAME = 32
    OPEN = 64


class Faults:
    """The page that a test shares with a process.

    Args:
        folder: where its file goes.
        library: the compiled `nth_call.c`.
    """

    def __init__(self, folder: Path, library: Path) -> None:
        path = folder / "faults"
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as stream:
            self._page = mmap.mmap(stream.fileno(), 0)
        self.environment = {**preloading(library), "QUIVER_FAULTS": str(path)}

    def arm(self, kind: Kind, number: int, *, lasting: bool = False, path: str = "") -> None:
        """Have the call of this number fail, counted from now on; 0 only counts.

        Args:
            lasting: all calls after it fail as well.
            path: count from when a path that contains this is opened, not from now on.
        """
        self.disarm()
        LAYOUT.pack_into(self._page, 0, 0, kind, number, lasting, 0, 0, path.encode())
        if not path:
            struct.pack_into("@Q", self._page, 0, 1)

    def disarm(self) -> None:
        """Let all calls through."""
        struct.pack_into("@Q", self._page, 0, 0)
        struct.pack_into("@256s", self._page, 48, b"")

    @property
    def seen(self) -> int:
        """How many calls of the kind came since."""
        return int(LAYOUT.unpack_from(self._page)[4])

    @property
    def failed(self) -> int:
        """How many of them failed."""
        return int(LAYOUT.unpack_from(self._page)[5])

    def close(self) -> None:
        """Unmap the page."""
        self._page.close()
