"""The index of a cycle file, as its writer keeps it: pages of slots, and the page of pages (A.4).

The functions that return bint say whether they changed the file.
"""

from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from quiver_fast.queuefile.cyclefile cimport (
    META_DATA, CycleFile, load_long, next_document, page_of, slots_of, store, store_long,
)

# An index page's event (A.3): code, length, name.
cdef const char *EVENT = b"\xb9\x05index"
cdef size_t EVENT_SIZE = 7
# Code of an array of longs, its capacity, and how many are used.
cdef size_t ARRAY_HEAD = 17


cdef bint set_long(CycleFile *file, size_t at, int64_t value) noexcept nogil:
    """Store a word if it is not so yet."""
    if load_long(file.base + at) == value:
        return False
    store_long(file.base + at, value)
    return True


cdef size_t page_size(size_t at, int64_t count) noexcept nogil:
    """Return the length of an index page at ``at``, without its header.

    After its event comes pad, so that the array's code is at 7 modulo 8 (A.3).
    """
    cdef size_t pad = (7 - (at + 4 + EVENT_SIZE) % 8) % 8
    return EVENT_SIZE + pad + ARRAY_HEAD + 8 * <size_t>count


cdef size_t page_word(const CycleFile *file, int64_t sequence) noexcept nogil:
    """Return where the offset of a sequence's page stands; 0 without a page of pages."""
    cdef int64_t number = sequence // (file.count * file.spacing)
    cdef size_t slots = slots_of(file, <size_t>load_long(file.base + file.index2index_word))
    # A file of others may have no index; its readers go from the start.
    return slots + 8 * number if slots and number < file.count else 0


cdef bint page_missing(const CycleFile *file, int64_t sequence) noexcept nogil:
    """Say whether the page that a sequence's slot is in has yet to be written."""
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
    (<int64_t *>(content + code + 1))[0] = file.count
    store(file.base + at, size | META_DATA)
    link_page(file, at, sequence)
    return following


cdef bint link_page(CycleFile *file, size_t at, int64_t sequence) noexcept nogil:
    """Put the page at ``at`` into the page of pages if a sequence's page is missing there."""
    cdef size_t word = page_word(file, sequence)
    cdef size_t slots
    cdef int64_t number = sequence // (file.count * file.spacing)
    if (not page_missing(file, sequence) or slots_of(file, at) == 0
            or memcmp(file.base + at + 4, EVENT, EVENT_SIZE) != 0):
        return False
    store_long(file.base + word, at)
    slots = word - 8 * number
    if load_long(file.base + slots - 8) < number + 1:
        store_long(file.base + slots - 8, number + 1)
    return True


cdef bint index_entry(CycleFile *file, int64_t sequence, size_t at) noexcept nogil:
    """Put an entry whose sequence is a multiple of the spacing into its slot."""
    cdef int64_t slot = (sequence // file.spacing) % file.count
    cdef size_t slots = page_of(file, sequence // (file.count * file.spacing))
    cdef bint changed
    if slots == 0:
        return False
    changed = set_long(file, slots + 8 * slot, at)
    # `used` stands before the slots.
    if load_long(file.base + slots - 8) < slot + 1:
        changed = set_long(file, slots - 8, slot + 1)
    return changed


cdef bint trim_index(CycleFile *file, size_t tail, int64_t sequence) noexcept nogil:
    """Clear what names documents beyond the tail, or entries from ``sequence`` on (rule 7)."""
    cdef size_t pages = slots_of(file, <size_t>load_long(file.base + file.index2index_word))
    cdef int64_t filled = (sequence + file.spacing - 1) // file.spacing
    cdef int64_t used = 0
    cdef int64_t number
    cdef size_t at
    cdef bint changed = False
    if pages == 0:
        return False
    for number in range(file.count):
        at = <size_t>load_long(file.base + pages + 8 * number)
        if at == 0:
            continue
        if at >= tail or slots_of(file, at) == 0:
            changed |= set_long(file, pages + 8 * number, 0)
            continue
        used = number + 1
        if (number + 1) * file.count > filled:
            changed |= trim_page(file, slots_of(file, at), max(filled - number * file.count, 0))
    return set_long(file, pages - 8, used) | changed


cdef bint trim_page(CycleFile *file, size_t slots, int64_t filled) noexcept nogil:
    """Clear a page's slots from ``filled`` on."""
    cdef int64_t slot
    cdef int64_t used = 0
    cdef bint changed = False
    for slot in range(filled, file.count):
        changed |= set_long(file, slots + 8 * slot, 0)
    for slot in range(filled):
        if load_long(file.base + slots + 8 * slot):
            used = slot + 1
    return set_long(file, slots - 8, used) | changed
