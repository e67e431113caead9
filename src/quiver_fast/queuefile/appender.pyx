"""The one writer of a queue: entries appended, indexed, rolled and synced (part A).

`begin` returns a place in the mapped file, `commit` publishes the bytes in it: an entry is
copied once. The file has all the state. A crash at any moment leaves a file that `recovery`
repairs.
"""

from libc.errno cimport EBADF, EINVAL, EIO, errno
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

import logging
import os
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.proton.libsys cimport CLOCK_REALTIME_COARSE, clock_ns
from quiver_fast.queuefile.checkpoint cimport CHECKPOINT_MAX, add_document, put_checkpoint
from quiver_fast.queuefile.create import make_folder
from quiver_fast.queuefile.cyclefile cimport (
    META_DATA, cycle_close, cycle_cut, load, load_long, next_document, put32, store, store_long,
)
from quiver_fast.queuefile.deletion import Expiry, delete_cycles
from quiver_fast.queuefile.durability import Syncing, parse_durability
from quiver_fast.queuefile.files cimport openings
from quiver_fast.queuefile.foreign import find_own_roll
from quiver_fast.queuefile.index cimport index_entry, page_missing, page_size, write_page
from quiver_fast.queuefile.layout import DEFAULT_ROLL, roll_cycle
from quiver_fast.queuefile.lock import WriterLock
from quiver_fast.queuefile.recovery cimport cycle_end
from quiver_fast.queuefile.reserve cimport Reserve
from quiver_fast.queuefile.restart import recover_queue
from quiver_fast.queuefile.space cimport space_populate, space_reserve
from quiver_fast.queuefile.table import Table, cycles_in

cdef extern from "<unistd.h>" nogil:
    int fdatasync(int fd)

MAX_ENTRY = 16 << 20
# The longest document of a header (A.12).
DOCUMENT_MAX = (1 << 30) - 1
cdef int64_t MILLISECOND = 1000000
# Before the bytes of a raw entry: block, length of the block, byte array (A.6).
cdef size_t RAW_HEAD = 6
# Room on top of an entry or an index page: a checkpoint, headers and pad, the next header.
cdef size_t SLACK = CHECKPOINT_MAX + 32

LOG = logging.getLogger(__name__)


cdef class Appender(QueueFiles):
    """The writer of the queue in ``directory``, which is made if it does not exist.

    Only one thread may use it; `close` it, or use it as a context manager.

    Args:
        directory: the folder of the queue's files, on a local file system.
        roll: name of the roll cycle of a new queue; an existing one keeps its own.
        durability: ``none``, ``interval:<ms>`` or ``group``.
        verify: walk every file completely, even after an orderly stop.
        max_entry: the largest size of an entry in the file.
        retain: number of the newest files to keep; older ones are deleted at start and at
            every roll, except the file of the present time. 0 keeps all.
        text_check: the check that decides after a power loss whether a text is whole:
            `quiver_fast.remote.wire.textwire.text_check()`; None accepts any UTF-8.

    Raises:
        OutputError: another process writes to it, or the files cannot be used.
        UsageError: there is no such roll cycle.
        ValueError: there is no such durability, or a number is out of range.
    """

    def __cinit__(self) -> None:
        self.file.fd = -1
        # Until it is open, and after close().
        self.broken = True
        self.error = EBADF

    def __init__(self, directory: str | Path, *, roll: str = DEFAULT_ROLL,
                 durability: str = "none", verify: bool = False,
                 max_entry: int = MAX_ENTRY, retain: int = 0,
                 text_check: object = None) -> None:
        self.policy, interval = parse_durability(durability)
        if not 0 < max_entry <= DOCUMENT_MAX:
            raise ValueError(f"max_entry must be between 1 and {DOCUMENT_MAX}")
        if retain < 0:
            raise ValueError("retain must not be negative")
        self.directory = Path(directory)
        self.roll = roll_cycle(roll)
        self.max_entry = max_entry
        self.retained = retain
        try:
            make_folder(self.directory)
            self.roll = find_own_roll(self.directory, self.roll)
        except OSError as error:
            raise OutputError(f"{directory}: {error.strerror}") from None
        self.shift = self.roll.shift
        self.lock = WriterLock(self.directory)
        try:
            self.start(verify, text_check)
        except BaseException as error:
            cycle_close(&self.file)
            self.lock.release()
            if isinstance(error, OSError):
                raise OutputError(f"{directory}: {error.strerror}") from None
            raise
        self.broken = False
        if self.policy == DURABLE_INTERVAL:
            self.syncing = Syncing(self.sync_now, interval)
        self.used = openings

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()

    def start(self, verify: bool, text_check: object) -> None:
        """Repair the queue after a crash, and continue at its end (A.10)."""
        self.table = Table(self.directory, self.roll)
        self.lock.mark(self.table)
        cycles, self.last = recover_queue(
            self.directory, self.roll, self.table, verify=verify, text_check=text_check)
        self.synced = self.last
        if cycles:
            self.open_cycle(max(cycles))
        else:
            self.open_cycle(self.create_cycle(0))
        self.first = min(cycles, default=self.cycle) << self.shift
        self.expiry = Expiry(self.directory, self.roll)
        if self.retained:
            self.retain(self.retained)

    cdef bint use(self, bint waits) noexcept nogil:
        """Open the files if they are closed, and note the use; False with `error` set."""
        if load(&self.broken):
            return False
        if self.shared is not None:
            with gil:
                try:
                    self.shared.use(self, waits)
                except (OSError, OutputError) as error:
                    self.error = getattr(error, "errno", None) or EIO
                    return False
        self.used = openings
        return True

    def is_idle(self) -> bool:
        """Say whether no sync has to begin before the files are closed.

        The syncer keeps the descriptor of one that is under way.
        """
        return self.broken or self.policy != DURABLE_GROUP or self.tail == self.summed_from

    def let_go(self) -> None:
        """Close the files until the next use."""
        if self.syncing is not None:
            self.syncing.pause()
            self.write_checkpoint()
            self.sync_now()
        self.close_files()

    def take_back(self) -> None:
        """Open the files again.

        Raises:
            OSError, OutputError: that is impossible, and they stay closed.
        """
        self.reopen_files()
        if self.syncing is not None:
            self.syncing.resume()

    def finish_sync(self) -> bool:
        """Sync the files here and now; False if the syncer is doing that.

        Of two syncs of a descriptor, only one learns of a failure.
        """
        if not self.lent:
            self.sync()
        return not self.lent

    cdef int roll_over(self) except -1:
        """End the file and begin the next one (A.8). After a failure it can be called again."""
        if self.policy != DURABLE_NEVER:
            self.write_checkpoint()
        if cycle_end(&self.file, self.tail) != 0:
            raise OSError(errno, os.strerror(errno))
        if self.syncing is not None:
            self.syncing.pause()
        try:
            if not self.sync_elsewhere:
                with nogil:
                    self.sync_file()
            if self.broken:
                raise OSError(self.error, os.strerror(self.error))
            # Sync a file before a later one follows it: rule 8 relies on that.
            self.table.sync()
            self.begin_next()
        finally:
            if self.syncing is not None:
                self.syncing.resume()
        try:
            if self.retained:
                self.retain(self.retained)
        except OutputError as error:
            # Old files that cannot be deleted do not stop writing.
            LOG.warning("%s", error)
        return 0

    def retain(self, cycles: int) -> list[Path]:
        """Delete all but the newest ``cycles`` files, at least 1, and the file of today (A.12).

        Tailers inside a deleted file read it to its end.

        Returns:
            The files deleted.

        Raises:
            OutputError: one cannot be deleted.
            ValueError: the newest file would be deleted.
        """
        if cycles < 1:
            raise ValueError("the newest file is always kept")
        return self.delete(self.expiry.expired(cycles_in(self.directory, self.roll), cycles))

    def delete(self, cycles: list[int]) -> list[Path]:
        """Delete the files of cycles before the current one.

        Returns:
            The files deleted.

        Raises:
            OutputError: one cannot be deleted.
        """
        past = [cycle for cycle in cycles if cycle < self.cycle]
        self.checked(-1 if self.shut and not self.use(False) else 0)
        try:
            return delete_cycles(self.directory, self.roll, self.table, past)
        finally:
            self.first = min(cycles_in(self.directory, self.roll)) << self.shift

    cdef bint ready_for(self, size_t size) noexcept nogil:
        """Make room for a document of ``size`` bytes at the tail."""
        if self.used != openings and not self.use(False):
            return False
        if load(&self.broken) or not self.is_whole():
            return False
        if size > self.max_entry or size == 0:
            store(&self.error, EINVAL)
            return False
        if self.due_to_roll(1) and not self.rolled():
            return False
        if load(&self.checkpoint_due):
            self.write_checkpoint()
        # A.7, 3: also if a crash or another writer left none. Spacings are powers of two.
        if self.sequence & (self.file.spacing - 1) == 0 and page_missing(&self.file, self.sequence):
            if not self.reserve(self.tail + page_size(self.tail, self.file.count) + size + SLACK):
                return False
            self.tail = write_page(&self.file, self.tail, self.sequence)
        if not self.reserve(self.tail + size + SLACK):
            return False
        if self.tail + size + 8 > self.space.populated:
            space_populate(&self.space, &self.file, self.tail, self.tail + size)
        return True

    cdef bint is_whole(self) noexcept nogil:
        """Say whether the file has its full size; a truncated file takes no entries."""
        if not load(&self.broken) and cycle_cut(&self.file):
            self.fail(EIO)
        return not load(&self.broken)

    cdef bint due_to_roll(self, int64_t entries) noexcept nogil:
        """Say whether the cycle is over, or its file has no room for so many entries."""
        return self.ended or self.sequence + entries > self.capacity or not self.held and (
            clock_ns(CLOCK_REALTIME_COARSE) >= self.cycle_end * MILLISECOND)

    cdef bint rolled(self) noexcept nogil:
        """Roll over; False with `error` set."""
        if self.used != openings and not self.use(False):
            return False
        with gil:
            try:
                with Reserve():
                    self.roll_over()
            except (OSError, OutputError) as error:
                self.error = getattr(error, "errno", None) or EIO
                return False
        return True

    cdef bint reserve(self, size_t end) noexcept nogil:
        """Allocate disk space up to ``end``; False with `error` set (A.12)."""
        if end <= self.space.reserved:
            return True
        if self.used != openings and not self.use(False):
            return False
        cdef int error = space_reserve(&self.space, &self.file, end)
        # Not the success: a sync may have failed meanwhile.
        if error:
            store(&self.error, error)
        return error == 0

    cdef char *begin(self, size_t size) noexcept nogil:
        """Return the place for a document of ``size`` bytes, at least 1; NULL: see error."""
        if not self.ready_for(size):
            return NULL
        self.entry_size = size
        return self.file.base + self.tail + 4

    cdef char *begin_bytes(self, size_t size) noexcept nogil:
        """As `begin`, for arbitrary bytes: the head of form 2 of A.6 comes before them."""
        cdef char *out = self.begin(RAW_HEAD + size)
        if out == NULL:
            return NULL
        out[0] = <char>0x82
        put32(out + 1, <uint32_t>(size + 1))
        out[5] = <char>0x8A
        return out + RAW_HEAD

    cdef void publish(self, size_t size, bint meta) noexcept nogil:
        """Make the document at the tail visible (A.7, 5 and 6), and step over it."""
        cdef char *content = self.file.base + self.tail + 4
        cdef uint32_t header = <uint32_t>size | (META_DATA if meta else 0)
        cdef size_t following = next_document(self.tail, header)
        cdef size_t end = self.tail + 4 + size
        while end < following:
            self.file.base[end] = 0
            end += 1
        put32(self.file.base + following, 0)
        if self.policy != DURABLE_NEVER:
            self.sum = add_document(self.sum, header, content, size)
        store(self.file.base + self.tail, header)
        self.tail = following

    cdef int64_t commit(self) noexcept nogil:
        """Publish the begun document as an entry; return its index, or -1: see error."""
        cdef size_t at = self.tail
        self.publish(self.entry_size, False)
        store_long(self.file.base + self.file.write_position, at)
        store_long(
            self.file.base + self.file.sequence_word,
            <int64_t>((<uint64_t>at << self.file.shift) | <uint64_t>self.sequence))
        if self.sequence & (self.file.spacing - 1) == 0:
            index_entry(&self.file, self.sequence, at)
            store_long(self.file.base + self.file.last_index_word,
                       self.sequence + self.file.spacing)
        if not self.is_whole():
            return -1
        # A thread that syncs must not see an index before its entry.
        store_long(&self.last, (self.cycle << self.shift) | self.sequence)
        self.sequence += 1
        if self.on_entry != NULL:
            self.on_entry(self.listener)
        return self.last

    cdef int64_t append(self, const char *bytes, size_t size) noexcept nogil:
        """Append the bytes of an entry; return its index, or -1: see error."""
        cdef char *out = self.begin(size)
        if out == NULL:
            return -1
        memcpy(out, bytes, size)
        return self.commit()

    cdef int commit_meta(self) noexcept nogil:
        """Publish the begun document as meta-data, without an index; return 0, or -1: see error."""
        self.publish(self.entry_size, True)
        self.noted = self.policy == DURABLE_INTERVAL
        return 0 if self.is_whole() else -1

    cdef int append_meta(self, const char *bytes, size_t size) noexcept nogil:
        """Append a meta-data document; return 0, or -1: see error."""
        cdef char *out = self.begin(size)
        if out == NULL:
            return -1
        memcpy(out, bytes, size)
        return self.commit_meta()

    cdef bint write_checkpoint(self) noexcept nogil:
        """Write the sum of all documents since the last checkpoint (A.11); False if there are none.

        The writer of the documents has left room for it.
        """
        store(&self.checkpoint_due, False)
        self.noted = False
        if self.tail == self.summed_from:
            return False
        cdef size_t size = put_checkpoint(
            self.file.base + self.tail + 4, self.sequence, self.summed_from, self.sum)
        self.publish(size, True)
        self.summed_from = self.tail
        self.sum = 0
        return True

    cdef void cover_notes(self) noexcept nogil:
        """Have a checkpoint cover meta-data under `interval`: no index tells that it is synced."""
        if self.noted and not load(&self.broken):
            self.write_checkpoint()

    cdef int sync(self) noexcept nogil:
        """Sync all appends so far to disk; return 0, or -1: then the queue is read-only.

        Only the writer's thread may call it.
        """
        if self.used != openings and not self.use(False):
            return -1
        if self.policy != DURABLE_NEVER and not load(&self.broken):
            self.write_checkpoint()
        return self.sync_file()

    cdef int sync_file(self) noexcept nogil:
        """Sync the file, in any thread.

        A second attempt after a failure would prove nothing: the system may have
        dropped the pages that it could not write (A.11).
        """
        # This sync may miss entries that are appended while it runs.
        cdef int64_t last = load_long(&self.last)
        if not self.is_whole():
            return -1
        if fdatasync(self.file.fd) != 0:
            self.fail(errno)
            return -1
        if load_long(&self.synced) != last:
            store_long(&self.synced, last)
            store(&self.checkpoint_due, self.policy == DURABLE_INTERVAL)
            with gil:
                self.table["chronicle.lastIndexMSynced"] = last
        return 0

    def sync_now(self) -> None:
        """Sync without the GIL; the next append reports a failure.

        The table is synced too: until the next checkpoint, recovery relies on its word of the
        synced index (rule 8), and it lists the files.
        """
        with nogil:
            self.sync_file()
        try:
            if self.table.changed:
                self.table.sync()
        except OSError as error:
            self.fail(error.errno)

    cdef int64_t first_index(self) noexcept nogil:
        """Return the index of the first entry, also of one that is still to come."""
        return self.first

    cdef int64_t end_index(self) noexcept nogil:
        """Return the index of the next entry, if it comes in this cycle."""
        return (self.cycle << self.shift) | self.sequence

    cdef int64_t last_index(self) noexcept nogil:
        """Return the index of the last entry, -1 if there is none."""
        return self.last

    def failure(self) -> str:
        """Return the reason of the last failure, in one line."""
        return f"{self.directory}: {os.strerror(self.error)}"

    def close(self) -> None:
        """Sync, free unused disk space, and release the lock.

        Raises:
            OutputError: not all is on disk; the queue is closed all the same.
        """
        if self.file.fd < 0 and not self.shut:
            return
        try:
            if self.shut:
                self.take_back()
            if self.syncing is not None:
                self.syncing.stop()
            self.checked(self.sync())
            self.shrink()
            os.fsync(self.file.fd)
            self.table["quiver.clean"] = 1
            self.table.sync()
        except OSError as error:
            raise OutputError(f"{self.directory}: {error.strerror}") from None
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the lock and the files, which need no sync any more."""
        if not self.broken:
            self.fail(EBADF)
        if self.syncing is not None:
            if self.shut:
                self.syncing.resume()
            self.syncing.stop()
        if self.shared is not None:
            self.shared.forget(self)
        if not self.shut:
            self.lock.release()
            self.table.close()
            self.leave_file()
        self.shut = False

    def append_text(self, text: str) -> int:
        """Append a text-wire value; return its index (A.6, form 1).

        Raises:
            OutputError: it could not be written.
            ValueError: it has a NUL, which no text has.
        """
        cdef bytes content = text.encode()
        if 0 in content:
            raise ValueError("a text entry has no NUL")
        if content and content[0] >= 0x80:
            # A first byte of 0x80 or more would mean binary wire.
            content = b"\n" + content
        return self.checked(self.append(content, len(content)))

    def append_raw(self, content: bytes) -> int:
        """Append arbitrary bytes; return their index (A.6, form 2).

        Raises:
            OutputError: they could not be written.
        """
        cdef char *out = self.begin_bytes(len(content))
        if out != NULL:
            memcpy(out, <const char *>content, len(content))
        return self.checked(-1 if out == NULL else self.commit())

    def append_meta_data(self, content: bytes) -> None:
        """Append a meta-data document; raises OutputError if it could not be written."""
        self.checked(self.append_meta(content, len(content)))

    def flush(self) -> None:
        """Sync everything that was appended to disk.

        Raises:
            OutputError: it could not be written.
        """
        cdef int code
        with nogil:
            code = self.sync()
        self.checked(code)
        self.table.sync()

    def checked(self, index: int) -> int:
        """Return ``index``; raise the error of the last call if it is -1."""
        if index < 0:
            raise OutputError(self.failure())
        return index

    @property
    def bounds(self) -> tuple[int, int, int]:
        """The first index, the last (-1: none), and the one after the end."""
        return self.first_index(), self.last_index(), self.end_index()
