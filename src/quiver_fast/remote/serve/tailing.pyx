"""Tailers: requests that wait for entries, in order, and batches of entries (B.6)."""

from libc.stdint cimport int64_t

from quiver_fast.remote.serve.outbox cimport ROOM_LATER, ROOM_NEVER, Outbox, Room
from quiver_fast.remote.serve.reply cimport (
    IO_FAILURE, OUT_OF_BOUNDS, REJECTED, Failure, begin_batch, end_batch, put_entry,
    put_exception, put_nothing_new, reply_size,
)
from quiver_fast.remote.serve.store cimport (
    FOUND, MESSAGE_SIZE, READ_FAILED, Entry, Found, Queue, Store,
)
from quiver_fast.remote.serve.target cimport (
    Target, Wait, add_wait, clear_timer, free_target, pop_wait, set_timer,
)
from quiver_fast.remote.wire.buffer cimport Buffer, pending

cdef extern from "<stdio.h>" nogil:
    int snprintf(char *out, size_t size, const char *format, ...)

cdef size_t MAX_BATCH_BYTES = 1 << 20


cdef void wake(Target *target, int64_t now) noexcept nogil:
    (<Tailing>target.session).answer(target, now)


cdef int64_t position_of(const Target *target) noexcept nogil:
    """Return the index of a tailer's first request."""
    return target.first.index if target.first.has_index else target.position


cdef bint is_beyond(const Target *target, int64_t index, char *message) noexcept nogil:
    """Say whether ``index`` is after the end; fill ``message`` (128 bytes) then."""
    cdef int64_t end = (<Queue>target.queue).end_index()
    if index <= end:
        return False
    snprintf(message, 128, "index %lld is after the end, %lld",
             <long long>index, <long long>end)
    return True


cdef class Tailing(Outbox):
    """The waiting tailers of a session."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        store.wake = wake

    cdef bint wait_for(self, Target *target, const Wait *wait, int64_t now) noexcept nogil:
        """Append a request to those of its tailer, and answer it if possible."""
        if not add_wait(target, wait):
            if target.cid == 0:
                self.dispose(target)
            return False
        self.wait_count += 1
        self.list_target(target)
        if target.first.next == NULL:
            self.answer(target, now)
        return True

    cdef void answer_all(self, int64_t now) noexcept nogil:
        """Answer every waiting request that can be answered now."""
        cdef Target *target = self.waiting
        cdef Target *following
        while target != NULL:
            following = target.session_next
            self.answer(target, now)
            target = following

    cdef void answer_before_closing(self, Target *target) noexcept nogil:
        """Answer the waiting requests of a closed cid, without entries."""
        clear_timer(&self.store.timers, target)
        while target.first != NULL:
            self.replied(put_nothing_new(&self.output, &target.first.tid, position_of(target)))
            self.drop_wait(target)

    cdef void answer(self, Target *target, int64_t now) noexcept nogil:
        """Answer a tailer's waiting requests in order, as far as possible."""
        cdef Answer answer
        clear_timer(&self.store.timers, target)
        while target.first != NULL:
            answer = NO_MEMORY_YET if self.is_full() else self.answer_wait(
                target, target.first, now)
            if answer == NO_MEMORY_YET:
                self.congested = True
                return
            if answer == NOTHING_YET:
                if not set_timer(&self.store.timers, target):
                    self.broken = True
                return
            self.drop_wait(target)
        self.unlist_target(target)
        if target.cid == 0:
            self.dispose(target)

    cdef Answer answer_wait(self, Target *target, const Wait *wait, int64_t now) noexcept nogil:
        """Answer a request, if possible now."""
        cdef int64_t index = position_of(target)
        cdef char[512] message
        cdef Entry entry
        cdef Found found
        if is_beyond(target, index, message):
            return self.fail_wait(wait, OUT_OF_BOUNDS, message)
        found = (<Queue>target.queue).read(&target.cursor, index, &entry)
        if found == READ_FAILED:
            snprintf(message, MESSAGE_SIZE, "the queue's files cannot be read: %s",
                     (<Queue>target.queue).readers.failure)
            return self.fail_wait(wait, IO_FAILURE, message)
        if found == FOUND:
            return self.put_if_room(target, wait, &entry)
        if now < wait.deadline and not self.ended:
            return NOTHING_YET
        target.position = index
        self.replied(put_nothing_new(&self.output, &wait.tid, index))
        self.output_ready()
        return ANSWERED

    cdef Answer put_if_room(
            self, Target *target, const Wait *wait, Entry *entry) noexcept nogil:
        """Reply with entries if there is memory for the first of them."""
        cdef Room room = self.room_for(reply_size(entry.start, entry.size))
        if room == ROOM_LATER:
            return NO_MEMORY_YET
        if room == ROOM_NEVER:
            return self.fail_wait(
                wait, REJECTED, b"the entry is larger than the server's memory-limit")
        return self.put_batch(target, wait, entry)

    cdef Answer put_batch(self, Target *target, const Wait *wait, Entry *entry) noexcept nogil:
        """Reply with entries of consecutive indexes, from ``entry`` on (B.6)."""
        cdef Buffer *output = &self.output
        cdef int64_t index = entry.index
        cdef int64_t count = 0
        cdef size_t before
        cdef ssize_t header = begin_batch(output, &wait.tid, index)
        cdef bint done = header >= 0
        while done:
            if count > 0 and pending(output) - header + entry.size > MAX_BATCH_BYTES:
                break
            before = pending(output)
            done = put_entry(output, entry.start, entry.size)
            if done and count > 0 and pending(output) - header > MAX_BATCH_BYTES:
                output.used = output.start + before
                break
            count += 1
            if count == wait.batch or (<Queue>target.queue).read(
                    &target.cursor, index + count, entry) != FOUND or (
                    entry.index != index + count):
                break
        target.position = index + count
        self.replied(done and end_batch(output, &wait.tid, header))
        self.output_ready()
        return ANSWERED

    cdef Answer fail_wait(
            self, const Wait *wait, Failure failure, const char *message) noexcept nogil:
        self.replied(put_exception(&self.output, &wait.tid, failure, message))
        self.output_ready()
        return ANSWERED

    cdef void drop_wait(self, Target *target) noexcept nogil:
        pop_wait(target)
        self.wait_count -= 1

    cdef void list_target(self, Target *target) noexcept nogil:
        """Add ``target`` to its queue's and its session's lists of waiting targets."""
        if target.listed:
            return
        target.listed = True
        (<Queue>target.queue).add_waiting(target)
        target.session_previous = NULL
        target.session_next = self.waiting
        if self.waiting != NULL:
            self.waiting.session_previous = target
        self.waiting = target

    cdef void unlist_target(self, Target *target) noexcept nogil:
        if not target.listed:
            return
        target.listed = False
        (<Queue>target.queue).remove_waiting(target)
        if target.session_previous != NULL:
            target.session_previous.session_next = target.session_next
        else:
            self.waiting = target.session_next
        if target.session_next != NULL:
            target.session_next.session_previous = target.session_previous

    cdef void abandon(self, Target *target) noexcept nogil:
        """Drop the first waiting request of a target; free a target that was made for it."""
        clear_timer(&self.store.timers, target)
        self.unlist_target(target)
        while target.first != NULL:
            self.drop_wait(target)
        if target.cid == 0:
            self.dispose(target)

    cdef void dispose(self, Target *target) noexcept nogil:
        """Free a target without waiting requests."""
        self.unlist_target(target)
        (<Queue>target.queue).readers.release(&target.cursor)
        free_target(target)
