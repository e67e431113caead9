"""Undamaged files of another form, which are refused by name and never changed (A.13)."""

from libc.errno cimport EINVAL, ENOENT, errno

import os
import re
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.cyclefile cimport CycleFile, cycle_close, cycle_open, cycle_understand
from quiver_fast.queuefile.layout import RollCycle
from quiver_fast.queuefile.table import cycles_in, find_roll

# So many bytes are enough to recognise a head of another form.
cdef size_t HEAD_MAX = 64
# The beginning of the first document in Java's other wire types, header first.
OTHER_WIRES = {
    # Fields have no names: the pair of words follows the pad.
    "FIELDLESS_BINARY": re.compile(
        rb"..\0\x40\xb9\x06header\xb6\x08SCQStore\x82..\0\0(?:\x8f*|\x8e\0{4})"
        rb"\x8d\x02\0{7}\x02\0{7}", re.DOTALL),
    "TEXT": re.compile(rb"....header: !SCQStore ", re.DOTALL),
    "JSON": re.compile(rb'...."header": ?\{', re.DOTALL),
    "RAW": re.compile(rb"....\x06header\x08SCQStore", re.DOTALL),
}


def find_own_roll(directory: Path, otherwise: RollCycle) -> RollCycle:
    """Return the roll cycle of a queue before writing to it; see `find_roll`.

    Raises:
        OutputError: the queue, or a file of it, has another form than ours.
    """
    roll = find_roll(directory, otherwise)
    refuse_foreign(directory, roll)
    return roll


def refuse_foreign(directory: Path, roll: RollCycle) -> None:
    """Check the form of each file of a queue before anything is changed.

    Raises:
        OutputError: a file has another form than ours.
    """
    cdef CycleFile file
    cdef bytes name
    for cycle in cycles_in(directory, roll):
        path = directory / roll.file_name(cycle)
        name = os.fsencode(path)
        if cycle_open(&file, name, False) != 0:
            if errno in (EINVAL, ENOENT):
                continue
            raise OutputError(f"{path}: {os.strerror(errno)}")
        cycle_understand(&file)
        form = foreign_form(&file)
        cycle_close(&file)
        if form is not None:
            raise OutputError(f"{path}: {form}")


cdef str foreign_form(const CycleFile *file):
    """Return the other form of a file that `cycle_understand` has read; None for ours."""
    if file.first_document:
        return None if file.data_format == 1 else "written by a Chronicle Queue before 5.19.11"
    head = file.base[:min(file.size, HEAD_MAX)]
    for wire, beginning in OTHER_WIRES.items():
        if beginning.match(head):
            return f"wire type {wire} is not supported"
    return None
