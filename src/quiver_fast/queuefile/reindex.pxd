from libc.stdint cimport int64_t

from quiver_fast.queuefile.cyclefile cimport CycleFile

# Longs that become more.
cdef struct Longs:
    int64_t *items
    size_t size
    size_t room

# What a walk met that the index should know.
cdef struct Walked:
    # The offset where it began, and the sequence of the first entry from there on.
    size_t start
    int64_t first
    # Offsets of the entries whose sequence is a multiple of the spacing, from `first` on.
    Longs entries
    # Offsets of the index pages, and the numbers that their places say.
    Longs pages
    Longs numbers
    # The first page of pages; 0 for none. Whether there is one where the header's word says.
    size_t top
    bint top_known
    # No memory was left.
    bint failed

cdef bint is_page(const CycleFile *file, size_t at) noexcept nogil
cdef bint is_top(const CycleFile *file, size_t at) noexcept nogil
cdef bint has_named_index(const CycleFile *file) noexcept nogil
cdef bint note_entry(Walked *walked, size_t at) noexcept nogil
cdef bint note_page(
    const CycleFile *file, Walked *walked, size_t at, int64_t sequence) noexcept nogil
cdef void forget(Walked *walked) noexcept nogil
cdef bint set_long(CycleFile *file, size_t at, int64_t value) noexcept nogil
cdef bint repair_index(
    CycleFile *file, Walked *walked, int64_t sequence) noexcept nogil
