"""Rebuild damaged heads of cycle files from their entries (A.10 rule 1).

A file begins with three documents: the header, the page of pages, the first index page (A.4).
They are the same in every file of a roll cycle, except for words that recovery sets anyway. So
the place of the first entry is known. If documents begin there, the file is one of the queue's,
however damaged its head is.

If the header is readable, the undamaged bytes of the index documents identify them.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp, memcpy

from quiver_fast.queuefile.cyclefile cimport (
    META_DATA, NOT_READY, CycleFile, cycle_understand, load, put32, slots_of,
)
from quiver_fast.queuefile.layout import cycle_file_head, index_document
from quiver_fast.queuefile.recovery cimport plausible_run
from quiver_fast.queuefile.reindex cimport is_page, is_top

# The offsets of the words and of the end of every header (A.4).
cdef size_t WRITE_POSITION = 0x40
cdef size_t INDEX2INDEX = 0x98
cdef size_t LAST_INDEX = 0xB0
cdef size_t HEAD = 200
# Bytes of an index document before its name.
cdef size_t EVENT = 4


cdef bytes fixed_part(size_t at, str name, int64_t count):
    """Return the constant bytes of an index document: all before `used` and the slots."""
    return index_document(at, name, count)[:-8 * (count + 1)]


cdef bint rebuild_head(CycleFile *file, object roll) except -1:
    """Rebuild an unreadable header; False if the entries do not determine it.

    Args:
        roll: the queue's roll cycle.
    """
    if not plausible_run(file, first_entry(roll.count)):
        return False
    put(file, 0, cycle_file_head(roll, HEAD))
    put_pages(file, roll.count)
    return cycle_understand(file)


cdef bint mend_length(CycleFile *file) except -1:
    """Mend the length of the first document; say whether it was wrong.

    If its words and the index documents are at their places, the length is that of all files. With
    a wrong length the walk would begin elsewhere, and clear all entries.
    """
    cdef size_t first
    if file.first_document == HEAD or not has_usual_words(file):
        return False
    first = HEAD + len(index_document(HEAD, "index2index", file.count))
    if not (is_known(file, HEAD, "index2index") and is_known(file, first, "index")):
        return False
    put32(file.base, META_DATA | <uint32_t>(HEAD - EVENT))
    cycle_understand(file)
    return True


cdef bint has_usual_words(const CycleFile *file) noexcept nogil:
    return (file.write_position == WRITE_POSITION and file.index2index_word == INDEX2INDEX
            and file.last_index_word == LAST_INDEX)


cdef bint mend_pages(CycleFile *file) except -1:
    """Rebuild the damaged heads of index documents; say whether there was one.

    Their undamaged bytes must identify them, because files of others may have no index. The
    walk needs the heads: a wrong length leads it into the middle of an entry.
    """
    cdef size_t first = HEAD + len(index_document(HEAD, "index2index", file.count))
    if file.first_document != HEAD or not has_usual_words(file):
        return False
    if is_top(file, HEAD) and is_page(file, first):
        return False
    if not (is_known(file, HEAD, "index2index") and is_known(file, first, "index")):
        return False
    put_pages(file, file.count)
    return True


cdef bint is_known(const CycleFile *file, size_t at, str name) except -1:
    """Say whether an index document is at a place: its header or its name is.

    Files are complete before they get their name, so a header of *not ready* is damage too.
    """
    cdef bytes expected = fixed_part(at, name, file.count)
    cdef const char *start = expected
    cdef size_t event = 2 + len(name)
    if at + len(expected) > file.size:
        return False
    if slots_of(file, at) != 0 or memcmp(file.base + at + EVENT, start + EVENT, event) == 0:
        return True
    return load(file.base + at) & ~NOT_READY == load(start)


cdef size_t first_entry(int64_t count) except 0:
    """Return the offset of a file's first entry."""
    cdef size_t first = HEAD + len(index_document(HEAD, "index2index", count))
    return first + len(index_document(first, "index", count))


cdef int put_pages(CycleFile *file, int64_t count) except -1:
    cdef size_t first = HEAD + len(index_document(HEAD, "index2index", count))
    put(file, HEAD, fixed_part(HEAD, "index2index", count))
    put(file, first, fixed_part(first, "index", count))
    return 0


cdef int put(CycleFile *file, size_t at, bytes content) except -1:
    memcpy(file.base + at, <const char *>content, len(content))
    return 0
