"""The queues of one data directory, each with its one writer, for all connections (B.3, B.9)."""

from libc.errno cimport EINVAL
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, strerror

from quiver_fast.errors import QuiverError
from quiver_fast.proton.libsys cimport monotonic_ns
from quiver_fast.queuefile.appender cimport DURABLE_GROUP
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.queuefile.tailer cimport TAILER_FAILED, TAILER_FOUND, Step
from quiver_fast.remote.serve.readers cimport Cursor, Readers
from quiver_fast.remote.serve.reply cimport ILLEGAL_ARGUMENT, IO_FAILURE, NO_SUCH_QUEUE, REJECTED
from quiver_fast.remote.serve.target cimport Target
from quiver_fast.remote.wire.base64 cimport decode, decoded_size
from quiver_fast.remote.wire.textwire cimport Slice, Value, store_value, stored_size
from quiver_fast.words import counted

cdef extern from "<stdio.h>" nogil:
    int snprintf(char *out, size_t size, const char *format, ...)


# "At most 4096 cids per connection" (B.9), by default.
MAX_LINKS = 4096


class NoQueue(QuiverError):
    """A queue does not exist and may not be created: its failure code and its reason."""

    def __init__(self, failure: int, why: str) -> None:
        super().__init__(why)
        self.failure = failure


cdef void refuse(Refusal *refusal, int failure, str message) noexcept:
    """Fill a refusal; a long message is cut."""
    text = message.encode("utf-8", "replace")[:MESSAGE_SIZE - 1]
    refusal.failure = <Failure>failure
    memcpy(refusal.message, <const char *>text, len(text) + 1)


cdef void note_entry(void *queue) noexcept nogil:
    """Mark the queue, so that its waiting tailers are served: an entry was appended."""
    if not (<Queue>queue).grown and (<Queue>queue).waiting != NULL:
        (<Queue>queue).grown = True
        (<Queue>queue).next_grown = (<Store>(<Queue>queue).store).grown
        (<Store>(<Queue>queue).store).grown = queue


cdef class Queue:
    """A queue with its one writer. Made by a Store."""

    cdef int64_t append_value(self, const Value *value, Refusal *refusal) noexcept nogil:
        """Append a value in its stored form (A.6, Part C); -1 with ``refusal``."""
        cdef size_t size
        cdef bint padded
        cdef char *out
        if value.base64.start != NULL:
            size = decoded_size(value.base64.start, value.base64.size)
            out = self.appender.begin_bytes(size)
            if out == NULL:
                return self.refuse(refusal)
            decode(value.base64.start, value.base64.size, out)
            return self.commit(refusal)
        # A first byte of 0x80 or more would mean binary wire.
        padded = value.start[0] & 0x80 and not value.cut
        out = self.appender.begin(stored_size(value) + padded)
        if out == NULL:
            return self.refuse(refusal)
        if padded:
            out[0] = c"\n"
        store_value(value, out + padded)
        return self.commit(refusal)

    cdef int64_t commit(self, Refusal *refusal) noexcept nogil:
        cdef int64_t index = self.appender.commit()
        if index < 0:
            return self.refuse(refusal)
        if self.appender.policy == DURABLE_GROUP and not self.unsynced:
            self.unsynced = True
            self.next_unsynced = (<Store>self.store).unsynced
            (<Store>self.store).unsynced = <void *>self
        return index

    cdef int64_t refuse(self, Refusal *refusal) noexcept nogil:
        """Fill in the reason of the writer's failure."""
        if self.appender.error == EINVAL and not self.appender.broken:
            refusal.failure = ILLEGAL_ARGUMENT
            snprintf(refusal.message, MESSAGE_SIZE, "the entry is larger than %zu bytes",
                     self.appender.max_entry)
        else:
            refusal.failure = IO_FAILURE
            snprintf(refusal.message, MESSAGE_SIZE, "the queue cannot be written: %s",
                     strerror(self.appender.error))
        return -1

    cdef int64_t first_index(self) noexcept nogil:
        return self.appender.first_index()

    cdef int64_t end_index(self) noexcept nogil:
        return self.appender.end_index()

    cdef int64_t last_index(self) noexcept nogil:
        return self.appender.last_index()

    cdef bint holds_replies(self) noexcept nogil:
        """Say whether a reply must wait until its entry is durable (A.11)."""
        return self.appender.policy == DURABLE_GROUP

    cdef Durable durable(self, int64_t index) noexcept nogil:
        if not self.holds_replies() or self.appender.synced >= index:
            return DURABLE
        return NEVER_DURABLE if self.appender.broken else NOT_DURABLE_YET

    cdef Found read(self, Cursor *cursor, int64_t index, Entry *entry) noexcept nogil:
        """Read the first entry with an index of ``index`` or more.

        Its bytes are valid until the queue's next read; `readers.failure` has the failure.
        """
        cdef Step step
        if self.appender.last_index() < index:
            return NOT_YET
        step = self.readers.read(cursor, max(index, self.first_index()),
                                 &entry.start, &entry.size, &entry.index)
        if step == TAILER_FAILED:
            return READ_FAILED
        return FOUND if step == TAILER_FOUND else NOT_YET

    # ---- waiting tailers ---------------------------------------------------------

    cdef void add_waiting(self, Target *target) noexcept nogil:
        target.queue_previous = NULL
        target.queue_next = self.waiting
        if self.waiting != NULL:
            self.waiting.queue_previous = target
        self.waiting = target

    cdef void remove_waiting(self, Target *target) noexcept nogil:
        if target.queue_previous != NULL:
            target.queue_previous.queue_next = target.queue_next
        else:
            self.waiting = target.queue_next
        if target.queue_next != NULL:
            target.queue_next.queue_previous = target.queue_previous

    cdef void wake_waiting(self, wake_function wake, int64_t now) noexcept nogil:
        cdef Target *target = self.waiting
        cdef Target *following
        while target != NULL:
            following = target.queue_next
            wake(target, now)
            target = following


cdef class Store:
    """The queues in a data directory, for the sessions.

    Args:
        files: the directory, whose writers others may use as well.
        create: whether a missing queue is created on first use.
        syncer: syncs under `group` while the loop goes on; None: `turn` syncs.
        opener: opens queues while the loop goes on; None: `acquire` opens them.
        max_queues: the most queues in the directory; no more are created.
        max_links: the most appenders and tailers of a connection.
    """

    def __init__(self, files: QueueDirectory, *, create: bool = True,
                 syncer: Syncer | None = None, opener: Opener | None = None,
                 max_queues: int = INT64_MAX, max_links: int = MAX_LINKS) -> None:
        self.queues = {}
        self.opening = {}
        self.files = files
        self.create = create
        self.syncer = syncer
        self.opener = opener
        self.max_queues = max_queues
        self.max_links = max_links

    def __dealloc__(self) -> None:
        free(self.timers.heap)

    cdef bint has(self, Slice name) noexcept with gil:
        """Say whether the queue with a checked name exists, or is being made."""
        key = name.start[:name.size]
        return key in self.queues or key in self.opening or self.files.holds(key.decode())

    cdef void *acquire(self, Slice name, void *session, Refusal *refusal) noexcept nogil:
        """Return the queue of that name, opened or created; NULL with ``refusal``."""
        cdef void *queue = NULL
        with gil:
            key = name.start[:name.size]
            if key in self.queues or self.open_queue(key, <object>session, refusal):
                found = self.queues[key]
                queue = <void *>found
        return queue

    cdef int open_queue(self, bytes name, object session, Refusal *refusal) noexcept:
        """Open the queue of a checked name for writing; 0 with ``refusal``."""
        address = name.decode()
        refusal.opening = False
        try:
            if self.failed is not None and self.failed[0] == name:
                raise self.failed[1]
            if name in self.opening:
                self.opening[name].append(session)
                refusal.opening = True
                return 0
            self.check_creation(address)
            if self.opener is None or self.files.is_open(address) and (
                    not self.opener.is_opening(address)):
                self.add_queue(name)
                return 1
            self.opening[name] = [session]
            self.opener.want(address, self.queue_opened)
            refusal.opening = True
        except NoQueue as error:
            refuse(refusal, error.failure, str(error))
        except Exception as error:
            refuse(refusal, IO_FAILURE, str(error))
        return 0

    cdef int check_creation(self, str name) except -1:
        """Raise NoQueue if a queue does not exist and may not be made."""
        if self.files.holds(name):
            return 0
        if not self.create:
            raise NoQueue(NO_SUCH_QUEUE, f"there is no queue {name}")
        making = 0 if self.opener is None else self.opener.pending()
        if self.files.count() + making >= self.max_queues:
            has = counted(self.max_queues, "queue")
            raise NoQueue(REJECTED, f"the server has {has}, the most there may be")
        return 0

    cdef int add_queue(self, bytes name) except -1:
        """Serve a queue whose writer exists or is made at once."""
        cdef Queue queue = Queue()
        queue.appender = self.files.appender(name.decode())
        queue.readers = Readers(queue.appender.directory, queue.appender.shift)
        queue.name = name.decode()
        queue.store = <void *>self
        queue.appender.on_entry = note_entry
        queue.appender.listener = <void *>queue
        self.queues[name] = queue
        return 0

    def queue_opened(self, address: str, error: Exception | None) -> None:
        """Serve a queue that was opened, and resume the sessions that wait for it."""
        cdef int64_t now = monotonic_ns()
        name = address.encode()
        sessions = self.opening.pop(name)
        try:
            if error is not None:
                raise error
            self.add_queue(name)
        except Exception as failure:
            self.failed = (name, failure)
        for session in sessions:
            self.resume(<void *>session, now)
        self.failed = None

    cdef int64_t turn(self, int64_t now) noexcept nogil:
        """Sync, and answer requests that can be answered now; return the next due time (ns)."""
        if self.unsynced != NULL:
            self.sync_all()
        if self.holding != NULL:
            self.release(self)
        while self.grown != NULL:
            self.wake_grown(now)
        while self.timers.count > 0 and self.timers.heap[0].first.deadline <= now:
            self.wake(self.timers.heap[0], now)
        return self.timers.heap[0].first.deadline if self.timers.count > 0 else INT64_MAX

    cdef void sync_all(self) noexcept nogil:
        """Sync the appended entries: one sync serves the replies of all connections (A.11).

        The batch that the syncer is working on does not cover it; the next batch does.
        """
        cdef void *queue
        while self.unsynced != NULL:
            queue = self.unsynced
            self.unsynced = (<Queue>queue).next_unsynced
            (<Queue>queue).unsynced = False
            # durable() reports a failure: the writer is broken then.
            if self.syncer is None:
                (<Queue>queue).appender.sync()
            else:
                self.syncer.want((<Queue>queue).appender)
        if self.syncer is not None:
            self.syncer.start_wanted()

    cdef void finish_syncs(self) noexcept nogil:
        """Wait until every entry is known to be on disk or lost."""
        self.sync_all()
        if self.syncer is not None:
            self.syncer.finish_all()

    cdef void wake_grown(self, int64_t now) noexcept nogil:
        cdef void *queue = self.grown
        self.grown = (<Queue>queue).next_grown
        (<Queue>queue).grown = False
        (<Queue>queue).wake_waiting(self.wake, now)
