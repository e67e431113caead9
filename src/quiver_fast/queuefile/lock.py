"""One writer per queue: a file lock that decides, and a word that Java reads (A.9)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EBUSY
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.create import open_private
from quiver_fast.queuefile.table import FREE, Table

LOCK_NAME = ".quiver.lock"
WORDS = ("chronicle.append.lock", "chronicle.write.lock")


class QueueInUseError(OutputError):
    """Another process holds the lock of a queue."""

    errno = EBUSY


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        # None, or a number that no process has.
        return False
    except OSError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Say whether a process has ended, and its parent has not waited for it yet (proc(5))."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    # The name before the state is in brackets, and may contain brackets.
    return status.rpartition(b") ")[2].startswith(b"Z")


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keep other servers out of a directory of queues, whose locks are free while they are closed.

    Raises:
        QueueInUseError: another server has it.
        OutputError: it cannot be opened.
    """
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise OutputError(f"{directory}: {error.strerror}") from None
    try:
        _lock(folder, f"{directory}: another process writes to this queue directory")
        yield
    finally:
        os.close(folder)


def _lock(fd: int, refusal: str) -> None:
    """Lock a file, or raise QueueInUseError if another process has locked it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise QueueInUseError(refusal) from None


class WriterLock:
    """The right to write to one queue, held until `release`.

    Args:
        directory: the queue's.

    Raises:
        QueueInUseError: another process has it.
        OutputError: the lock file cannot be opened.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._table: Table | None = None
        try:
            self.resume()
        except OSError as error:
            raise OutputError(f"{directory / LOCK_NAME}: {error.strerror}") from None

    def resume(self) -> None:
        """Lock the file.

        Raises:
            QueueInUseError: another process has locked it.
            OSError: it cannot be opened.
        """
        self._fd = open_private(self._directory / LOCK_NAME, os.O_RDWR | os.O_CREAT)
        try:
            _lock(self._fd, f"{self._directory}: another process writes to this queue")
        except QueueInUseError:
            os.close(self._fd)
            raise

    def pause(self) -> None:
        """Close the file until `resume`. The word alone keeps other writers out meanwhile."""
        os.close(self._fd)

    def mark(self, table: Table) -> None:
        """Write our pid into the word that Java's appenders read.

        Raises:
            QueueInUseError: it has the pid of another living process.
        """
        for word in WORDS:
            # The upper half may hold a thread's id; below 0 it is free, or damaged.
            pid = table[word] & 0xFFFFFFFF if table[word] > 0 else 0
            if pid and pid != os.getpid() and _alive(pid):
                raise QueueInUseError(f"{self._directory}: process {pid} writes to this queue")
        table["chronicle.write.lock"] = FREE
        table["chronicle.append.lock"] = os.getpid()
        self._table = table

    def release(self) -> None:
        """Release the lock."""
        if self._table is not None:
            self._table["chronicle.append.lock"] = FREE
        os.close(self._fd)
