"""The index of a cycle file, written by its appender: pages of slots, and the page of pages (A.4).

Its repair after a crash is in `reindex`.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memset

from quiver_fast.queuefile.cyclefile cimport (
    META_DATA, CycleFile, load_long, next_document, page_of, slots_of, store, store_long,
)

# An index page's event (A.3): code, length, name.
cdef const char *EVENT = b"\xb9\x05index"
cdef size_t EVENT_SIZE = 7
# Code of an array of longs, its capacity, and how many are used.
cdef size_t ARRAY_HEAD = 17


cdef size_t page_size(size_t at, int64_t count) noexcept nogil:
    """Return the length of an index page at ``at``, without its header.

    Pad follows its event, so that the array's code is at 7 modulo 8 (A.3).
    """
    cdef size_t pad = (7 - (at + 4 + EVENT_SIZE) % 8) % 8
    return EVENT_SIZE + pad + ARRAY_HEAD + 8 * <size_t>count


cdef size_t page_word(const CycleFile *file, int64_t sequence) noexcept nogil:
    """Return the place of the link to a sequence's page; 0 without a page of pages."""
    cdef int64_t number = sequence // (file.count * file.spacing)
    cdef size_t slots = slots_of(file, <size_t>load_long(file.base + file.index2index_word))
    # A file of others may have no index; its readers begin at the start.
    return slots + 8 * number if slots and number < file.count else 0


cdef bint page_missing(const CycleFile *file, int64_t sequence) noexcept nogil:
    """Say whether the page with a sequence's slot is still to be written."""
    cdef size_t word = page_word(file, sequence)
    return word != 0 and slots_of(file, <size_t>load_long(file.base + word)) == 0


cdef size_t write_page(CycleFile *file, size_t at, int64_t sequence) noexcept nogil:
    """Write the page of a sequence at the free offset ``at``; return the offset after it."""
    cdef uint32_t size = <uint32_t>page_size(at, file.count)
    cdef size_t following = next_document(at, size)
    cdef char *content = file.base + at + 4
    cdef size_t code = size - ARRAY_HEAD - 8 * <size_t>file.count
    # The pad and the next header too.
    memset(content, 0, following + 4 - (at + 4))
    memcpy(content, EVENT, EVENT_SIZE)
    memset(content + EVENT_SIZE, 0x8F, code - EVENT_SIZE)
    content[code] = <char>0x8D
    store_long(content + code + 1, file.count)
    store(file.base + at, size | META_DATA)
    link_page(file, at, sequence)
    return following


cdef void link_page(CycleFile *file, size_t at, int64_t sequence) noexcept nogil:
    """Link the page at ``at`` from the page of pages, as the page of a sequence."""
    cdef int64_t number = sequence // (file.count * file.spacing)
    cdef size_t word = page_word(file, sequence)
    cdef size_t slots = word - 8 * number
    store_long(file.base + word, at)
    # `used` stands before the slots.
    if load_long(file.base + slots - 8) < number + 1:
        store_long(file.base + slots - 8, number + 1)


cdef void index_entry(CycleFile *file, int64_t sequence, size_t at) noexcept nogil:
    """Put an entry whose sequence is a multiple of the spacing into its slot."""
    cdef int64_t slot = (sequence // file.spacing) % file.count
    cdef size_t slots = page_of(file, sequence // (file.count * file.spacing))
    if slots == 0:
        return
    store_long(file.base + slots + 8 * slot, at)
    if load_long(file.base + slots - 8) < slot + 1:
        store_long(file.base + slots - 8, slot + 1)
