# What the server holds in memory, in one picture:
#
#   Container ─> Peer (connection) ─> Inlet (from a producer)  ─> Queue ─> Entry ─> Message
#                                 └─> Outlet (to a consumer) <─ Consumer ─┘
#
# Plain C structs, because none of this may hold the GIL or allocate Python objects. Each is in
# `structures.pxi` of the folder that makes and frees it. They refer to each other in a circle, and
# some embed others: Cython orders them for C.
#
# A field with an underscore is for its own folder alone; a test of the layers holds that.

# The limits of a server's peers, from its keys.
cdef struct Limits:
    size_t queue_bytes
    uint64_t message_size
    int credit
    size_t connections
    size_t sessions
    # Links that we attach share one session of each connection.
    bint shared_sessions
    size_t links
    uint32_t transactions
    uint32_t frame_size
    uint32_t idle_timeout
    int64_t handshake_ns

# What a link is here.
cdef enum LinkKind:
    INLET
    OUTLET
    COORDINATOR
    DEFERRED                # its attach or its detach is not answered yet (deferred.pxi)

# The owner and the purpose of a link.
cdef enum LinkRole:
    CLIENT                  # the peer attached it
    STREAMS_FROM_SERVER     # another server did, for streams: their routes name the addresses
    STREAMS_TO_PEER         # we did, for streams to the peer: there is no outcome by it
    TRUNK_CONSUMER          # we did, to another server's address, for our queue's consumers

# The server's traffic since its start, and its contents now: for server/readings.pxi.
cdef struct Traffic:
    # Connections that were accepted, or made to other servers.
    uint64_t connections
    # Complete messages from producers and to consumers; their bytes are those of the wire.
    uint64_t messages_in
    uint64_t bytes_in
    uint64_t messages_out
    uint64_t bytes_out
    # Entries in all queues, and their bytes as Queue.bytes counts them.
    uint64_t depth
    uint64_t bytes
    # Queues and topics, subscriptions included; links, of both sides.
    uint64_t queues
    uint64_t links

cdef struct Coordinator
cdef struct Dial
cdef struct Inlet
cdef struct Neighbour
cdef struct Outlet
cdef struct Peer
cdef struct Queue
cdef struct Transaction
cdef struct Waiter
cdef struct Container

# A timer. Its place in the container's heap has to be the first member.
cdef struct Timer:
    uint32_t place
    void (*ring)(Timer *timer, int64_t now) noexcept nogil

include "../nodes/structures.pxi"
include "../connections/structures.pxi"
include "../streams/structures.pxi"
include "../transfer/structures.pxi"
include "../protocol/structures.pxi"
include "../durable/structures.pxi"
include "../transactions/structures.pxi"

# All connections and queues of one server.
cdef struct Container:
    Limits limits
    Queue *dirty_queues
    Peer *dirty_peers
    Inlet *awake
    # Queues whose selectors go on in a later turn, and the steps of selectors left in this one.
    Queue *first_later
    Queue *last_later
    size_t later_count
    int64_t judging_left
    # Bytes of the selectors of subscriptions.
    size_t selectors
    # The messages of ended queues that may be dropped in this turn.
    size_t clearing_left
    # Stores to flush at the end of the turn, and to sync.
    void *dirty_stores
    void *unsynced_stores
    # Stores whose files can be opened when a sync has ended: it needs those that are open.
    void *shut_stores
    # Files that were ended and are not on disk yet.
    size_t ended_files
    # Nothing could be opened for want of descriptors, and that was reported.
    bint scarce
    # The Syncer; NULL without files.
    void *syncer
    # Answers wait until their messages are on disk (A.11).
    bint group
    # A file of this many bytes ends when most of its messages are removed.
    size_t roll_size
    # Detach a consumer whose link's name was attached anew.
    void (*steal)(Link *link) noexcept nogil
    # Runs of deliveries that wait for a sync, and the number of these deliveries.
    Pending *pending
    size_t unsynced
    # How many runs wait for the sync under way; whether a file could not be handed over.
    size_t syncing_count
    bint sync_failed
    # Tells transaction ids of this run from those of other runs in the files.
    uint64_t run_id
    size_t pending_count
    size_t pending_capacity
    Peer *peers
    Queue *queues
    # Addresses that have consumers here.
    Queue *wanted
    # How many queues were deleted: an earlier look-up may have found one of these.
    uint64_t queues_gone
    size_t peer_count
    Peer *borrowers         # their outputs have bytes of the input that is being read
    # Buffers for a connection that has none, and records for deliveries.
    amqp_input_t input
    amqp_buffers_t outputs
    amqp_spares_t spares
    Neighbour *neighbours   # other servers
    size_t neighbour_count
    Peer *dead              # those that ended in this turn
    Heap timers
    uint64_t next_serial
    int64_t now_ms
    bint closing
    # When to return freed memory to the system (monotonic ns); 0 for none.
    int64_t trim_at
    void *broker
    int epoll
    Traffic traffic
    # The queues that metrics name, with gaps; NULL without metrics.
    Queue **labelled
    size_t label_count
