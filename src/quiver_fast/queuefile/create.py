"""New files of a queue: complete and on disk before they have their name (A.1).

Only the user of the process may read files and folders, whatever the umask.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.layout import RollCycle, cycle_file_head, index_document

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


def create_complete(path: Path, content: bytes, size: int = 0) -> None:
    """Make a file that no reader ever meets half written.

    Args:
        path: the file.
        content: its first bytes.
        size: its size; the bytes after the content are zero, and take no disk space.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(open_private(partial, flags), "wb") as stream:
            # One that a crash left may have another mode.
            os.fchmod(stream.fileno(), PRIVATE_FILE)
            stream.write(content)
            stream.truncate(max(size, len(content)))
            os.fsync(stream.fileno())
        partial.rename(path)
    except OSError:
        # On a full disk other files need the space of the half-written one.
        with contextlib.suppress(OSError):
            partial.unlink()
        raise
    sync_folder(path.parent)


def open_private(path: str | Path, flags: int) -> int:
    """Open a file, or make one that no other user may read; return its descriptor.

    Raises:
        OSError: it cannot be opened.
    """
    return os.open(path, flags | os.O_CLOEXEC, PRIVATE_FILE)


def sync_folder(path: Path) -> None:
    """Sync the names in a folder to disk.

    Raises:
        OSError: it cannot be written.
    """
    folder = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def make_folder(path: Path) -> None:
    """Make a private folder and its missing parents, and sync their names to disk.

    Raises:
        OSError: one cannot be made.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(PRIVATE_FOLDER, exist_ok=True)
    sync_folder(path.parent)


def create_cycle_file(path: Path, roll: RollCycle) -> None:
    """Make a cycle file without entries: header, page of pages, first index page (A.4).

    Raises:
        OutputError: the file exists already.
        OSError: it cannot be written.
    """
    if path.exists():
        raise OutputError(f"{path}: the file exists")
    head = cycle_file_head(roll, len(cycle_file_head(roll)))
    pages = index_document(len(head), "index2index", roll.count)
    page_at = len(head) + len(pages)
    content = bytearray(head + pages + index_document(page_at, "index", roll.count))
    # Page 0 is linked already: `used`, and slot 0.
    slots = page_at - 8 * roll.count
    content[slots - 8 : slots] = (1).to_bytes(8, "little")
    content[slots : slots + 8] = page_at.to_bytes(8, "little")
    create_complete(path, bytes(content))
