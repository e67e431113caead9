"""Checkpoints: meta-data documents with a checksum of the entries before a sync (A.11).

After a power loss they tell complete entries from those that only look complete:

    checkpoint: { seq: <n>, pos: <offset>, crc32c: <hex> }

``seq`` is the sequence of the next entry; ``crc32c`` covers header and content of
every document from ``pos`` to the checkpoint, in order, without index pages, whose
slots are filled in later. Pad is not covered.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdio cimport snprintf, sscanf
from libc.string cimport memcmp, memcpy

from quiver_fast.queuefile.cyclefile cimport (
    LENGTH_MASK, META_DATA, NOT_READY, CycleFile, load, next_document,
)

cdef extern from "crc32c.h" nogil:
    uint32_t quiver_crc(uint32_t crc, const char *at, size_t size)
    void quiver_crc_prepare()

cdef uint32_t FLIP = 0xFFFFFFFF
cdef const char *PREFIX = b"checkpoint: { "
cdef size_t PREFIX_SIZE = 14
cdef const char *INDEX_PAGE = b"\xb9\x05index"
cdef size_t INDEX_PAGE_SIZE = 7

quiver_crc_prepare()


cdef uint32_t add_document(
        uint32_t crc, uint32_t header, const char *content, size_t size) noexcept nogil:
    """Continue a checkpoint's sum over one document."""
    if (header & META_DATA and size >= INDEX_PAGE_SIZE
            and memcmp(content, INDEX_PAGE, INDEX_PAGE_SIZE) == 0):
        return crc
    crc = quiver_crc(crc ^ FLIP, <const char *>&header, 4)
    return quiver_crc(crc, content, size) ^ FLIP


cdef size_t put_checkpoint(
        char *out, int64_t sequence, size_t position, uint32_t crc) noexcept nogil:
    """Write a checkpoint's text to ``out``, CHECKPOINT_MAX bytes; return its size."""
    return snprintf(out, CHECKPOINT_MAX, b"checkpoint: { seq: %lld, pos: %llu, crc32c: %08x }",
                    <long long>sequence, <unsigned long long>position, crc)


cdef bint is_checkpoint(const char *content, size_t size) noexcept nogil:
    return size > PREFIX_SIZE and memcmp(content, PREFIX, PREFIX_SIZE) == 0


cdef bint parse_checkpoint(
        const char *content, size_t size, size_t *position, uint32_t *crc) noexcept nogil:
    cdef char[CHECKPOINT_MAX] text
    cdef char[CHECKPOINT_MAX] again
    cdef long long sequence
    cdef unsigned long long at
    cdef unsigned int value
    if size >= CHECKPOINT_MAX:
        return False
    memcpy(text, content, size)
    text[size] = 0
    if sscanf(text, b"checkpoint: { seq: %lld, pos: %llu, crc32c: %8x }",
              &sequence, &at, &value) != 3:
        return False
    # Damaged text may still look like numbers to sscanf.
    if put_checkpoint(again, sequence, at, value) != size or memcmp(again, text, size) != 0:
        return False
    position[0] = at
    crc[0] = value
    return True


cdef void next_covered(
        const CycleFile *file, size_t at, size_t *start, size_t *end) noexcept nogil:
    """Find the documents that the next checkpoint from ``at`` on covers: ``start`` to ``end``.

    ``end`` is the offset of the checkpoint, or the end of the documents if there is none.
    Nothing is covered if both are the same.
    """
    cdef uint32_t header
    cdef uint32_t crc
    cdef uint32_t size
    while at + 4 <= file.size:
        header = load(file.base + at)
        size = header & LENGTH_MASK
        if header == 0 or header & NOT_READY or at + 4 + size > file.size:
            break
        if header & META_DATA and is_checkpoint(file.base + at + 4, size):
            end[0] = next_document(at, header)
            if not (parse_checkpoint(file.base + at + 4, size, start, &crc)
                    and sum_between(file, start[0], at, crc)):
                start[0] = end[0]
            return
        at = next_document(at, header)
    start[0] = end[0] = at


cdef bint sum_between(
        const CycleFile *file, size_t at, size_t end, uint32_t expected) noexcept nogil:
    """Say whether the documents between two offsets have the expected sum."""
    cdef uint32_t header
    cdef uint32_t crc = 0
    if at % 4 or at < file.first_document:
        return False
    while at < end:
        header = load(file.base + at)
        if at + 4 + (header & LENGTH_MASK) > end:
            return False
        crc = add_document(crc, header, file.base + at + 4, header & LENGTH_MASK)
        at = next_document(at, header)
    return at == end and crc == expected
