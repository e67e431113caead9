# What the server holds in memory, in one picture:
#
#   Container ─> Peer (connection) ─> Inlet (from a producer)  ─> Queue ─> Entry ─> Message
#                                 └─> Outlet (to a consumer) <─ Consumer ─┘
#
# Plain C structs, because none of this may hold the GIL or allocate Python objects. They point
# at each other, and Cython declares no struct ahead of its module: so all of them are here, below
# the name of the folder that makes and frees them.

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from quiver_fast.amqp.data_plane cimport (
    amqp_buffers_t, amqp_deliveries_t, amqp_delivery_t, amqp_input_t, amqp_link_deliveries_t,
    amqp_plane_t, amqp_session_deliveries_t, amqp_session_end_t, amqp_spares_t, amqp_timers_t,
)
from quiver_fast.amqp.tls cimport tls_t
from quiver_fast.loop.heap cimport Heap
from quiver_fast.loop.memory cimport Holder
from quiver_fast.loop.reactor cimport Hook, Watch
from quiver_fast.proton.libproton cimport pn_connection_driver_t, pn_link_t, pn_session_t
from quiver_fast.server.messages.messages cimport ChainReader, Chunk, Message, Shape
from quiver_fast.server.model.limits cimport Limits
from quiver_fast.server.model.roles cimport LinkKind, LinkRole
from quiver_fast.server.model.traffic cimport Traffic
from quiver_fast.server.selectors.steps cimport Filter

# A timer. Its place in the container's heap has to be the first member.
cdef struct Timer:
    uint32_t place
    void (*ring)(Timer *timer, int64_t now) noexcept nogil

# ---- nodes/

# A message's place in one queue. Available entries are in a lane, in the order of their
# sequence. An acquired entry is held only by its outlet's delivery.
cdef struct Entry:
    # In the queue's heap of expiring entries, while available; has to be the first member.
    uint32_t expiry
    # Deliveries that failed here, added to the header's delivery-count.
    uint32_t failures
    Entry *prev
    Entry *next
    # Its place in its lane's index, if it came back.
    Entry *left
    Entry *right
    Message *message
    Queue *queue
    Lane *lane
    uint64_t sequence
    # Its share of the queue's bytes.
    size_t bytes
    uint8_t acquired
    # It was delivered before: not first-acquirer any more.
    uint8_t used
    uint8_t indexed
    uint32_t since          # when it came, or came back from its file (labels.pxd)

# Available entries that the same consumers may have.
cdef struct Lane:
    Entry *head
    Entry *tail
    # The index of those that came back.
    Entry *root
    # Links that said undeliverable-here, by ascending serial number.
    uint64_t *barred
    size_t barred_count
    # Entries of a lane that is barred to some, available or not: it goes with the last.
    size_t entries
    Lane *next

# Where a consumer stands. With credit and room it is `ready`: in the ring of its queue.
cdef struct Consumer:
    Consumer *prev_ready
    Consumer *next_ready
    Consumer *prev
    Consumer *next
    # In its queue's list of consumers to drain.
    bint draining
    Consumer *prev_draining
    Consumer *next_draining
    Queue *queue
    Outlet *outlet
    bint ready
    # Another server's link: it gets only messages that no consumer here can take.
    bint trunk
    # Browsers copy (distribution mode `copy`), and each has its own place in the list.
    bint browser
    # A browser or a selective consumer has the next entry of the main lane, and the sequence up
    # to which it saw everything. `behind`: the turn's budget ended before that.
    Entry *place
    uint64_t seen
    bint behind
    # Its selector; NULL for none.
    Filter *filter
    Consumer *prev_selective
    Consumer *next_selective
    # Sequences of matching entries that came back behind its place: a heap, the first on top.
    uint64_t *returned
    size_t returned_count
    size_t returned_capacity

cdef struct Queue:
    # Rings when the first entry expires, and for the work left for the next turn.
    Timer timer
    char *address
    size_t address_size
    # Messages that every consumer may have, and streams.
    Lane main
    Lane streaming
    # Messages that some consumers called undeliverable.
    Lane *lanes
    size_t lane_count
    uint64_t next_sequence
    # Entries available, and all with those acquired.
    size_t available
    size_t depth
    # Available streams; and whether some of them may have no consumer any more.
    size_t streams
    bint sweep
    # Bytes of messages held, and how many may be.
    size_t bytes
    size_t limit
    # Available entries with a time to live, by expiry (monotonic ms).
    Heap expiry
    Consumer *consumers
    Consumer *browsers
    Consumer *ready
    size_t consumer_count
    # Consumers with a selector, those of them that are ready; these and browsers.
    Consumer *selective
    Consumer *selecting
    size_t selective_count
    size_t watchers
    # Consumers other than trunks, a topic's subscriptions' too. With any it is in a list.
    size_t local_count
    Queue *prev_wanted
    Queue *next_wanted
    # Our links to other servers that bring messages of this address.
    Inlet *trunk_inlets
    bint trunk              # a subscription of another server's
    bint by_priority        # sequences begin with the priority
    # A subscription's selector, or NULL; the origin that it leaves out; whether it has either.
    Filter *filter
    uint64_t not_from
    bint choosy
    # Producers that wait for room.
    Inlet *waiting
    # Anonymous links whose current message goes to this queue.
    Inlet *bound
    # Producers of streams, which have credit only while there are consumers.
    Inlet *streaming_inlets
    # A topic keeps nothing: each of its subscriptions is a queue of its own.
    bint multicast
    Queue *subscriptions
    Queue *prev_subscription
    Queue *next_subscription
    Queue *topic
    # The Subscription of a named subscription, a Python object that the Broker holds.
    void *subscription
    # The subscription lasts without links.
    bint kept
    # The subscription's copy of the message that is being published.
    Message *incoming
    # A topic's durable subscriptions, and those of them that have files.
    size_t kept_subscriptions
    size_t stored_subscriptions
    # In the container's list of queues that have something to dispatch.
    bint dirty
    Queue *next_dirty
    # Consumers that drain: they get the available messages, then lose their credit (part 2.6.7).
    Consumer *draining
    # Links that use it; a temporary queue is freed with the last one.
    size_t links
    bint temporary
    # A dynamic node's lifetime policy: the last byte of the descriptor; else 0.
    uint8_t lifetime
    # Its creator has detached: it is deleted with its last message (delete-on-no-messages).
    bint orphaned
    # Links that the peer attached to send here.
    Inlet *inlets
    # It is not configured: without links, messages and file it is freed.
    bint on_demand
    # Its durable messages have to be in a file.
    bint storable
    # Its Store, a Python object that the Broker holds; NULL as long as it has no file.
    void *store
    # Its file is being opened; opening failed, and the waiting links have to be told.
    bint opening
    bint unopened
    # Commits that wait for its file.
    Coordinator *discharging
    Container *container
    # All queues of the container are in a list.
    Queue *prev
    Queue *next
    uint32_t label          # its place in `labelled`, plus 1; 0 for none

# ---- connections/

# What every session's context points to.
cdef struct Session:
    pn_session_t *session
    Session *prev
    Session *next
    Link *links
    # Its links that the peer sends by, and those of them for streams.
    size_t incoming
    size_t streaming
    # We began it, not the peer.
    bint begun_here
    Session *next_beginning
    # The data plane's side of it, and its deliveries.
    amqp_session_end_t *end
    amqp_session_deliveries_t deliveries
    # Links that were attached before our begin went out.
    uint32_t unframed
    # Bytes that arrived and are not read yet, as counted for the connection.
    size_t counted
    # Bytes that may be unread, those of them in files, and frames left when a window is given.
    size_t window
    size_t spilled
    uint32_t mark

# The context of each link, of any kind.
cdef struct Link:
    LinkKind kind
    LinkRole role
    pn_link_t *link
    amqp_link_deliveries_t deliveries
    pn_session_t *session
    Peer *peer
    # Among the links of its session.
    Link *prev
    Link *next
    uint64_t serial         # never used twice while the server runs
    # The waiter, once a delivery of the link waited for a sync.
    Waiter *waiter
    # We detached it with an error: its further messages are dropped.
    bint refused
    # We began its session for it alone: the session ends with the link.
    bint owns_session
    Queue *made             # the dynamic node that was created for it; NULL for none
    bint named              # it held its name, or holds it: see names.pxi

# ---- streams/

# A message that is forwarded while it is being received.
cdef struct Stream:
    Message *message
    # Its sender's link and delivery; NULL after their end.
    Inlet *inlet
    amqp_delivery_t *delivery
    Stream *next
    # Outlets that are sending it.
    Outlet *readers
    # Entries without an outcome, and the worst outcome of the others.
    int undecided
    uint64_t outcome
    bint failed
    bint undeliverable
    bint presettled         # by its sender

# ---- transfer/

# A delivery tag of ASCII digits, because some clients read tags as text.
cdef struct Tag:
    uint8_t digits[16]
    size_t size

# A link that messages leave by.
cdef struct Outlet:
    Link base
    Outlet *next_idle       # among those that we attached and that have no stream
    # Streams that run to this consumer, on its own link or on links of ours.
    int streams
    # For a link of ours: the consumer of its stream, and that consumer's other links.
    Outlet *consumer_link
    Outlet *prev_served
    Outlet *next_served
    # The links that serve this consumer.
    Outlet *served
    Outlet *next_reader
    Consumer consumer
    bint presettled         # deliveries are sent settled, and end so
    Tag tag                 # of the last delivery
    # Bytes that go before those of the message: its header as it is now, and a stream's route.
    char *lead
    size_t lead_size
    size_t lead_sent
    # The message that is being sent in parts, and how many bytes of it are sent.
    Entry *sending
    amqp_delivery_t *delivery
    Chunk *chunk
    size_t offset
    # The reader of its parts, if they are in the file.
    ChainReader *reader
    # Waits for its session's output to drain; then it is in its peer's list.
    bint clogged
    Outlet *prev_clogged
    Outlet *next_clogged

# A link that messages come by.
cdef struct Inlet:
    Link base
    # NULL for an anonymous terminus: each message names its address.
    Queue *queue
    # Message.origin of its messages.
    uint64_t origin
    # Among those that the peer attached to that queue.
    Inlet *prev_inlet
    Inlet *next_inlet
    # The anonymous terminus' last address and its queue; valid until a queue is deleted.
    Queue *last
    uint64_t last_known
    # The message that is arriving in parts, and its bytes as the connection's holder knows them.
    Message *receiving
    size_t counted
    void *spill             # the Spill: bytes of the arriving message in a file
    # The target has the capability qd.streaming-deliveries.
    bint streaming
    Inlet *prev_streaming
    Inlet *next_streaming
    # Streams that are still arriving, or have no outcome yet.
    Stream *streams
    int stream_count
    # In its queue's list, if it is a consumer of another server.
    Inlet *prev_trunk
    Inlet *next_trunk
    # Where the route of the stream leads that is arriving from another server.
    Queue *destination
    Inlet *prev_bound
    Inlet *next_bound
    # Waits until its stream is sent; in the container's list when it may go on.
    bint awake
    Inlet *next_awake
    # Its deliveries that wait for a sync.
    int unsynced
    # Mean size of its messages, which decides how many it may send ahead.
    size_t mean_size
    Shape shape
    # A message of one frame has come: its session's window is wide enough for those.
    bint wide
    # Waits in a queue's list for room or for its file, or in the broker's to end a long message.
    Queue *blocked_by
    bint ends_later
    Inlet *prev_waiting
    Inlet *next_waiting

# ---- protocol/, connections/

# A connection that this server makes, and makes again when it is lost.
cdef struct Dial:
    # Of the socket while it connects.
    Watch watch
    Hook hook
    Peer *peer
    # When to try next, or to give up trying (monotonic ns).
    int64_t due
    # The Connector.
    void *owner
    void (*lost)(Dial *dial, Peer *peer) noexcept nogil

# One AMQP connection.
cdef struct Peer:
    # For idle time-outs, the handshake, and links that wait to be detached.
    Timer timer
    Container *container
    Holder holder
    Peer *prev
    Peer *next
    Watch watch
    uint32_t events
    pn_connection_driver_t driver
    amqp_plane_t plane
    amqp_timers_t timers
    amqp_deliveries_t deliveries
    # The session whose deliveries get the outcomes of the last disposition.
    Session *walked
    Session *sessions
    # Links that the peer attached, and those that we did.
    size_t link_count
    size_t own_links
    # Sessions of the peer's; ours; those with a channel until their end frame is written.
    size_t session_count
    size_t own_sessions
    size_t ending_sessions
    # The session that our links share; NULL as long as no link needs it.
    pn_session_t *shared_session
    bint opened
    bint closed             # our close is on its way: nothing of a link follows it
    # Sessions that it began and that are not answered yet, the latest first.
    Session *beginning
    # The peer sent FIN or the socket failed; nothing more is read or written.
    bint cut
    tls_t *tls              # NULL where there is no TLS
    # The socket is full; until it drains, nothing is framed for it.
    bint full
    # Unanswered begins, attaches, detaches and ends: they could grow while the socket is full.
    size_t unanswered
    # The engine takes no more: the peer has closed, or broke the protocol.
    bint deaf
    # Events are left for the next round; until then nothing is read.
    bint behind
    bint dead               # freed at the end of the turn
    Peer *next_dead
    bint dirty
    Peer *next_dirty
    bint borrows
    Peer *next_borrower
    Outlet *clogged
    # It offered qd.streaming-links: each stream to it gets a link of its own.
    bint streaming_links
    Outlet *idle_first
    Outlet *idle_last
    size_t idle_count
    # Streams that run on links of ours to this peer.
    size_t stream_count
    # It reserved its container id: no other connection may have that.
    bint sole
    # A connection to another pyfast server; and the connector, if we made the connection.
    bint trunk
    Dial *dial
    Peer *prev_trunk
    Peer *next_trunk
    # Open transactions by the low bits of their ids; free places are chained.
    Transaction **transactions
    uint32_t transaction_capacity
    uint32_t transaction_count
    uint32_t free_transaction
    int64_t accepted_at

# ---- transactions/

# One thing that a commit does (part 4.4).
cdef struct Work:
    Work *next
    # The queue, which lives at least as long; NULL for a browser's copy.
    Queue *queue
    # A message to publish...
    Message *message
    # ...or an outcome to apply; `delivery` is NULL once the consumer settled it.
    Entry *entry
    # The serial number of the link that gave it.
    uint64_t serial
    amqp_delivery_t *delivery
    uint64_t outcome
    bint failed
    bint undeliverable
    # The encoded annotations of *modified*, or NULL.
    char *annotations
    size_t annotations_size

# A link whose deliveries wait for a sync, and how many; its link is NULL after the link's end.
cdef struct Waiter:
    Link *link
    size_t count

# A delivery that is accepted when its message is on disk.
cdef struct Pending:
    Waiter *waiter
    amqp_delivery_t *delivery

# A link to the coordinator, and the transactions that were declared on it.
cdef struct Coordinator:
    Link base
    Transaction *transactions
    # A commit that waits for a queue's file; the work before this place has its files.
    uint64_t discharge
    Work *unopened
    Queue *awaited
    Coordinator *prev_discharging
    Coordinator *next_discharging

cdef struct Transaction:
    Transaction *prev
    Transaction *next
    Coordinator *coordinator
    uint64_t id
    Work *first
    Work *last
    # Bytes of the messages and outcomes that it holds.
    size_t bytes
    # Its commit wrote to files.
    bint stored
    # Some of its work was refused: it can only be rolled back.
    bint incomplete

# All connections and queues of one server.
cdef struct Container:
    Limits limits
    Queue *dirty_queues
    Peer *dirty_peers
    Inlet *awake
    # Stores to flush at the end of the turn, and to sync.
    void *dirty_stores
    void *unsynced_stores
    # The Syncer; NULL without files.
    void *syncer
    # Answers wait until their messages are on disk (A.11).
    bint group
    # A file of this many bytes ends when most of its messages are removed.
    size_t roll_size
    # Detach a consumer whose link's name was attached anew.
    void (*steal)(Link *link) noexcept nogil
    Pending *pending
    # How many of `pending` wait for the sync under way; whether a file could not be handed over.
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
    Peer *trunks            # those that are other servers
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
