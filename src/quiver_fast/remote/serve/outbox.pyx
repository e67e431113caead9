"""The output of a session: replies to send, and replies that wait for a sync to disk.

Under `group` durability the reply to a submit waits until its entry is durable (A.11),
and later replies keep their place after it (B.9).
"""

from libc.stdint cimport int64_t
from libc.string cimport memset

from quiver_fast.remote.serve.reply cimport IO_FAILURE, UNSOLICITED, put_exception, put_index
from quiver_fast.remote.serve.store cimport (
    NEVER_DURABLE, NOT_DURABLE_YET, Durable, Queue, Store,
)
from quiver_fast.remote.wire.buffer cimport Buffer, append, discard, pending, release
from quiver_fast.remote.wire.wire cimport Tid

# "If more than 4 MiB of replies are queued for a connection, stop reading from it" (B.9).
cdef size_t MAX_OUTPUT = 4 << 20


cdef void release_all(Store store) noexcept nogil:
    """Send the waiting replies of durable entries, for every session."""
    cdef void **place = &store.holding
    cdef void *session
    while place[0] != NULL:
        session = place[0]
        (<Outbox>session).release_held()
        if pending(&(<Outbox>session).marks) > 0:
            place = &(<Outbox>session).next_holding
        else:
            (<Outbox>session).holding = False
            place[0] = (<Outbox>session).next_holding


cdef void forget_holding(Store store, void *forgotten) noexcept nogil:
    cdef void **place = &store.holding
    while place[0] != forgotten:
        place = &(<Outbox>place[0]).next_holding
    place[0] = (<Outbox>forgotten).next_holding


cdef class Outbox:
    """The replies of one connection that are not sent yet.

    Args:
        store: the queues.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        store.release = release_all

    cdef bint is_full(self) noexcept nogil:
        return pending(&self.output) + pending(&self.held) + pending(&self.marks) > MAX_OUTPUT

    cdef Buffer *replies(self) noexcept nogil:
        """Return the place of the next reply: after the waiting ones, to keep their order.

        A tailer's replies never wait for a sync: they are written to `output`.
        """
        return &self.held if pending(&self.marks) > 0 else &self.output

    cdef void replied(self, bint done) noexcept nogil:
        """Note whether a reply was written, and whether it has to wait."""
        cdef Held held
        cdef Held *last
        if not done:
            self.broken = True
            return
        if pending(&self.held) == self.held_size:
            return
        memset(&held, 0, sizeof(held))
        held.size = pending(&self.held) - self.held_size
        self.held_size = pending(&self.held)
        last = <Held *>(self.marks.memory + self.marks.used) - 1
        if last.queue == NULL:
            last.size += held.size
        elif not append(&self.marks, <const char *>&held, sizeof(held)):
            self.broken = True

    cdef void hold(self, void *queue, int64_t index, const Tid *tid) noexcept nogil:
        """Let the reply to a submit wait until the entry is durable.

        A submit without a tid gets no reply, but its loss is reported (B.7).
        """
        cdef Held held
        held.queue = queue
        held.index = index
        held.tid = tid[0]
        held.size = 0
        self.replied(append(&self.marks, <const char *>&held, sizeof(held)))
        if not self.holding:
            self.holding = True
            self.next_holding = self.store.holding
            self.store.holding = <void *>self

    cdef void release_held(self) noexcept nogil:
        """Send the replies of entries that are durable now, and the replies after them."""
        cdef Held *held
        while pending(&self.marks) > 0:
            held = <Held *>(self.marks.memory + self.marks.start)
            if held.queue == NULL:
                self.replied(append(
                    &self.output, self.held.memory + self.held.start, held.size))
                self.held_size -= held.size
                discard(&self.held, held.size)
            elif not self.release_submit(held):
                break
            discard(&self.marks, sizeof(Held))
            self.relieved = True
        self.output_ready()

    cdef bint release_submit(self, const Held *held) noexcept nogil:
        """Reply with the result of an entry; False if it is not known yet."""
        cdef Durable durable = (<Queue>held.queue).durable(held.index)
        if durable == NOT_DURABLE_YET:
            return False
        if durable == NEVER_DURABLE:
            self.report_loss(&held.tid)
        elif held.tid.size:
            self.replied(put_index(&self.output, &held.tid, held.index))
        return True

    cdef void report_loss(self, const Tid *tid) noexcept nogil:
        """Fail a submit. One without a tid ends the connection: no loss is silent (B.7)."""
        cdef const char *message = b"the entry could not be synced to disk"
        if tid.size:
            self.replied(put_exception(&self.output, tid, IO_FAILURE, message))
        elif not self.loss_reported:
            self.loss_reported = True
            self.replied(put_exception(&self.output, &UNSOLICITED, IO_FAILURE, message))
            self.take_no_more()

    cdef void take_no_more(self) noexcept nogil:
        """Called when the connection has to end; earlier requests are still answered."""
        return

    cdef void output_ready(self) noexcept nogil:
        """Called when there is output; the owner of a socket sends it."""
        return

    cdef Room room_for(self, size_t size) noexcept nogil:
        """Say whether there is memory for a reply; the owner of sockets knows.

        If there is memory later, `drained` is called then.
        """
        return ROOM

    cdef void free_replies(self) noexcept nogil:
        if self.holding:
            self.holding = False
            forget_holding(self.store, <void *>self)
        release(&self.output)
        release(&self.held)
        release(&self.marks)
