"""Stores whose files are closed, and can be opened only when a sync has begun (openfiles.py)."""

cdef bint must_open_later(Queue *queue) noexcept nogil:
    """Say whether the queue's files are closed, and can be opened only when a sync has begun.

    Then the queue is dispatched. If another one waits, this one waits as well: no file is free.
    """
    cdef void *store = queue.store
    if not (<Store>store).appender.shut or not sync_comes(queue.container) or (
            queue.container.shut_stores == NULL and (
                (<Store>store).appender.use(True) or (<Store>store).appender.error != EAGAIN)):
        return False
    if not (<Store>store).waits:
        (<Store>store).waits = True
        (<Store>store).next_shut = queue.container.shut_stores
        queue.container.shut_stores = store
    return True


cdef bint sync_comes(const Container *container) noexcept nogil:
    """Say whether a sync is under way, or begins at the end of the turn."""
    return container.group and (
        container.dirty_stores != NULL or container.unsynced_stores != NULL
        or (<Syncer>container.syncer).busy)


cdef void open_shut(Container *container) noexcept nogil:
    """Let the stores that wait for a sync try again."""
    cdef void *store = container.shut_stores
    container.shut_stores = NULL
    while store != NULL:
        (<Store>store).waits = False
        (<Store>store).queue.opening = False
        queue_dirty((<Store>store).queue)
        if (<Store>store).removed_count:
            mark_dirty(container, store)
        store = (<Store>store).next_shut


cdef void forget_shut(Container *container, void *store) noexcept nogil:
    """Let the store of a deleted queue no longer wait for a sync."""
    cdef void **place = &container.shut_stores
    while place[0] != NULL and place[0] != store:
        place = &(<Store>place[0]).next_shut
    if place[0] == store:
        place[0] = (<Store>store).next_shut


cdef void report(Store store) noexcept nogil:
    """Report that a file takes no more, once until it takes something again."""
    if is_scarce(store.queue):
        with gil:
            report_scarce(store.container, store.appender.failure())
        return
    if store.failing:
        return
    store.failing = True
    with gil:
        say(store.appender.failure())


cdef void report_scarce(Container *container, object what) noexcept:
    """Report that descriptors are scarce, once until a queue gets some again."""
    if not container.scarce:
        container.scarce = True
        say(f"{what}")


cdef bint is_scarce(const Queue *queue) noexcept nogil:
    """Say whether the queue's last failure was the want of descriptors or memory."""
    return queue.scarce if queue.store == NULL else is_want((<Store>queue.store).appender.error)


cdef void say(object what) noexcept:
    """Report a problem on standard error."""
    sys.stderr.write(f"quiver-server-pyfast: {one_line(str(what))}\n")
