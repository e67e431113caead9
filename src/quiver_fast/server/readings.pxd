from libc.stdint cimport int64_t, uint64_t

from quiver_fast.loop.reactor cimport Watch
from quiver_fast.loop.syncer cimport Syncer
from quiver_fast.server.addresses.addresses cimport Broker
from quiver_fast.server.model.traffic cimport Traffic

cdef enum:
    # Bytes of a queue's name that are kept; longer ones are cut.
    NAME_MAX = 255
    # What one reading looks at: connections, sessions, links and topics' subscriptions.
    VISITS = 2000

# A queue that metrics name; for a topic, the contents of its subscriptions.
cdef struct QueueReading:
    char[256] name
    size_t name_size
    bint topic
    # Messages that ever came into it, that are in it, and those of them that consumers have.
    uint64_t came
    uint64_t depth
    uint64_t unsettled
    uint64_t bytes
    # How long the first available message is in it (ms); -1 without one.
    int64_t age
    uint64_t consumers
    uint64_t producers

# All that one reading found.
cdef struct Reading:
    Traffic traffic
    uint64_t connections
    uint64_t waiting_for_sync
    # Of the links that were looked at, by our role on them: 0 sender, 1 receiver.
    uint64_t[2] links
    uint64_t[2] credit
    uint64_t[2] unsettled
    # Bytes that connections hold, and may hold.
    uint64_t held
    uint64_t held_limit
    uint64_t sync_batches
    uint64_t sync_files
    int64_t sync_ns
    # What it cost the loop: things looked at, and time (ns).
    uint64_t visits
    bint all_visited
    int64_t spent

cdef class Readings:
    cdef Watch watch
    cdef int reply
    cdef int epoll
    cdef bint owed
    cdef Broker broker
    cdef Syncer syncer
    cdef Reading reading
    cdef QueueReading *queues
    cdef size_t queue_count
    cdef uint64_t count
    cdef uint64_t spent
    cdef object lock

    cdef void fill(self) noexcept nogil
