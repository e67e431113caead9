"""The queues of a directory whose files are open: so many that descriptors and mappings suffice.

An open queue takes two descriptors, of its lock and of its newest file, and two mappings.
Beyond the most, a queue's files are opened in place of those of the queue that was used longest
ago. No number of queues, which clients choose, takes more.
"""

from __future__ import annotations

import errno
import os
import resource
from typing import Protocol

from quiver_fast.queuefile.reserve import Reserve

# Linux allows a process 65,530 mappings by default.
MOST = 16384
# Connections have the half of the descriptors at least: a queue takes two of four.
SHARE = 4
# Connections may have all descriptors but the reserve. So many queues work in the reserve then.
LEAST = 2
# The system has no further descriptor or mapping now.
SCARCE = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class Files(Protocol):
    """The files of a queue's writer."""

    shut: bool
    shared: OpenFiles | None

    def take_back(self) -> None:
        """Open them again, or raise OSError or OutputError."""

    def let_go(self) -> None:
        """Close them."""

    def is_idle(self) -> bool:
        """Say whether no sync has to begin before they are closed."""

    def finish_sync(self) -> bool:
        """Sync them here and now; False if the syncer is doing that."""


class OpenFiles:
    """The writers with open files, from the one that was used longest ago to the last one.

    Only the thread that writes may call it.

    Args:
        most: how many there may be; 0 for a share of the process's descriptors.
    """

    def __init__(self, most: int = 0) -> None:
        _, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most = most or max(LEAST, min(limit // SHARE, MOST))
        self._used: dict[Files, None] = {}

    def share(self, files: Files) -> None:
        """Close a writer's files until their first use."""
        files.let_go()
        files.shared = self

    def use(self, files: Files, waits: bool) -> None:
        """Open a writer's files if they are closed, and note their use.

        Args:
            files: the writer.
            waits: the caller can wait for a sync; otherwise files are synced here and now.

        Raises:
            BlockingIOError: the next sync must begin first.
            OSError, OutputError: they cannot be opened.
        """
        if files.shut:
            while len(self._used) >= self.most and self._close_one(waits):
                pass
            self._open(files, waits)
        self._used.pop(files, None)
        self._used[files] = None

    def forget(self, files: Files) -> None:
        """Forget a writer that ends."""
        self._used.pop(files, None)

    def _open(self, files: Files, waits: bool) -> None:
        """Open a writer's files in place of others if descriptors are scarce."""
        while len(self._used) >= LEAST:
            try:
                files.take_back()
            except OSError as error:
                if error.errno not in SCARCE or not self._close_one(waits):
                    raise
            else:
                return
        with Reserve():
            files.take_back()

    def _close_one(self, waits: bool) -> bool:
        """Close the files that were used longest ago, of those that no sync needs.

        Return False if all have new entries while the syncer syncs the earlier ones: one more is
        open until the next sync begins.
        """
        for files in list(self._used):
            if files.is_idle():
                self._close(files)
                return True
            # It is in use.
            self._used[files] = self._used.pop(files)
        if waits:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        for files in list(self._used):
            if files.finish_sync():
                self._close(files)
                return True
        return False

    def _close(self, files: Files) -> None:
        del self._used[files]
        files.let_go()
