"""A data directory with a folder of queue files for each queue, each opened once."""

from __future__ import annotations

import errno
import fnmatch
import logging
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from quiver_fast.errors import OutputError, UsageError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.create import make_folder
from quiver_fast.queuefile.durability import parse_durability
from quiver_fast.queuefile.folders import address_of, folder_of, is_plain
from quiver_fast.queuefile.layout import DEFAULT_ROLL, roll_cycle
from quiver_fast.queuefile.openfiles import OpenFiles
from quiver_fast.queuefile.reserve import NoDescriptorsError, Reserve, check_descriptors
from quiver_fast.queuefile.table import TABLE_NAME

# The beginning of the names of subscriptions' queues, which no address has; and their folder,
# which no address has either.
SUBSCRIPTION = "\0"
SUBSCRIPTIONS = "%subscriptions"

LOG = logging.getLogger(__name__)
CYCLE_FILES = "*.cq4"


def warn(error: OSError) -> None:
    """Warn that a folder cannot be read: its queues are not served."""
    LOG.warning("%s: %s", error.filename, error.strerror)


def is_queue(files: Collection[str]) -> bool:
    """Say whether a folder with these files is a queue: it has a table, or a cycle file."""
    return TABLE_NAME in files or bool(fnmatch.filter(files, CYCLE_FILES))


def has_files(folder: Path, pattern: str) -> bool:
    """Say whether a folder has a file with such a name, not only a folder."""
    try:
        return any(path.is_file() for path in folder.glob(pattern))
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
    with Reserve():
        return any(path.is_file() for path in folder.glob(pattern))


class QueueDirectory:
    """The queues in a data directory, with the one writer of each.

    Args:
        path: the directory; made if it does not exist.
        roll: roll cycle of new queues.
        durability: ``none``, ``interval:<ms>`` or ``group``.
        retain: number of cycles of each queue to keep; 0 keeps all. See `Appender`.
        verify: walk every file completely when its queue is opened (A.10).
        text_check: see `Appender`.

    Raises:
        UsageError: there is no such roll cycle or durability.
        OutputError: the directory cannot be made.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        roll: str = DEFAULT_ROLL,
        durability: str = "none",
        retain: int = 0,
        verify: bool = False,
        text_check: object = None,
    ) -> None:
        try:
            parse_durability(durability)
        except ValueError as error:
            raise UsageError(str(error)) from None
        self._roll = roll_cycle(roll).name
        self.path = Path(path)
        try:
            make_folder(self.path)
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from None
        self._durability = durability
        self._retain = retain
        self._verify = verify
        self._text_check = text_check
        self._appenders: dict[str, Appender] = {}
        self._open_files = OpenFiles()
        self._count: int | None = None
        self._warned = False

    def names(self) -> list[str]:
        """Return the addresses of the queues that exist, in order."""
        found = set()
        for folder, _, files in os.walk(self.path, onerror=warn):
            if is_queue(files):
                name = os.path.relpath(folder, self.path)
                address = address_of(name)
                if address is None and is_plain(name):
                    # Earlier versions did not escape plain names.
                    address = name
                if address is not None:
                    found.add(address)
        return sorted(found)

    def count(self) -> int:
        """Return how many queues exist; the folders are read once."""
        if self._count is None:
            self._count = len(self.names())
        return self._count

    def is_open(self, address: str) -> bool:
        """Say whether the writer of a queue is open."""
        return address in self._appenders

    def folder(self, address: str) -> Path:
        """Return the folder of a queue, or of a subscription's, whether it exists or not.

        Raises:
            UsageError: no queue can have that address.
        """
        if address.startswith(SUBSCRIPTION):
            return self.path / SUBSCRIPTIONS / address.removeprefix(SUBSCRIPTION)
        folder = self.path / folder_of(address)
        earlier = self.path / address
        if is_plain(address) and folder != earlier and not folder.exists():
            return earlier if has_files(earlier, TABLE_NAME) else folder
        return folder

    def holds(self, address: str) -> bool:
        """Say whether a queue with that address exists, with or without entries."""
        folder = self.folder(address)
        return has_files(folder, TABLE_NAME) or has_files(folder, CYCLE_FILES)

    def has_entries(self, address: str) -> bool:
        """Say whether a file exists that may have entries of that queue."""
        return has_files(self.folder(address), CYCLE_FILES)

    def appender(self, address: str) -> Appender:
        """Return the writer of a queue, opened or made.

        Any thread may call it, but only one at a time for a queue.

        Raises:
            OutputError: its files cannot be used.
            UsageError: no queue can have that address.
        """
        if address not in self._appenders:
            is_new = not self.has_entries(address)
            if not is_new and not self._warned:
                self._warn_if_shared(self.folder(address))
            with self.descriptors(address):
                appender = Appender(
                    self.folder(address),
                    roll=self._roll,
                    durability=self._durability,
                    retain=self._retain,
                    verify=self._verify,
                    text_check=self._text_check,
                )
                self._open_files.share(appender)
            self._appenders[address] = appender
            if is_new and self._count is not None:
                self._count += 1
        return self._appenders[address]

    def _warn_if_shared(self, folder: Path) -> None:
        """Warn once of folders of earlier versions that other users may read.

        They stay as they are: another user's reader may need them.
        """
        shared = [path.stat().st_mode & stat.S_IRWXO for path in (self.path, folder)]
        if all(shared):
            self._warned = True
            LOG.warning("%s: other users can read it; chmod o= ends that", self.path)

    @contextmanager
    def descriptors(self, address: str) -> Iterator[None]:
        """Let a queue be opened, made or deleted completely: else in the reserve.

        Raises:
            NoDescriptorsError: there are too few descriptors.
        """
        with ExitStack() as stack:
            try:
                check_descriptors()
            except OSError:
                stack.enter_context(Reserve())
                try:
                    check_descriptors(reserved=True)
                except OSError as error:
                    raise NoDescriptorsError(f"{self.folder(address)}: {error.strerror}") from None
            yield

    def discard(self, address: str) -> None:
        """Delete the queue of a subscription, and its folder.

        Raises:
            OSError: it cannot be deleted.
            OutputError: its files cannot be closed in order.
        """
        with self.descriptors(address):
            self._appenders.pop(address).close()
            shutil.rmtree(self.folder(address))

    def close(self) -> None:
        """Close every queue in order.

        Raises:
            OutputError: one could not be closed in order; the others are closed all the same.
        """
        failures = []
        for appender in self._appenders.values():
            try:
                appender.close()
            except (OSError, OutputError) as error:
                failures.append(str(error))
        self._appenders = {}
        if failures:
            raise OutputError("; ".join(failures))
