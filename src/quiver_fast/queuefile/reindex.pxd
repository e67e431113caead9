from libc.stdint cimport int64_t

from quiver_fast.queuefile.cyclefile cimport CycleFile

# A growing array of longs.
cdef struct Longs:
    int64_t *items
    size_t size
    size_t room

# The entries and index pages that a walk met.
cdef struct Walked:
    # Its first offset, and the sequence of the first entry from there on.
    size_t start
    int64_t first
    # Offsets of the entries whose sequence is a multiple of the spacing, from `first` on.
    Longs entries
    # Offsets of the index pages, and their numbers by their places.
    Longs pages
    Longs numbers
    # The first page of pages, 0 for none; and whether there is one at the header's word.
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
