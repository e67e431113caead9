# A growing piece of memory that is filled at its end and emptied from its start.
# Nothing but inline functions, so there is no module of this name.

from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

cdef enum:
    # The most memory that an empty buffer keeps; thousands of connections have two each.
    KEPT_CAPACITY = 16384
    # A larger buffer grows only by the needed size, or by a quarter: unused memory counts too.
    LARGE_CAPACITY = 1048576

cdef struct Buffer:
    char *memory
    size_t start        # bytes before it are taken already
    size_t used
    size_t capacity


cdef inline size_t pending(const Buffer *buffer) noexcept nogil:
    return buffer.used - buffer.start


cdef inline void release(Buffer *buffer) noexcept nogil:
    free(buffer.memory)
    buffer.memory = NULL
    buffer.start = buffer.used = buffer.capacity = 0


cdef inline char *reserve(Buffer *buffer, size_t size) noexcept nogil:
    """Return the place for ``size`` more bytes; NULL without memory for them."""
    cdef size_t capacity = buffer.capacity
    cdef char *memory
    if capacity - buffer.used >= size:
        return buffer.memory + buffer.used
    if buffer.start > 0:
        memmove(buffer.memory, buffer.memory + buffer.start, buffer.used - buffer.start)
        buffer.used -= buffer.start
        buffer.start = 0
    if buffer.used + size > LARGE_CAPACITY:
        if capacity < buffer.used + size:
            # With some room for the end of a reply.
            capacity = max(buffer.used + size + 4096, capacity + capacity // 4)
    while capacity - buffer.used < size:
        capacity = 2 * capacity if capacity else 1024
    if capacity > buffer.capacity:
        memory = <char *>realloc(buffer.memory, capacity)
        if memory == NULL:
            return NULL
        buffer.memory = memory
        buffer.capacity = capacity
    return buffer.memory + buffer.used


cdef inline bint append(Buffer *buffer, const char *bytes, size_t size) noexcept nogil:
    cdef char *out = reserve(buffer, size)
    if out == NULL:
        return False
    memcpy(out, bytes, size)
    buffer.used += size
    return True


cdef inline void discard(Buffer *buffer, size_t size) noexcept nogil:
    """Forget the first ``size`` bytes; free large memory with the last of them."""
    buffer.start += size
    if buffer.start < buffer.used:
        return
    buffer.start = buffer.used = 0
    if buffer.capacity > KEPT_CAPACITY:
        release(buffer)
