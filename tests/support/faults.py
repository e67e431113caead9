"""The test's side of `tests/faults/nth_call.c`: it chooses the failing call of a process."""

from __future__ import annotations

import enum
import mmap
import struct
from pathlib import Path

from support.preload import preloading

# armed, kind, number, lasting, seen, failed, armed_by
LAYOUT = struct.Struct("@6Q256s")


class Kind(enum.IntEnum):
    """The kind of the failing call, and its error."""

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
        folder: the folder of its file.
        library: the compiled `nth_call.c`.
    """

    def __init__(self, folder: Path, library: Path) -> None:
        path = folder / "faults"
        path.write_bytes(bytes(mmap.PAGESIZE))
        with path.open("r+b") as stream:
            self._page = mmap.mmap(stream.fileno(), 0)
        self.environment = {**preloading(library), "QUIVER_FAULTS": str(path)}

    def arm(self, kind: Kind, number: int, *, lasting: bool = False, path: str = "") -> None:
        """Let the call of this number fail, counted from now on; 0 only counts.

        Args:
            lasting: all later calls fail as well.
            path: count from the opening of a path that contains this, not from now on.
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
        """The number of calls of the kind since."""
        return int(LAYOUT.unpack_from(self._page)[4])

    @property
    def failed(self) -> int:
        """The number of failed ones."""
        return int(LAYOUT.unpack_from(self._page)[5])

    def close(self) -> None:
        """Unmap the page."""
        self._page.close()
