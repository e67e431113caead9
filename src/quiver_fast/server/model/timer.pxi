"""Timers in a heap: only timers that are due cost work."""

cdef int64_t MILLISECOND = 1000000


cdef void timer_set(Container *container, Timer *timer, int64_t due) noexcept nogil:
    """Set a timer to ``due`` (monotonic ns), instead of its former time."""
    heap_take(&container.timers, &timer.place)
    heap_put(&container.timers, due, &timer.place)


cdef void timer_advance(Container *container, Timer *timer, int64_t due) noexcept nogil:
    """Set a timer to ``due``, unless it rings earlier."""
    if timer.place == 0 or due < container.timers.slots[timer.place - 1].due:
        timer_set(container, timer, due)


cdef void timer_clear(Container *container, Timer *timer) noexcept nogil:
    """Stop a timer."""
    heap_take(&container.timers, &timer.place)


cdef void timers_ring(Container *container, int64_t now) noexcept nogil:
    """Ring all timers that are due; one that is set again meanwhile waits for its next time."""
    cdef Timer *timer
    while container.timers.count and heap_first(&container.timers) <= now:
        # The place is a timer's first member.
        timer = <Timer *>container.timers.slots[0].place
        heap_take(&container.timers, &timer.place)
        timer.ring(timer, now)
