from libc.stdint cimport int64_t

from quiver_fast.arrivals cimport Arrivals
from quiver_fast.arrow.run.delays cimport Cause, Delays, Waits

cdef class Pacer:
    cdef int64_t rate

    cdef int64_t due(self, int64_t elapsed) noexcept nogil
    cdef int64_t intended(self, int64_t index) noexcept nogil


cdef extern from *:
    """
    __extension__ typedef __int128 quiver_int128;
    """
    ctypedef long long int128 "quiver_int128"


cdef struct PieceStart:
    # When it begins, in nanoseconds, and its rate in billionths of a message per second.
    int64_t begin
    int64_t rate
    # The parts of messages that are due before it.
    int128 before


cdef class SteppedPacer(Pacer):
    cdef PieceStart *pieces
    cdef Py_ssize_t count
    # The piece of the last call: time and messages rarely go back.
    cdef Py_ssize_t place

    cdef int128 parts(self, int64_t elapsed) noexcept nogil
    cdef int64_t time_of(self, int128 parts) noexcept nogil


cdef class SharePacer(Pacer):
    cdef Pacer whole
    cdef int64_t number
    cdef int64_t ends


cdef class PoissonPacer(Pacer):
    cdef SteppedPacer whole
    cdef Arrivals arrivals
    # The parts of a message of all ends for a unit of a position.
    cdef int128 unit


cdef class Schedule:
    cdef Pacer pacer
    # The schedules of many ends share one.
    cdef readonly Delays delays
    cdef Waits waits
    # When its sender asked to be woken; 0 for at once.
    cdef int64_t wakes
    cdef int64_t clock_base
    # When it began, by the monotonic clock; 0 before.
    cdef int64_t start

    cdef int begin(self, int64_t now) noexcept nogil
    cdef void note(self, Cause cause, int64_t now) noexcept nogil
    cdef bint was_away(self, int64_t now) noexcept nogil
    cdef int64_t sleep_until(self, int64_t wake, int64_t now) noexcept nogil
    cdef int64_t due(self, int64_t now) noexcept nogil
    cdef int64_t send_time(self, int64_t index) noexcept nogil
    cdef int64_t wake(self, int64_t index) noexcept nogil
    cdef object passed_until(self, int64_t moment)


cdef class BacklogSchedule(Schedule):
    # Messages before it begins.
    cdef int64_t backlog
