"""Repair of a cycle file's index from a walk (A.10, rule 7).

The index before the first slot of the walk stays unchanged. Functions that return bint say
whether they changed the file, or whether there was memory.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp

from quiver_fast.queuefile.cyclefile cimport CycleFile, load_long, slots_of, store_long

# Events of index documents (A.3): code, length, name.
cdef const char *PAGE_EVENT = b"\xb9\x05index"
cdef size_t PAGE_EVENT_SIZE = 7
cdef const char *TOP_EVENT = b"\xb9\x0bindex2index"
cdef size_t TOP_EVENT_SIZE = 13


cdef bint push(Longs *longs, int64_t value) noexcept nogil:
    cdef size_t room
    cdef void *items
    if longs.size == longs.room:
        room = 2 * longs.room + 64
        items = realloc(longs.items, 8 * room)
        if items == NULL:
            return False
        longs.items = <int64_t *>items
        longs.room = room
    longs.items[longs.size] = value
    longs.size += 1
    return True


cdef bint has(const Longs *longs, int64_t value) noexcept nogil:
    cdef size_t i
    for i in range(longs.size):
        if longs.items[i] == value:
            return True
    return False


cdef void forget(Walked *walked) noexcept nogil:
    """Free the notes."""
    free(walked.entries.items)
    free(walked.pages.items)
    free(walked.numbers.items)


cdef bint note_entry(Walked *walked, size_t at) noexcept nogil:
    """Note an entry that has a slot."""
    return push(&walked.entries, at)


cdef bint is_page(const CycleFile *file, size_t at) noexcept nogil:
    return (slots_of(file, at) != 0
            and memcmp(file.base + at + 4, PAGE_EVENT, PAGE_EVENT_SIZE) == 0)


cdef bint is_top(const CycleFile *file, size_t at) noexcept nogil:
    return (slots_of(file, at) != 0
            and memcmp(file.base + at + 4, TOP_EVENT, TOP_EVENT_SIZE) == 0)


cdef bint has_named_index(const CycleFile *file) noexcept nogil:
    """Say whether the page of pages and every page that it links have their names.

    After the repair, a page without its name is no part of the index: no walk may begin there.
    """
    cdef size_t top = <size_t>load_long(file.base + file.index2index_word)
    cdef size_t pages
    cdef size_t at
    cdef int64_t number
    if not is_top(file, top):
        return False
    pages = slots_of(file, top)
    for number in range(file.count):
        at = <size_t>load_long(file.base + pages + 8 * number)
        if slots_of(file, at) != 0 and not is_page(file, at):
            return False
    return True


cdef bint note_page(
        const CycleFile *file, Walked *walked, size_t at, int64_t sequence) noexcept nogil:
    """Note the meta-data at ``at`` if it is an index document; ``sequence`` comes next."""
    if is_top(file, at):
        walked.top = walked.top or at
        if <size_t>load_long(file.base + file.index2index_word) == at:
            walked.top_known = True
    elif is_page(file, at):
        # A page is written beside the first entry that it indexes (A.4).
        return (push(&walked.pages, at)
                and push(&walked.numbers, sequence // (file.count * file.spacing)))
    return True


cdef bint set_long(CycleFile *file, size_t at, int64_t value) noexcept nogil:
    """Store a word if it differs."""
    if load_long(file.base + at) == value:
        return False
    store_long(file.base + at, value)
    return True


cdef bint repair_index(
        CycleFile *file, Walked *walked, int64_t sequence) noexcept nogil:
    """Set every slot and `used` of the walked part, up to ``sequence``."""
    cdef int64_t number = walked.first // (file.count * file.spacing)
    cdef bint changed = False
    cdef size_t pages
    cdef size_t slots
    if walked.start == file.first_document and not walked.top_known:
        # Without one, readers go from the start.
        changed = set_long(file, file.index2index_word, walked.top)
    pages = slots_of(file, <size_t>load_long(file.base + file.index2index_word))
    if pages == 0:
        return changed
    changed |= link_pages(file, walked, pages)
    for number in range(number, file.count):
        slots = slots_of(file, <size_t>load_long(file.base + pages + 8 * number))
        if slots:
            changed |= fill_page(file, walked, slots, number, sequence)
    return changed


cdef bint link_pages(CycleFile *file, Walked *walked, size_t pages) noexcept nogil:
    """Set the page of pages: every page that was met, and those before the walk's start."""
    cdef int64_t *owners = <int64_t *>calloc(file.count, 8)
    cdef bint changed = False
    cdef int64_t number
    if owners == NULL:
        walked.failed = True
        return False
    keep_links(file, walked, pages, owners)
    for number in range(file.count):
        changed |= set_long(file, pages + 8 * number, owners[number])
    free(owners)
    return set_used(file, pages) | changed


cdef void keep_links(
        CycleFile *file, Walked *walked, size_t pages, int64_t *owners) noexcept nogil:
    """Decide the number of each page: by its link if that is plausible, else by its place."""
    cdef Longs taken = Longs(owners, file.count, 0)
    cdef int64_t number
    cdef int64_t link
    cdef size_t i
    for number in range(file.count):
        link = load_long(file.base + pages + 8 * number)
        if 0 < link < <int64_t>walked.start and is_page(file, <size_t>link) and (
                not has(&taken, link)):
            owners[number] = link
    for i in range(walked.pages.size):
        number = walked.numbers.items[i]
        if number >= file.count:
            continue
        link = load_long(file.base + pages + 8 * number)
        if owners[number] == 0 or link == walked.pages.items[i]:
            owners[number] = walked.pages.items[i]
    # A page may have been written late, and be anywhere.
    for number in range(file.count):
        link = load_long(file.base + pages + 8 * number)
        if owners[number] == 0 and link and has(&walked.pages, link) and not has(&taken, link):
            owners[number] = link


cdef bint fill_page(
        CycleFile *file, Walked *walked, size_t slots, int64_t number,
        int64_t sequence) noexcept nogil:
    """Set the slots of a page for walked entries."""
    cdef int64_t first = walked.first // file.spacing
    cdef int64_t end = (sequence + file.spacing - 1) // file.spacing
    cdef int64_t slot
    cdef int64_t entry
    cdef bint changed = False
    for slot in range(file.count):
        entry = number * file.count + slot
        if entry >= first:
            changed |= set_long(
                file, slots + 8 * slot, walked.entries.items[entry - first] if entry < end else 0)
    return set_used(file, slots) | changed


cdef bint set_used(CycleFile *file, size_t slots) noexcept nogil:
    """Set the number of used slots: up to the highest one."""
    cdef int64_t slot
    cdef int64_t used = 0
    for slot in range(file.count):
        if load_long(file.base + slots + 8 * slot):
            used = slot + 1
    return set_long(file, slots - 8, used)
