"""The sizes of a sender's bodies, where they differ: a random sequence with a seed."""

from libc.stdlib cimport calloc, free

from quiver_fast.body_sizes import largest_body


cdef class Sizes:
    """Sizes one after another, drawn from a mix.

    Messages come in blocks, in each of which every part has its share exactly: `100:80%,10k:20%`
    has one of 10,000 bytes in five. Their order within a block is drawn.

    Args:
        mix: see `quiver_fast.body_sizes`.
        seed: the same one gives the same sequence.
    """

    def __cinit__(self, mix, seed) -> None:
        self.count = len(mix)
        self.parts = <SizePart *>calloc(self.count, sizeof(SizePart))
        if self.parts == NULL:
            raise MemoryError("no memory for a mix of sizes")

    def __init__(self, mix: tuple[BodySize, ...], seed: int) -> None:
        for number, part in enumerate(mix):
            self.parts[number].least = part.least
            self.parts[number].span = part.most - part.least + 1
            self.parts[number].share = part.share
        self.largest = largest_body(mix)
        self.state = seed

    def __dealloc__(self) -> None:
        free(self.parts)

    cdef uint64_t below(self, uint64_t limit) noexcept nogil:
        """Return a number below ``limit``, which is 2^32 at most, each as likely: splitmix64."""
        cdef uint64_t mixed
        self.state += <uint64_t>0x9E3779B97F4A7C15ULL
        mixed = (self.state ^ (self.state >> 30)) * <uint64_t>0xBF58476D1CE4E5B9ULL
        mixed = (mixed ^ (mixed >> 27)) * <uint64_t>0x94D049BB133111EBULL
        mixed ^= mixed >> 31
        return ((mixed >> 32) * limit) >> 32

    cdef uint64_t next(self) noexcept nogil:
        """Return the size of the next body."""
        cdef SizePart *part = self.parts
        cdef int64_t place
        cdef int i
        if self.left == 0:
            for i in range(self.count):
                self.parts[i].left = self.parts[i].share
                self.left += self.parts[i].share
        place = <int64_t>self.below(<uint64_t>self.left)
        while place >= part.left:
            place -= part.left
            part += 1
        part.left -= 1
        self.left -= 1
        return part.least + self.below(part.span)
