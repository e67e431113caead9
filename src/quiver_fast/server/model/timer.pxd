from libc.stdint cimport int64_t

from quiver_fast.server.model.structures cimport Container, Timer

cdef void timer_set(Container *container, Timer *timer, int64_t due) noexcept nogil
cdef void timer_advance(Container *container, Timer *timer, int64_t due) noexcept nogil
cdef void timer_clear(Container *container, Timer *timer) noexcept nogil
cdef void timers_ring(Container *container, int64_t now) noexcept nogil
