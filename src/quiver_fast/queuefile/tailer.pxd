from libc.stdint cimport int64_t, uint32_t

from quiver_fast.queuefile.cyclefile cimport CycleFile

cdef enum Step:
    TAILER_FAILED = -1
    TAILER_AT_END = 0
    TAILER_FOUND = 1

cdef class Tailer:
    cdef readonly object directory  # type: Path
    cdef object roll
    cdef CycleFile file
    cdef int64_t cycle
    cdef int shift
    # The next document, and its sequence if it is data.
    cdef size_t at
    cdef int64_t sequence
    # Offsets, divided by 4, of marked entries that a seek passed; 0 is unknown.
    cdef uint32_t *marks
    cdef size_t marks_size
    # The reason of the last failure: an error number, and an exception if it says more.
    cdef int error
    cdef object refusal
    cdef bint interrupted
    # The function that is told of damage, and the reported damage: files and offsets.
    cdef object tell
    cdef bint tells
    cdef set told
    # When the directory was last searched for later files (monotonic ns).
    cdef int64_t looked_at

    # The entry's bytes stay valid until the tailer's next call.
    cdef Step next(self, const char **start, size_t *size, int64_t *index) noexcept nogil
    cdef Step seek(self, int64_t index) noexcept nogil
    cdef int64_t position(self) noexcept nogil
    cdef void let_descriptor_go(self) noexcept nogil
    cdef Step next_meta(
        self, const char **start, size_t *size, int64_t *index, bint *meta) noexcept nogil

    cdef bint from_mark(self, int64_t wanted) noexcept nogil
    cdef void set_mark(self, int64_t sequence, size_t at) noexcept nogil
    cdef void forget_marks(self) noexcept nogil
    cdef void step_to(self, int64_t wanted) noexcept nogil
    cdef bint whole(self, uint32_t *header) noexcept nogil
    cdef Step step_cycle(self, uint32_t header) noexcept nogil
    cdef Step look_for_later(self) noexcept with gil
    cdef Step open_file(self, int64_t cycle) noexcept with gil
    cdef int pass_by(self, object path, int error) except -1
    cdef int report(self, object path, size_t at, str reason) except -1
    cdef int report_here(self, str reason) except -1
    cdef bint passed(self) noexcept with gil
    cdef bint pass_damage(self, bint ended) except -1
    cdef Step fail(self, object error) noexcept
    cdef Step interrupt(self) noexcept
    cdef int open_at(self, int64_t cycle) except -1
