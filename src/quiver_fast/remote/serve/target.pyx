"""Appenders and tailers of a connection, their waiting requests, and the timers of these."""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memmove

from quiver_fast.loop.balance cimport TARGET, freed, made

cdef Target *new_target(
        TargetKind kind, int64_t cid, void *queue, void *session) noexcept nogil:
    """Return a new target, which its session frees; NULL without memory."""
    cdef Target *target = <Target *>calloc(1, sizeof(Target))
    if target != NULL:
        made(TARGET)
        target.kind = kind
        target.cid = cid
        target.queue = queue
        target.session = session
        target.last_index = -1
        target.slot = -1
    return target


cdef void free_target(Target *target) noexcept nogil:
    """Free a target that no list has."""
    if target != NULL:
        freed(TARGET)
    free(target)


cdef bint add_wait(Target *target, const Wait *wait) noexcept nogil:
    """Append a copy of ``wait``; False without memory."""
    cdef Wait *copy = <Wait *>malloc(sizeof(Wait))
    if copy == NULL:
        return False
    copy[0] = wait[0]
    copy.next = NULL
    if target.first == NULL:
        target.first = copy
    else:
        target.last.next = copy
    target.last = copy
    return True


cdef void pop_wait(Target *target) noexcept nogil:
    cdef Wait *wait = target.first
    target.first = wait.next
    free(wait)


# ---- timers --------------------------------------------------------------------------

cdef inline bint is_before(const Target *one, const Target *other) noexcept nogil:
    return one.first.deadline < other.first.deadline


cdef inline void place(Timers *timers, int slot, Target *target) noexcept nogil:
    timers.heap[slot] = target
    target.slot = slot


cdef void sift_up(Timers *timers, int slot) noexcept nogil:
    cdef Target *target = timers.heap[slot]
    cdef int parent
    while slot > 0:
        parent = (slot - 1) // 2
        if not is_before(target, timers.heap[parent]):
            break
        place(timers, slot, timers.heap[parent])
        slot = parent
    place(timers, slot, target)


cdef void sift_down(Timers *timers, int slot) noexcept nogil:
    cdef Target *target = timers.heap[slot]
    cdef int child
    while True:
        child = 2 * slot + 1
        if child >= timers.count:
            break
        if child + 1 < timers.count and is_before(timers.heap[child + 1], timers.heap[child]):
            child += 1
        if not is_before(timers.heap[child], target):
            break
        place(timers, slot, timers.heap[child])
        slot = child
    place(timers, slot, target)


cdef bint set_timer(Timers *timers, Target *target) noexcept nogil:
    """Wake ``target`` at its first wait's deadline; False without memory."""
    cdef Target **heap
    if target.slot < 0:
        if timers.count == timers.capacity:
            heap = <Target **>realloc(timers.heap, (2 * timers.capacity + 64) * sizeof(Target *))
            if heap == NULL:
                return False
            timers.heap = heap
            timers.capacity = 2 * timers.capacity + 64
        place(timers, timers.count, target)
        timers.count += 1
    sift_up(timers, target.slot)
    sift_down(timers, target.slot)
    return True


cdef void clear_timer(Timers *timers, Target *target) noexcept nogil:
    """Forget the timer of ``target``; its waits must still be there."""
    cdef int slot = target.slot
    cdef Target *last
    if slot < 0:
        return
    target.slot = -1
    timers.count -= 1
    if slot == timers.count:
        return
    last = timers.heap[timers.count]
    place(timers, slot, last)
    sift_up(timers, last.slot)
    sift_down(timers, last.slot)


# ---- cids ----------------------------------------------------------------------------

cdef int place_of(const Targets *targets, int64_t cid) noexcept nogil:
    """Return the place of ``cid``, present or not."""
    cdef int low = 0
    cdef int high = targets.count
    cdef int middle
    while low < high:
        middle = (low + high) // 2
        if targets.items[middle].cid < cid:
            low = middle + 1
        else:
            high = middle
    return low


cdef bint add_target(Targets *targets, Target *target) noexcept nogil:
    """Add a target with a cid above all others; False without memory."""
    cdef Target **items
    if targets.count == targets.capacity:
        items = <Target **>realloc(targets.items, (2 * targets.capacity + 4) * sizeof(Target *))
        if items == NULL:
            return False
        targets.items = items
        targets.capacity = 2 * targets.capacity + 4
    targets.items[targets.count] = target
    targets.count += 1
    return True


cdef Target *find_target(const Targets *targets, int64_t cid) noexcept nogil:
    cdef int at = place_of(targets, cid)
    if at < targets.count and targets.items[at].cid == cid:
        return targets.items[at]
    return NULL


cdef void remove_target(Targets *targets, Target *target) noexcept nogil:
    cdef int at = place_of(targets, target.cid)
    targets.count -= 1
    memmove(targets.items + at, targets.items + at + 1,
            (targets.count - at) * sizeof(Target *))
