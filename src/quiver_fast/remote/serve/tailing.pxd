from libc.stdint cimport int64_t

from quiver_fast.remote.serve.outbox cimport Outbox
from quiver_fast.remote.serve.reply cimport Failure
from quiver_fast.remote.serve.store cimport Entry
from quiver_fast.remote.serve.target cimport Target, Wait

# The result of a waiting request.
cdef enum Answer:
    ANSWERED
    NOTHING_YET
    NO_MEMORY_YET

cdef class Tailing(Outbox):
    # The targets with waits, and the number of their waits.
    cdef Target *waiting
    cdef int wait_count
    cdef bint ended             # nothing more is taken; pending replies go out
    cdef bint congested         # waits remain because of too much output, or no memory

    cdef bint wait_for(self, Target *target, const Wait *wait, int64_t now) noexcept nogil
    cdef void answer_all(self, int64_t now) noexcept nogil
    cdef void answer_before_closing(self, Target *target) noexcept nogil
    cdef void answer(self, Target *target, int64_t now) noexcept nogil
    cdef Answer answer_wait(self, Target *target, const Wait *wait, int64_t now) noexcept nogil
    cdef Answer put_if_room(
        self, Target *target, const Wait *wait, Entry *entry) noexcept nogil
    cdef Answer put_batch(self, Target *target, const Wait *wait, Entry *entry) noexcept nogil
    cdef Answer fail_wait(
        self, const Wait *wait, Failure failure, const char *message) noexcept nogil
    cdef void drop_wait(self, Target *target) noexcept nogil
    cdef void abandon(self, Target *target) noexcept nogil
    cdef void list_target(self, Target *target) noexcept nogil
    cdef void unlist_target(self, Target *target) noexcept nogil
    cdef void dispose(self, Target *target) noexcept nogil

cdef bint is_beyond(const Target *target, int64_t index, char *message) noexcept nogil
