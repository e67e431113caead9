# The queues of one data directory, each with its one writer, shared by all connections.

from libc.stdint cimport int64_t

from quiver_fast.loop.opener cimport Opener
from quiver_fast.loop.syncer cimport Syncer
from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.remote.serve.readers cimport Cursor, Readers
from quiver_fast.remote.serve.reply cimport Failure
from quiver_fast.remote.serve.target cimport Target, Timers
from quiver_fast.remote.wire.textwire cimport Slice, Value

cdef enum:
    MESSAGE_SIZE = 512

# An entry's bytes in the file; valid until the queue's next call.
cdef struct Entry:
    const char *start
    size_t size
    int64_t index

cdef enum Found:
    FOUND
    NOT_YET
    READ_FAILED

cdef enum Durable:
    DURABLE
    NOT_DURABLE_YET
    NEVER_DURABLE

# Answers a target's waiting requests, as far as possible; set by the sessions' module.
ctypedef void (*wake_function)(Target *target, int64_t now) noexcept nogil

# The reason why a queue cannot be used: for put_exception().
cdef struct Refusal:
    Failure failure
    char message[512]
    # No failure: the queue is being opened, and the session is told when it is open.
    bint opening

cdef class Queue:
    cdef readonly str name
    cdef readonly Appender appender
    cdef Readers readers
    cdef void *store            # Store, which owns this
    # The tailers that wait for the next entry.
    cdef Target *waiting
    # In the store's list of queues with new entries for waiting tailers.
    cdef bint grown
    cdef void *next_grown
    # In the store's list of queues with entries to be synced.
    cdef bint unsynced
    cdef void *next_unsynced

    cdef int64_t append_value(self, const Value *value, Refusal *refusal) noexcept nogil
    cdef int64_t first_index(self) noexcept nogil
    cdef int64_t end_index(self) noexcept nogil
    cdef int64_t last_index(self) noexcept nogil
    cdef bint holds_replies(self) noexcept nogil
    cdef Durable durable(self, int64_t index) noexcept nogil
    cdef Found read(self, Cursor *cursor, int64_t index, Entry *entry) noexcept nogil
    cdef void add_waiting(self, Target *target) noexcept nogil
    cdef void remove_waiting(self, Target *target) noexcept nogil
    cdef void wake_waiting(self, wake_function wake, int64_t now) noexcept nogil

    cdef int64_t commit(self, Refusal *refusal) noexcept nogil
    cdef int64_t refuse(self, Refusal *refusal) noexcept nogil

# Lets a session go on with the document that waited for its queue.
ctypedef void (*resume_function)(void *session, int64_t now) noexcept nogil

# Sends the waiting replies of all sessions; set by the sessions' module.
ctypedef void (*release_function)(Store store) noexcept nogil

cdef class Store:
    cdef Timers timers
    cdef readonly object files  # type: QueueDirectory
    cdef readonly bint create
    cdef Syncer syncer          # None: the turn itself syncs
    cdef Opener opener          # None: the caller itself opens a queue
    cdef readonly int64_t max_queues
    cdef readonly int max_links         # appenders and tailers of a connection
    cdef dict queues            # bytes (name) -> Queue
    cdef dict opening           # bytes (name) -> list of the sessions that wait for it
    cdef object failed          # the failed name and its reason, while sessions are told
    cdef void *grown            # Queue, linked by next_grown
    cdef void *unsynced         # Queue, linked by next_unsynced
    cdef void *holding          # session.Session, linked by next_holding
    cdef wake_function wake
    cdef resume_function resume
    cdef release_function release

    cdef bint has(self, Slice name) noexcept nogil
    cdef void *acquire(self, Slice name, void *session, Refusal *refusal) noexcept nogil
    cdef int open_queue(self, bytes name, object session, Refusal *refusal) noexcept
    cdef int check_creation(self, str name) except -1
    cdef int add_queue(self, bytes name) except -1
    cdef void sync_all(self) noexcept nogil
    cdef void finish_syncs(self) noexcept nogil
    cdef int64_t turn(self, int64_t now) noexcept nogil
    cdef void wake_grown(self, int64_t now) noexcept nogil
