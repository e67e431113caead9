"""Arrivals at random, as those of independent users: a Poisson process without a clock.

The distance of each message from the one before has the exponential distribution of mean 1. It
follows from a seed and the message's number alone, by integers: so it is the same on all machines,
and nothing has to be kept. Positions are sums of distances, in millionths.
"""

from libc.stdint cimport int64_t, uint64_t

# The sequence of the generator splitmix64.
cdef uint64_t STEP = 0x9E3779B97F4A7C15
# So far apart in it do the draws of two messages begin. Few messages take more than 10.
cdef uint64_t DRAWS = 64
cdef int64_t MILLION = 1000000


cdef class Arrivals:
    """The positions of one sender's messages.

    Args:
        seed: the same seed gives the same positions.
        stream: the number of the sender: streams do not depend on each other.
        at_once: the first message has position 0.
    """

    def __init__(self, seed: int, stream: int, at_once: bool = False) -> None:
        self.base = mixed(mixed(<uint64_t>seed) + <uint64_t>stream)
        self.first = 0 if at_once else self.gap(0)
        self.asked.position = self.next.position = self.first

    cdef int64_t gap(self, int64_t index) noexcept nogil:
        """Return the distance of a message from the one before.

        By von Neumann's method: of random numbers that fall, the first is the distance if their
        count is odd; if it is even, the distance is longer by 1, and is drawn again.
        """
        cdef uint64_t state = self.base + <uint64_t>index * DRAWS * STEP
        cdef uint64_t first, last, drawn
        cdef int64_t whole = 0
        cdef bint is_odd = False
        while True:
            first = last = mixed(state)
            is_odd = True
            while True:
                state += STEP
                drawn = mixed(state)
                if drawn >= last:
                    break
                last = drawn
                is_odd = not is_odd
            if is_odd:
                return whole + <int64_t>((first >> 32) * <uint64_t>MILLION >> 32)
            whole += MILLION
            state += STEP

    cdef int64_t position_of(self, int64_t index) noexcept nogil:
        while self.asked.index < index:
            self.asked.index += 1
            self.asked.position += self.gap(self.asked.index)
        while self.asked.index > index:
            self.asked.position -= self.gap(self.asked.index)
            self.asked.index -= 1
        return self.asked.position

    cdef int64_t count(self, int64_t position) noexcept nogil:
        while self.next.position <= position:
            self.next.index += 1
            self.next.position += self.gap(self.next.index)
        return self.next.index

    def position(self, index: int) -> int:
        """Return the position of message ``index``, from 0."""
        return self.position_of(index)

    def count_until(self, position: int) -> int:
        """Return how many messages have this position or a lower one."""
        cdef int64_t before
        while self.next.index > 0:
            before = self.next.position - self.gap(self.next.index)
            if before <= position:
                break
            self.next.index -= 1
            self.next.position = before
        return self.count(position)

    def between(self, first: int, last: int) -> list[int]:
        """Return the positions from ``first`` to ``last``."""
        return [self.position_of(i)
                for i in range(self.count_until(first - 1), self.count_until(last))]


cdef inline uint64_t mixed(uint64_t state) noexcept nogil:
    """Return the number that splitmix64 draws at a state."""
    state = (state ^ state >> 30) * <uint64_t>0xBF58476D1CE4E5B9
    state = (state ^ state >> 27) * <uint64_t>0x94D049BB133111EB
    return state ^ state >> 31
