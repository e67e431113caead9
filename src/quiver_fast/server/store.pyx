"""Durable messages in queue files: stored before they are accepted, removed when done with.

A store is one queue's file. A message is an entry of raw bytes; what is done with
is written down as removed (queuefile.live). What must be on disk before a peer is
told waits for the end of the turn, where one sync serves all links (group commit,
specification A.11).
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

import sys

from quiver_fast.proton.libproton cimport (
    PN_ACCEPTED, PN_MODIFIED, pn_delivery_local, pn_delivery_settle, pn_delivery_t,
    pn_delivery_update, pn_disposition_set_failed,
)
from quiver_fast.queuefile.appender cimport DURABLE_GROUP, Appender
from quiver_fast.queuefile.live cimport LiveEntries, write_mark, write_removals
from quiver_fast.server.message cimport (
    HEADER_READ, Chunk, Message, chunk_bytes, message_filled, message_new, message_read_header,
    message_release, message_space,
)
from quiver_fast.server.queue cimport queue_append
from quiver_fast.server.structures cimport Container, Link, Pending, Queue, peer_dirty

# Removals gathered before they are written down in the midst of a turn.
cdef size_t REMOVALS = 8192
# Before the bytes of a raw entry (A.6).
cdef size_t RAW_HEAD = 6


cdef class Store:
    """The durable messages of one queue.

    Args:
        appender: the writer of the queue's files.
    """

    def __cinit__(self, appender: Appender) -> None:
        self.appender = appender
        self.removed = <uint64_t *>malloc(REMOVALS * sizeof(uint64_t))
        if self.removed == NULL:
            raise MemoryError("no memory for a store")

    def __dealloc__(self) -> None:
        free(self.removed)

    cdef int fill(self, Queue *queue) except -1:
        """Put the messages that were not removed into an empty queue.

        Raises OutputError if the files cannot be read.
        """
        cdef const char *start
        cdef size_t size
        cdef int64_t index
        live = LiveEntries(self.appender.directory)
        while live.next(&start, &size, &index):
            if is_raw(start, size):
                restore_message(queue, start + RAW_HEAD, size - RAW_HEAD, index)
        if live.torn_from >= 0:
            self.undo(live.torn_from, live.torn_to)
        return 0

    def undo(self, first: int, last: int) -> None:
        """Write down that a transaction that a crash cut short never was."""
        cdef int64_t index
        for index in range(first, last + 1):
            note_removal(self, index)
        write_removals(self.appender, self.removed, self.removed_count)
        self.removed_count = 0
        write_mark(self.appender, False)


cdef bint is_raw(const char *start, size_t size) noexcept nogil:
    """Say whether an entry is bytes that were submitted as such: form 2 of A.6."""
    return (
        size >= RAW_HEAD and <unsigned char>start[0] == 0x82
        and (<uint32_t *>(start + 1))[0] == size - 5 and <unsigned char>start[5] == 0x8A)


cdef int restore_message(
        Queue *queue, const char *start, size_t size, int64_t index) except -1:
    """Queue a message from the file, if it is one: others may write to the file as well."""
    cdef Message *message = message_new(size)
    cdef size_t room
    if message == NULL:
        raise MemoryError("no memory for a stored message")
    memcpy(message_space(message, size, &room), start, size)
    message_filled(message, size)
    message.complete = True
    message.index = index
    if message_read_header(message, queue.container.now_ms) != HEADER_READ:
        message_release(message)
    elif queue_append(queue, message) == NULL:
        message_release(message)
        raise MemoryError("no memory for a stored message")
    return 0


cdef inline Store store_of(const Queue *queue):
    return <Store>queue.store


cdef void mark_dirty(Queue *queue) noexcept nogil:
    """Have the queue's store seen to at the end of the turn."""
    if not (<Store>queue.store).dirty:
        (<Store>queue.store).dirty = True
        (<Store>queue.store).next_dirty = queue.container.dirty_stores
        queue.container.dirty_stores = queue.store


cdef bint is_stored(const Queue *queue, const Message *message) noexcept nogil:
    """Say whether a message has to be in its queue's file."""
    return queue.store != NULL and message.header.durable


cdef bint store_append(Queue *queue, Message *message) noexcept nogil:
    """Write a message to the queue's file and give it its index; False if that failed."""
    cdef char *out = (<Store>queue.store).appender.begin_bytes(message.size)
    cdef const Chunk *chunk = message.first
    if out == NULL:
        report(queue)
        return False
    while chunk != NULL:
        memcpy(out, chunk_bytes(<Chunk *>chunk), chunk.size)
        out += chunk.size
        chunk = chunk.next
    message.index = (<Store>queue.store).appender.commit()
    (<Store>queue.store).failing = False
    mark_dirty(queue)
    return True


cdef void report(Queue *queue) noexcept nogil:
    """Say once that a file takes no more; again only after it did."""
    if (<Store>queue.store).failing:
        return
    (<Store>queue.store).failing = True
    with gil:
        sys.stderr.write(f"quiver-server-pyfast: {store_of(queue).appender.failure()}\n")


cdef void note_removal(Store store, int64_t index) noexcept nogil:
    if store.removed_count == REMOVALS:
        # A failure here is met again at the end of the turn.
        write_removals(store.appender, store.removed, store.removed_count)
        store.removed_count = 0
    store.removed[store.removed_count] = index
    store.removed_count += 1


cdef void store_remove(Queue *queue, int64_t index) noexcept nogil:
    """Write down, by the end of the turn, that an entry is done with."""
    note_removal(<Store>queue.store, index)
    mark_dirty(queue)


cdef bint store_begin(Queue *queue) noexcept nogil:
    """A transaction's work on this queue begins; return False if that cannot be written."""
    if queue.store == NULL or (<Store>queue.store).in_transaction:
        return True
    if not flush_removals(queue.store) or write_mark((<Store>queue.store).appender, True) != 0:
        report(queue)
        return False
    (<Store>queue.store).in_transaction = True
    return True


cdef void store_end(Queue *queue) noexcept nogil:
    """A transaction's work on this queue is all written, removals and all."""
    if queue.store == NULL or not (<Store>queue.store).in_transaction:
        return
    (<Store>queue.store).in_transaction = False
    flush_removals(queue.store)
    write_mark((<Store>queue.store).appender, False)
    mark_dirty(queue)


cdef bint must_wait(const Queue *queue, const Message *message) noexcept nogil:
    """Say whether a message may be accepted only after the turn's sync."""
    return message.index >= 0 and (<Store>queue.store).appender.policy == DURABLE_GROUP


cdef bint accept_later(Link *link, pn_delivery_t *delivery) noexcept nogil:
    """Accept a delivery after the turn's sync. False without memory."""
    cdef Container *container = link.peer.container
    cdef size_t capacity
    cdef Pending *grown
    if container.pending_count == container.pending_capacity:
        capacity = 2 * container.pending_capacity + 1024
        grown = <Pending *>realloc(container.pending, capacity * sizeof(Pending))
        if grown == NULL:
            return False
        container.pending = grown
        container.pending_capacity = capacity
    container.pending[container.pending_count].link = link
    container.pending[container.pending_count].delivery = delivery
    container.pending_count += 1
    return True


cdef void forget_pending(Link *link) noexcept nogil:
    """The link is gone, and nobody is there to be told."""
    cdef Container *container = link.peer.container
    cdef size_t i
    for i in range(container.pending_count):
        if container.pending[i].link == link:
            container.pending[i].link = NULL


cdef bint flush_removals(void *store) noexcept nogil:
    cdef bint written = write_removals(
        (<Store>store).appender, (<Store>store).removed, (<Store>store).removed_count) == 0
    # Kept for another attempt when the disk is full: then they are few.
    if written:
        (<Store>store).removed_count = 0
    return written


cdef void stores_flush(Container *container) noexcept nogil:
    """Write down what was removed, sync where that is the policy, and then tell the peers."""
    cdef void *store = container.dirty_stores
    cdef bint synced = True
    container.dirty_stores = NULL
    while store != NULL:
        (<Store>store).dirty = False
        flush_removals(store)
        if (<Store>store).appender.policy == DURABLE_GROUP:
            synced = (<Store>store).appender.sync() == 0 and synced
        store = (<Store>store).next_dirty
    settle_pending(container, synced)


cdef void settle_pending(Container *container, bint synced) noexcept nogil:
    """Accept what waited for the sync; after one that failed nobody knows: modified."""
    cdef Pending *pending
    cdef size_t i
    for i in range(container.pending_count):
        pending = &container.pending[i]
        if pending.link == NULL:
            continue
        if synced:
            pn_delivery_update(pending.delivery, PN_ACCEPTED)
        else:
            pn_disposition_set_failed(pn_delivery_local(pending.delivery), True)
            pn_delivery_update(pending.delivery, PN_MODIFIED)
        pn_delivery_settle(pending.delivery)
        peer_dirty(pending.link.peer)
    container.pending_count = 0
