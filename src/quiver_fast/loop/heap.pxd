from libc.stdint cimport int64_t, uint32_t

# A due time, and the item's note of its place: 0 while it is in no heap.
cdef struct Slot:
    int64_t due
    uint32_t *place

# The earliest is slots[0]. A zeroed heap is empty.
cdef struct Heap:
    Slot *slots
    uint32_t count
    uint32_t capacity

cdef bint heap_put(Heap *heap, int64_t due, uint32_t *place) noexcept nogil
cdef void heap_take(Heap *heap, uint32_t *place) noexcept nogil
cdef void heap_free(Heap *heap) noexcept nogil

cdef inline int64_t heap_first(const Heap *heap) noexcept nogil:
    """Return the earliest due time; 0 if there is none."""
    return heap.slots[0].due if heap.count else 0
