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
    # The entry's message with the annotations of *modified*; NULL if it does not change.
    Message *changed

# A link to the coordinator, and the transactions that were declared on it.
cdef struct Coordinator:
    Link base
    Transaction *transactions
    # A commit that waits for a queue's file; the work before this place has its files.
    uint64_t discharge
    Work *unopened
    Queue *_awaited
    Coordinator *_prev_discharging
    Coordinator *_next_discharging

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
    bint _stored
    # Some of its work was refused or is lost: it can only be rolled back.
    bint incomplete
    # A link may have messages of it that wait, unread.
    bint behind
