"""Frames of messages that have come before they may be taken: bytes in memory, in their order.

    arrival · payload · arrival · payload · …

What holds it within bounds is the session's window: it is given again when a frame is taken.
"""

from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from quiver_fast.amqp.data_plane cimport amqp_arrival_t

cdef size_t FIRST_CAPACITY = 65536


cdef class Backlog:
    """A queue of arrivals and their payloads."""

    def __dealloc__(self) -> None:
        free(self.memory)

    cdef int put(self, const amqp_arrival_t *arrival) except -1 nogil:
        """Append a copy of a frame's arrival; of its bytes only the payload is kept.

        Raises MemoryError.
        """
        cdef size_t size = sizeof(amqp_arrival_t) + arrival.payload.size
        if self.capacity - self.end < size:
            self.make_room(size)
        memcpy(self.memory + self.end, arrival, sizeof(amqp_arrival_t))
        if arrival.payload.size:
            memcpy(self.memory + self.end + sizeof(amqp_arrival_t),
                   arrival.payload.start, arrival.payload.size)
        self.end += size
        self.frames += 1
        self.messages += arrival.first
        return 0

    cdef int make_room(self, size_t size) except -1 nogil:
        cdef size_t capacity = max(self.capacity, FIRST_CAPACITY)
        cdef uint8_t *larger
        if self.begin:
            memmove(self.memory, self.memory + self.begin, self.end - self.begin)
            self.end -= self.begin
            self.begin = 0
        while capacity - self.end < size:
            capacity *= 2
        larger = <uint8_t *>realloc(self.memory, capacity)
        if larger == NULL:
            with gil:
                raise MemoryError("no memory for messages that wait")
        self.memory = larger
        self.capacity = capacity
        return 0

    cdef int take(self, amqp_arrival_t *arrival) noexcept nogil:
        """Take the oldest frame; its payload is valid until the next `put`. There has to be one."""
        memcpy(arrival, self.memory + self.begin, sizeof(amqp_arrival_t))
        self.begin += sizeof(amqp_arrival_t)
        arrival.payload.start = self.memory + self.begin
        self.begin += arrival.payload.size
        self.frames -= 1
        self.messages -= arrival.first
        if self.begin == self.end:
            self.begin = self.end = 0
        return 0
