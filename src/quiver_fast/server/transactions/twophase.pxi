"""A transaction in the queues' files. All of it is written before any work is done.

With one queue, one mark in the file begins the transaction and another mark commits it. With
several queues, each file first gets all its work and is *prepared*. Then the mark of commit in
the first file, the home, decides for all. After a crash before the other marks were written,
recovery asks the home (queuefile.live). A crash before the decision rolls the transaction back.
"""

cdef bint ends_message(uint64_t outcome) noexcept nogil:
    """Say whether this outcome removes the message (part 3.4)."""
    return outcome != PN_RELEASED and outcome != PN_MODIFIED


cdef bint transaction_write(Transaction *transaction) noexcept nogil:
    """Write the messages and removals of a transaction; return False if a file takes no more.

    After a failure nothing is committed, and no message of it has an index.
    """
    cdef Container *container = transaction.coordinator.base.peer.container
    cdef void *joined = NULL
    cdef bint done = spread(transaction) and write_work(transaction, &joined)
    transaction._stored = joined != NULL
    if done and joined != NULL:
        done = prepare(joined, container.run_id + transaction.id) and decide(
            <Store>joined, container.run_id + transaction.id)
    if done:
        commit_stores(container, joined)
    else:
        abandon(container, joined)
        forget_indexes(transaction)
    return done


cdef bint write_work(Transaction *transaction, void **joined) noexcept nogil:
    """Write the messages to the files of their queues, and note the removals there."""
    cdef Work *work = transaction.first
    cdef int64_t count = 0
    while work != NULL:
        count += 1
        work = work.next
    work = transaction.first
    while work != NULL:
        if work.message != NULL and is_stored(work.queue, work.message):
            if not phase_join(work.queue, count, joined) or not (
                    store_append(work.queue, work.message)):
                return False
        elif removes(work):
            if not phase_join(work.queue, count, joined):
                return False
            note_message(<Store>work.queue.store, work.entry.message)
        work = work.next
    return True


cdef bint removes(const Work *work) noexcept nogil:
    return work.entry != NULL and work.queue != NULL and (
        work.entry.message.index >= 0 and ends_message(work.outcome))


cdef bint phase_join(Queue *queue, int64_t count, void **joined) noexcept nogil:
    """Begin the transaction in a queue's file, once; return False if the queue has no file."""
    if queue.store == NULL:
        return False
    return (<Store>queue.store).joined or phase_begin(<Store>queue.store, count, joined)


cdef bint phase_begin(Store store, int64_t count, void **joined) noexcept nogil:
    # One file must hold the whole transaction: its beginning must not be deleted before its end.
    if not (write_owed(store) and flush_removals(store) and hold_file(store.appender, count)):
        report(store)
        return False
    if write_mark(store.appender, MARK_BEGIN) != 0:
        let_file_go(store.appender)
        report(store)
        return False
    store.joined = True
    store.joined_from = store.appender.end_index()
    store.next_joined = joined[0]
    joined[0] = <void *>store
    return True


cdef bint prepare(void *joined, uint64_t id) noexcept nogil:
    """Write all removals; with several queues, mark each file as prepared."""
    cdef void *store = joined
    cdef bint several = (<Store>joined).next_joined != NULL
    while store != NULL:
        if not prepare_one(<Store>store, joined if several else NULL, id):
            report(<Store>store)
            return False
        store = (<Store>store).next_joined
    return True


cdef bint prepare_one(Store store, void *home, uint64_t id) noexcept nogil:
    if write_removals(store.appender, store.removed, store.removed_count) != 0:
        return False
    return home == NULL or write_prepared(
        store.appender, id, (<Store>home).name_start, (<Store>home).name_size) == 0


cdef bint decide(Store home, uint64_t id) noexcept nogil:
    """Write the mark of commit that decides: from now on the transaction is committed."""
    cdef int code
    if home.next_joined != NULL:
        code = write_decision(home.appender, id)
    else:
        code = write_mark(home.appender, MARK_COMMIT)
    if code != 0:
        report(home)
    return code == 0


cdef void commit_stores(Container *container, void *joined) noexcept nogil:
    """Write the other marks of commit, and count the removals."""
    cdef void *store = joined
    while store != NULL:
        if store != joined and write_mark((<Store>store).appender, MARK_COMMIT) != 0:
            (<Store>store).owed = MARK_COMMIT
        with gil:
            (<Store>store).take((<Store>store).removed_count, (<Store>store).appender.cycle)
        store = phase_leave(container, <Store>store)


cdef void abandon(Container *container, void *joined) noexcept nogil:
    """Write marks of rollback, and count the transaction's messages as removed."""
    cdef void *store = joined
    while store != NULL:
        if write_mark((<Store>store).appender, MARK_ROLLBACK) != 0:
            (<Store>store).owed = MARK_ROLLBACK
        with gil:
            (<Store>store).take_range(
                (<Store>store).joined_from, (<Store>store).appender.end_index())
        store = phase_leave(container, <Store>store)


cdef void *phase_leave(Container *container, Store store) noexcept nogil:
    """Finish a transaction in one file; return the next store."""
    store.removed_count = 0
    store.joined = False
    # The file must not end before an owed mark is written.
    if store.owed == MARK_NONE:
        let_file_go(store.appender)
    mark_dirty(container, <void *>store)
    return store.next_joined


cdef void forget_indexes(Transaction *transaction) noexcept nogil:
    cdef Work *work = transaction.first
    while work != NULL:
        if work.message != NULL:
            work.message.index = -1
        work = work.next
