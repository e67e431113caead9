"""A binary heap of due times, whose items know their place in it.

So removing any item takes O(log n).
"""

from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, realloc

cdef enum:
    FIRST_CAPACITY = 16
    # A heap that is a quarter full frees half of its memory.
    SHRINK = 4


cdef bint resize(Heap *heap, uint32_t capacity) noexcept nogil:
    cdef Slot *slots = <Slot *>realloc(heap.slots, capacity * sizeof(Slot))
    if slots == NULL:
        return False
    heap.slots = slots
    heap.capacity = capacity
    return True


cdef inline void settle(Heap *heap, uint32_t at, Slot slot) noexcept nogil:
    heap.slots[at] = slot
    slot.place[0] = at + 1


cdef void rise(Heap *heap, uint32_t at, Slot slot) noexcept nogil:
    """Move a slot up, until the one above is not later."""
    cdef uint32_t above
    while at > 0:
        above = (at - 1) // 2
        if heap.slots[above].due <= slot.due:
            break
        settle(heap, at, heap.slots[above])
        at = above
    settle(heap, at, slot)


cdef void sink(Heap *heap, uint32_t at, Slot slot) noexcept nogil:
    """Move a slot down, until none below is earlier."""
    cdef uint32_t below = 2 * at + 1
    while below < heap.count:
        if below + 1 < heap.count and heap.slots[below + 1].due < heap.slots[below].due:
            below += 1
        if slot.due <= heap.slots[below].due:
            break
        settle(heap, at, heap.slots[below])
        at = below
        below = 2 * at + 1
    settle(heap, at, slot)


cdef bint heap_put(Heap *heap, int64_t due, uint32_t *place) noexcept nogil:
    """Add an item that is in no heap; False without memory."""
    cdef Slot slot
    if heap.count == heap.capacity and not resize(
            heap, 2 * heap.capacity if heap.capacity else <uint32_t>FIRST_CAPACITY):
        return False
    slot.due = due
    slot.place = place
    heap.count += 1
    rise(heap, heap.count - 1, slot)
    return True


cdef void heap_take(Heap *heap, uint32_t *place) noexcept nogil:
    """Remove an item, if it is in the heap."""
    cdef uint32_t at = place[0] - 1
    cdef Slot last
    if place[0] == 0:
        return
    place[0] = 0
    heap.count -= 1
    last = heap.slots[heap.count]
    if at < heap.count:
        if at > 0 and last.due < heap.slots[(at - 1) // 2].due:
            rise(heap, at, last)
        else:
            sink(heap, at, last)
    if heap.capacity > FIRST_CAPACITY and heap.count < heap.capacity // SHRINK:
        resize(heap, heap.capacity // 2)


cdef void heap_free(Heap *heap) noexcept nogil:
    """Free an empty heap's memory."""
    free(heap.slots)
    heap.slots = NULL
    heap.count = 0
    heap.capacity = 0
