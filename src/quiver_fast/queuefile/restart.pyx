"""Recovery of a whole queue, before its first append and under its lock (A.10)."""

from libc.errno cimport EINVAL, errno
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memset

from cpython.pycapsule cimport PyCapsule_GetPointer

import logging
import os
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.create import sync_folder
from quiver_fast.queuefile.cyclefile cimport (
    CycleFile, cycle_close, cycle_open, cycle_understand, load,
)
from quiver_fast.queuefile.damage cimport Place, last_entry
from quiver_fast.queuefile.durability import boot_id
from quiver_fast.queuefile.heads cimport mend_length, mend_pages, rebuild_head
from quiver_fast.queuefile.layout import RollCycle, cycle_file_head
from quiver_fast.queuefile.recovery cimport TEXT_CHECK, Extent, TextCheck, cycle_end, cycle_repair
from quiver_fast.queuefile.table import Table, cycles_in

LOG = logging.getLogger(__name__)


def recover_queue(
        directory: Path, roll: RollCycle, table: Table, *, verify: bool,
        text_check: object = None) -> tuple[list[int], int]:
    """Repair every file after a crash, oldest first.

    Args:
        directory: the queue's.
        roll: its roll cycle.
        table: its table, whose lock word is ours.
        verify: walk every file completely, even after an orderly stop.
        text_check: a `TEXT_CHECK` capsule, the check of texts that a power loss may have
            damaged; None accepts any UTF-8.

    Returns:
        The cycles that have a usable file, and the index of the last entry, -1 for none.

    Raises:
        OutputError: a file cannot be read or written.
    """
    same_boot = table["quiver.bootId"] == boot_id() != 0
    orderly = table["quiver.clean"] == 1
    # A queue that we never wrote to has no word of the synced index.
    lost = not same_boot and not orderly and table["quiver.bootId"] != 0
    synced = table["chronicle.lastIndexMSynced"] if lost else INT64_MAX
    rebuilt = set()
    cycles = [cycle for cycle in cycles_in(directory, roll)
              if usable(directory / roll.file_name(cycle), roll, rebuilt)]
    last = -1
    for cycle in cycles:
        newest = cycle == max(cycles)
        trusted = trusted_sequence(roll, cycle, synced)
        # Older files were synced when they ended: their last slot on is enough (rule 2).
        path = directory / roll.file_name(cycle)
        whole = path in rebuilt or verify or trusted != INT64_MAX or newest and not (
            same_boot or orderly)
        found = repair_file(path, trusted, whole, not newest, text_check)
        if found:
            last = (cycle << roll.shift) | (found - 1)
    # Everything is on disk now (rule 9).
    table["chronicle.lastIndexMSynced"] = last
    table["quiver.bootId"] = boot_id()
    table["quiver.clean"] = 0
    table.list_cycles(cycles_in(directory, roll))
    table.sync()
    return cycles, last


def trusted_sequence(roll: RollCycle, cycle: int, synced: int) -> int:
    """Return the last sequence of a cycle's file that is known to be on disk (rule 8)."""
    if synced == INT64_MAX or cycle < synced >> roll.shift:
        return INT64_MAX
    return synced & ((1 << roll.shift) - 1) if cycle == synced >> roll.shift else -1


def usable(path: Path, roll: RollCycle, rebuilt: set[Path]) -> bool:
    """Say whether a file is a queue file; another file is put aside (rule 1).

    Args:
        path: the file.
        roll: the queue's roll cycle.
        rebuilt: gets the file if its head was made anew from its entries.

    Raises:
        OutputError: it cannot be read.
    """
    cdef CycleFile file
    cdef bytes name = os.fsencode(path)
    if cycle_open(&file, name, True) != 0 and errno != EINVAL:
        raise OutputError(f"{path}: {os.strerror(errno)}")
    understood = file.fd >= 0 and cycle_understand(&file)
    if file.fd >= 0 and not understood and rebuild_head(&file, roll):
        LOG.warning("%s: the head was damaged, and made anew", path)
        rebuilt.add(path)
        understood = True
    cycle_close(&file)
    if not understood:
        put_aside(path)
    return understood


def put_aside(path: Path) -> None:
    """Rename a file that is no queue file, and keep one that was put aside before."""
    number = 1
    aside = path.with_name(f"{path.name}.damaged")
    while aside.exists():
        number += 1
        aside = path.with_name(f"{path.name}.{number}.damaged")
    path.rename(aside)
    sync_folder(path.parent)
    LOG.warning("%s: no queue file, put aside as %s", path, aside.name)


def repair_file(
        path: Path, trusted: int, whole: bool, ended: bool, text_check: object = None) -> int:
    """Repair one file; return the number of its entries.

    Args:
        trusted: the last sequence that is known to be on disk.
        whole: walk it from its beginning, not from its last index slot.
        ended: give it the end mark if it has none (rule 6).
        text_check: see `recover_queue`.

    Raises:
        OutputError: it cannot be read or written.
    """
    cdef CycleFile file
    cdef Extent extent
    cdef bytes name = os.fsencode(path)
    cdef int64_t sequence = trusted
    cdef bint from_index = not whole
    cdef bint mark = ended
    cdef bint mended
    cdef TextCheck check = NULL
    cdef Place last = Place(0, -1)
    cdef int code
    if text_check is not None:
        check = <TextCheck>PyCapsule_GetPointer(text_check, TEXT_CHECK)
    code = cycle_open(&file, name, True)
    if code == 0:
        cycle_understand(&file)
        mended = mend_length(&file)
        mended |= mend_head(&file)
        mended |= mend_pages(&file)
        if not last_entry(&file, &last):
            last.at = 0
        with nogil:
            code = cycle_repair(&file, &extent, sequence, from_index, check)
            extent.changed |= mended
            if code == 0 and mark and not extent.ended:
                extent.changed = True
                code = cycle_end(&file, extent.tail)
    if code != 0:
        code = errno
        cycle_close(&file)
        raise OutputError(f"{path}: {os.strerror(code)}")
    if last.at >= <size_t>extent.tail and last.sequence >= extent.sequence:
        LOG.warning("%s: damaged at %d; %d entries from there on are dropped",
                    path, extent.tail, last.sequence + 1 - extent.sequence)
    try:
        # The newest in any case: Java's last entries may be only in memory.
        if extent.changed or not mark:
            os.fsync(file.fd)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
    finally:
        cycle_close(&file)
    return extent.sequence


cdef bint mend_head(CycleFile *file) except -1:
    """Repair the parts of the first document that only Java needs; say if any was wrong.

    Only if every word is at its place, as in all files that we and Java write (A.4).
    """
    cdef CycleFile model
    cdef bytes head = cycle_file_head(RollCycle("", 0, "", file.count, file.spacing))
    cdef const char *expected = head
    cdef bint changed = False
    cdef size_t at
    memset(&model, 0, sizeof(model))
    model.base = <char *>expected
    model.size = len(head)
    if (not cycle_understand(&model) or load(file.base) != load(model.base)
            or model.write_position != file.write_position
            or model.index2index_word != file.index2index_word
            or model.last_index_word != file.last_index_word):
        return False
    for at in range(4, min(model.size, file.size)):
        if file.base[at] != expected[at] and not is_word(file, at):
            file.base[at] = expected[at]
            changed = True
    return changed


cdef bint is_word(const CycleFile *file, size_t at) noexcept nogil:
    """Say whether a byte of the first document changes with new entries."""
    return (file.write_position <= at < file.write_position + 16
            or file.index2index_word <= at < file.index2index_word + 8
            or file.last_index_word <= at < file.last_index_word + 8)
