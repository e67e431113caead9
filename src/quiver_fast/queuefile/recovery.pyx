"""Repair of a cycle file after a crash (A.10).

Only the headers of documents are trusted. Words and index slots are hints, and are set
from the walk. Entries that may have been acknowledged are kept; all others are dropped.
A second run changes nothing.
"""

from libc cimport errno
from libc.errno cimport EINTR, ENOMEM, EOPNOTSUPP
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset
from posix.unistd cimport lseek

from quiver_fast.queuefile.checkpoint cimport next_covered
from quiver_fast.queuefile.cyclefile cimport (
    END_OF_FILE, LENGTH_MASK, META_DATA, NOT_READY, CycleFile, cycle_remap, cycle_slot, is_data,
    load, next_document, round_up, slots_of, store, system_page,
)
from quiver_fast.queuefile.reindex cimport (
    Walked, forget, has_named_index, note_entry, note_page, repair_index, set_long,
)

cdef extern from "<fcntl.h>" nogil:
    int fallocate(int fd, int mode, long offset, long length)
    int posix_fallocate(int fd, long offset, long length)
    const int FALLOC_FL_KEEP_SIZE
    const int FALLOC_FL_PUNCH_HOLE

cdef extern from "<unistd.h>" nogil:
    const int SEEK_DATA

# Recovery fills an abandoned reservation with this: pad of binary wire.
cdef uint8_t FILLER = 0x8F
# Java's text after an end mark (A.2).
cdef const char *END_TEXT = b"\xc3EOF"
# So many documents after an abandoned reservation are plausible (rule 4).
cdef int PLAUSIBLE = 3


# The part of a file that is known to be on disk (rule 8).
cdef struct Trust:
    # Entries up to this sequence.
    int64_t sequence
    # Documents between these offsets: a checkpoint covers them.
    size_t covered_from
    size_t covered_until
    # The check of text entries beyond both; NULL for any UTF-8.
    TextCheck text_check


cdef bint plausible_run(const CycleFile *file, size_t at) noexcept nogil:
    """Say whether documents, or the free end of the file, begin at ``at`` (rule 4)."""
    cdef uint32_t header
    cdef int seen = 0
    while seen < PLAUSIBLE:
        if at + 4 > file.size:
            return seen > 0
        header = load(file.base + at)
        if header == 0 or header == END_OF_FILE:
            return seen > 0
        if header & NOT_READY or at + 4 + (header & LENGTH_MASK) > file.size:
            return False
        seen += 1
        at = next_document(at, header)
    return True


cdef size_t utf8_size(const uint8_t *at, size_t left) noexcept nogil:
    """Return the length of the character at ``at``; 0 if it is not UTF-8."""
    cdef uint8_t first = at[0]
    cdef size_t size = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    cdef size_t i
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF4 or size > left:
        return 0
    for i in range(1, size):
        if at[i] & 0xC0 != 0x80:
            return 0
    # Overlong forms, surrogates, beyond the last character.
    if (first == 0xE0 and at[1] < 0xA0 or first == 0xED and at[1] > 0x9F
            or first == 0xF0 and at[1] < 0x90 or first == 0xF4 and at[1] > 0x8F):
        return 0
    return size


cdef bint is_text(const uint8_t *at, size_t size) noexcept nogil:
    """Say whether Part C allows the bytes in a text: UTF-8 without control characters.

    A page that did not reach the disk reads as NULs, which are not allowed (rule 8).
    """
    cdef size_t step
    while size:
        if at[0] < 0x20 and at[0] != c"\t" and at[0] != c"\n" and at[0] != c"\r" or at[0] == 0x7F:
            return False
        step = utf8_size(at, size)
        if step == 0:
            return False
        at += step
        size -= step
    return True


cdef bint is_filler(const uint8_t *at, size_t size) noexcept nogil:
    """Say whether a document is a repaired, abandoned reservation (rule 4)."""
    cdef size_t i
    for i in range(size):
        if at[i] != FILLER:
            return False
    return True


cdef bint survived(
        const CycleFile *file, size_t at, uint32_t header, Trust *trust) noexcept nogil:
    """Say whether a document is whole, although no sync is known to cover it (rule 8)."""
    cdef const uint8_t *content = <const uint8_t *>file.base + at + 4
    cdef size_t size = header & LENGTH_MASK
    if at >= trust.covered_until:
        next_covered(file, at, &trust.covered_from, &trust.covered_until)
    if at >= trust.covered_from and at < trust.covered_until:
        return True
    if content[0] < 0x80:
        if header & META_DATA or trust.text_check == NULL:
            return is_text(content, size)
        return trust.text_check(<const char *>content, size)
    # Raw bytes cannot be checked; an index page is repaired anyway.
    return header & META_DATA and (slots_of(file, at) != 0 or is_filler(content, size))


cdef bint lands_on(
        const CycleFile *file, size_t at, int64_t sequence, size_t place,
        int64_t there) noexcept nogil:
    """Say whether a walk from one entry reaches ``place`` with the sequence ``there``."""
    cdef uint32_t header
    while at < place:
        header = load(file.base + at)
        if header == 0 or header & NOT_READY:
            return False
        if is_data(header):
            if sequence == there:
                return False
            sequence += 1
        at = next_document(at, header)
    return at == place and sequence == there


cdef size_t indexed_start(const CycleFile *file, int64_t *sequence) noexcept nogil:
    """Return the last indexed entry that survives (rule 2), or else the first document.

    A damaged slot may point to bytes that look like a document, so a slot counts only if
    the walk from the slot before it arrives there.
    """
    cdef int64_t earlier = 0
    cdef size_t before
    cdef size_t at
    if not has_named_index(file):
        return file.first_document
    at = cycle_slot(file, file.count * file.count * file.spacing - 1, sequence)
    while sequence[0] > 0:
        before = cycle_slot(file, sequence[0] - 1, &earlier)
        if lands_on(file, before, earlier, at, sequence[0]):
            return at
        at = before
        sequence[0] = earlier
    return file.first_document


cdef int cycle_repair(
        CycleFile *file, Extent *extent, int64_t trusted, bint from_index,
        TextCheck text_check) noexcept nogil:
    """Walk a file and repair it; return 0, or -1 with errno.

    Args:
        trusted: the last sequence that is known to be on disk; INT64_MAX if the machine
            did not stop, so that its memory was not lost.
        from_index: begin at the last indexed entry that survives, not at the first.
        text_check: the check of text entries that are not known to be on disk.
    """
    cdef Trust trust
    cdef Walked walked
    cdef int code = -1
    memset(extent, 0, sizeof(Extent))
    memset(&walked, 0, sizeof(Walked))
    trust = Trust(trusted, 0, 0, text_check)
    extent.tail = indexed_start(file, &extent.sequence) if from_index else file.first_document
    walked.start = extent.tail
    walked.first = extent.sequence
    while extent.tail + 4 <= file.size and step_over(file, extent, &trust, &walked):
        pass
    if not walked.failed:
        code = clear_from(file, extent.tail, extent)
    if code == 0:
        write_words(file, extent, &walked)
    forget(&walked)
    if walked.failed:
        errno.errno = ENOMEM
        return -1
    return code


cdef bint step_over(
        CycleFile *file, Extent *extent, Trust *trust, Walked *walked) noexcept nogil:
    """Judge the document at the tail and step over it; False if the tail is there."""
    cdef size_t at = extent.tail
    cdef uint32_t header = load(file.base + at)
    cdef uint32_t size = header & LENGTH_MASK
    if header == END_OF_FILE:
        extent.ended = True
        return False
    if header == 0 or header == NOT_READY or at + 4 + size > file.size:
        return False
    if header & NOT_READY:
        if not plausible_run(file, next_document(at, header)):
            return False
        # An abandoned reservation (rule 4): readers skip meta-data.
        memset(file.base + at + 4, FILLER, size)
        header = size | META_DATA
        store(file.base + at, header)
        extent.changed = True
    if size and extent.sequence > trust.sequence and not survived(file, at, header, trust):
        return False
    extent.changed |= clear_pad(file, at + 4 + size)
    if is_data(header):
        if extent.sequence % file.spacing == 0:
            walked.failed |= not note_entry(walked, at)
        extent.last = at
        extent.sequence += 1
    elif size:
        walked.failed |= not note_page(file, walked, at, extent.sequence)
    extent.tail = next_document(at, header)
    return not walked.failed


cdef inline bint clear_pad(CycleFile *file, size_t at) noexcept nogil:
    """Zero the pad between a document and the next one (A.2)."""
    cdef bint changed = False
    while at % 4 and at < file.size:
        if file.base[at]:
            file.base[at] = 0
            changed = True
        at += 1
    return changed


cdef int clear_from(CycleFile *file, size_t at, Extent *extent) noexcept nogil:
    """Zero the file from the tail at ``at`` on (rule 5), whole pages by a hole.

    An end mark stays, and Java's text after it.
    """
    cdef size_t border
    if extent.ended:
        at += 4
        if at + 4 <= file.size and memcmp(file.base + at, END_TEXT, 4) == 0:
            at += 4
    # No hole in a page: a store there would need disk space.
    border = min(round_up(at, system_page), file.size)
    if border > at:
        clear_dirt(file, at, border, extent)
    if border >= file.size:
        return 0
    # A hole and an unwritten part need no sync.
    extent.changed |= lseek(file.fd, border, SEEK_DATA) >= 0
    if fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                 border, file.size - border) == 0:
        return 0
    if errno.errno != EOPNOTSUPP:
        return -1
    clear_dirt(file, border, file.size, extent)
    return 0


cdef void clear_dirt(CycleFile *file, size_t at, size_t end, Extent *extent) noexcept nogil:
    """Zero the bytes that are not zero; writing zeros everywhere would take disk space."""
    cdef size_t i
    for i in range(at, end):
        if file.base[i] != 0:
            memset(file.base + i, 0, min(system_page, end - i))
            extent.changed = True


cdef void write_words(CycleFile *file, Extent *extent, Walked *walked) noexcept nogil:
    """Set the words and the index of a file from the walk (rule 7)."""
    cdef int64_t sequence = extent.sequence
    cdef int64_t indexed = (sequence + file.spacing - 1) // file.spacing * file.spacing
    cdef int64_t word = 0
    if sequence:
        word = <int64_t>((<uint64_t>extent.last << file.shift) | <uint64_t>(sequence - 1))
    extent.changed |= set_long(file, file.write_position, extent.last)
    extent.changed |= set_long(file, file.sequence_word, word)
    extent.changed |= set_long(file, file.last_index_word, indexed)
    extent.changed |= repair_index(file, walked, sequence)


cdef int fallocate_all(int fd, size_t start, size_t end) noexcept nogil:
    """Allocate disk space for a part of a file; return 0 or the error's number."""
    cdef int code = EINTR
    # tmpfs gives up for any signal.
    while code == EINTR:
        code = posix_fallocate(fd, start, end - start)
    return code


cdef int cycle_end(CycleFile *file, size_t tail) noexcept nogil:
    """Write the end mark at the tail (rule 6, A.8); return 0, or -1 with errno."""
    # A file of another writer may have a hole there: a store on a full disk would be a SIGBUS.
    cdef size_t end = max(tail + 4, min(round_up(tail + 4, system_page), file.size))
    errno.errno = fallocate_all(file.fd, tail // system_page * system_page, end)
    if errno.errno or cycle_remap(file) != 0:
        return -1
    store(file.base + tail, END_OF_FILE)
    return 0
