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
    Entry *_right
    Message *message
    Queue *queue
    Lane *lane
    uint64_t sequence
    # Its share of the queue's bytes.
    size_t bytes
    uint8_t acquired
    # It was delivered before: not first-acquirer any more.
    uint8_t used
    uint8_t _indexed
    uint32_t since          # when it came, or came back from its file (container.pxi)

# Available entries that the same consumers may have.
cdef struct Lane:
    Entry *head
    Entry *tail
    # The index of those that came back.
    Entry *_root
    # Links that said undeliverable-here, by ascending serial number.
    uint64_t *barred
    size_t _barred_count
    # Entries of a lane that is barred to some, available or not: it goes with the last.
    size_t _entries
    Lane *next

# Where a consumer stands. With credit and room it is `ready`: in the ring of its queue.
cdef struct Consumer:
    Consumer *_prev_ready
    Consumer *next_ready
    Consumer *prev
    Consumer *next
    # In its queue's list of consumers to drain.
    bint draining
    Consumer *_prev_draining
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
    uint64_t _seen
    bint behind
    # Its selector; NULL for none.
    Filter *filter
    Consumer *_prev_selective
    Consumer *next_selective
    # The incomplete entry that its selector was asked for last, by sequence, and its size then;
    # the answer, and whether more properties may change it.
    uint64_t _judged
    size_t _judged_size
    bint _fits
    bint _known
    # Sequences of entries that came back behind its place: a heap, the first on top.
    uint64_t *_returned
    size_t _returned_count
    size_t _returned_capacity

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
    size_t _lane_count
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
    Queue *_prev_wanted
    Queue *next_wanted
    # Our links to other servers that bring messages of this address.
    Inlet *trunk_inlets
    size_t trunk_inlet_count
    bint trunk              # a subscription of another server's
    bint by_priority        # sequences begin with the priority
    # A subscription's selector, or NULL; the origin that it leaves out; whether it has either.
    Filter *filter
    uint64_t not_from
    bint is_filtered
    # A topic's subscriptions with a selector; the link whose message these are asked for, and
    # the next one to ask. For a subscription: that message's number, and the answer.
    size_t selector_count
    Inlet *judging
    Queue *next_judge
    uint64_t judged
    bint fits
    # In the container's list of queues whose selectors go on in a later turn.
    bint later
    Queue *_next_later
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
    # That was for want of descriptors.
    bint scarce
    # Commits that wait for its file.
    Coordinator *discharging
    Container *container
    # All queues of the container are in a list.
    Queue *prev
    Queue *next
    uint32_t label          # its place in `labelled`, plus 1; 0 for none
