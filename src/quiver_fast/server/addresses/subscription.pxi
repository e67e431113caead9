"""Shared and durable subscriptions to topics, which may have several links or none.

A subscription is a queue of its topic. An unnamed subscription ends with its consumer's link. A
subscription with the expiry policy `never` lasts without links. Container id and link name
identify it, and if there is a store, it has a folder there. It ends when its consumer closes the
link instead of detaching it (AMQP 1.0 part 2.6.6). Consumers that ask for `shared` share the
subscription with the name before the `|` in their link's name; with `global`, across containers.

A durable message of a topic is written to the file of each such subscription, so each has its
own copy. Subscriptions share all other messages.
"""

# The index of the topic's message that is being copied into subscriptions' files.
cdef enum:
    SPREAD = -2

# A larger copy is written to its file in parts, and sent from there.
cdef size_t WHOLE_MAX = 262144


# Our attach has no more bytes than the fields of the peer's and these: its longest heads and
# numbers, the fields that the peer may leave out, and filters under their longest names.
cdef size_t ATTACH_MORE = 192


cdef class Subscription:
    """A named subscription. Its queue refers to it while the subscription can be found."""

    cdef Queue *queue
    # A Description.
    cdef readonly object what  # type: Description
    cdef readonly tuple key
    # The name of its folder; None if it has none.
    cdef readonly object folder
    # Links that wait until it is made.
    cdef list waiting


cdef Queue *subscription_of(
        Broker broker, Peer *peer, pn_link_t *link, Queue *topic) except? NULL:
    """Return the subscription that a consumer of a topic asks for; make it if there is none.

    Return NULL while its files are being made. The attach is processed again afterwards.

    Our source names its real durability. If the subscription is not shared, the new link takes it
    over from a link with the same name (part 2.6.1). On other terms it may not: JMS 2.0 refuses a
    subscription that is in use, and one that would be shared under the name of one that is not.
    """
    cdef pn_terminus_t *theirs = pn_link_remote_source(link)
    cdef pn_data_t *capabilities = pn_terminus_capabilities(theirs)
    cdef Subscription found
    cdef bint shared = has_capability(capabilities, b"shared")
    cdef bint kept = (
        pn_terminus_get_expiry_policy(theirs) == PN_EXPIRE_NEVER
        and not (peer.trunk or is_dynamic(topic)))
    if peer.trunk or not (shared or kept):
        return broker.subscribe(topic)
    if not answer_fits(peer, link):
        # Now: a refusal later would leave a subscription behind, or end one.
        raise Refusal(b"amqp:frame-size-too-small",
                      "our attach would be larger than your max-frame-size")
    name = link_name(link)
    container = container_of(peer)
    if shared:
        name = name.partition(b"|")[0]
        if has_capability(capabilities, b"global"):
            container = None
    what = Description(
        topic.address[:topic.address_size], container, name, shared,
        granted(broker, theirs) if kept else 0, encoded(pn_terminus_filter(theirs)))
    key = container, name, kept
    if key in broker.making:
        wait(peer, link, broker.making[key])
        return NULL
    found = broker.subscriptions.get(key)
    if found is not None and not same(found.what, what):
        if found.queue.consumer_count:
            raise Refusal(b"amqp:resource-locked",
                          "the subscription is in use, and on other terms")
        if found.what.shared != shared:
            raise Refusal(b"amqp:precondition-failed",
                          "a durable subscription of that name is "
                          + ("shared" if found.what.shared else "not shared"))
        # As JMS demands, a new subscription replaces an unused one with its name.
        unsubscribe(broker, found, NULL)
        found = None
    if found is None and what.durability:
        wait(peer, link, make_durable(broker, what, key))
        return NULL
    if found is None:
        found = subscribe(broker, topic, what, key)
    elif not shared:
        subscription_steal(found.queue)
    if kept:
        claim(pn_link_source(link), found.what)
    return found.queue


cdef bint answer_fits(const Peer *peer, pn_link_t *link) noexcept nogil:
    """Say whether our attach, which repeats the peer's, fits the peer's max-frame-size for sure."""
    cdef size_t most = peer.plane.endpoints.opened[<int>AMQP_THEIRS].max_frame_size
    return link_end(link).attach_size + ATTACH_MORE <= most


cdef bytes link_name(pn_link_t *link):
    """Return a link's name, which is mandatory in an attach (part 2.7.3)."""
    cdef const char *name = pn_link_name(link)
    if name == NULL:
        raise Refusal(b"amqp:invalid-field", "the attach has no name")
    return name


cdef bytes container_of(Peer *peer):
    cdef const char *container = pn_connection_remote_container(peer.driver.connection)
    return b"" if container == NULL else <bytes>container


cdef bint same(object one, object other) except -1:
    """Say whether two descriptions are equal, except for durability and the filters' form."""
    return one._replace(durability=0, filter=b"") == other._replace(durability=0, filter=b"") and (
        chosen(one.filter) == chosen(other.filter))


cdef int granted(Broker broker, pn_terminus_t *theirs) except -1:
    """Return the terminus-durability that a subscription really has."""
    return PN_NONDURABLE if broker.files is None else <int>pn_terminus_get_durability(theirs)


cdef bytes encoded(pn_data_t *data):
    if pn_data_size(data) == 0:
        return b""
    buffer = bytearray(max(pn_data_encoded_size(data), 0))
    pn_data_encode(data, <char *>buffer, len(buffer))
    return bytes(buffer)


cdef void claim(pn_terminus_t *ours, object what) noexcept:
    """Name the subscription's expiry policy and durability in our source (part 3.5.5)."""
    pn_terminus_set_expiry_policy(ours, PN_EXPIRE_NEVER)
    pn_terminus_set_durability(ours, <pn_durability_t><int>what.durability)


cdef bint is_active(const Queue *subscription) noexcept nogil:
    """Say whether a subscription has a consumer."""
    return subscription.subscription != NULL and subscription.consumer_count > 0


cdef int subscription_steal(Queue *queue) except -1:
    """Detach the consumers of a subscription, because a new link has the same name."""
    while queue.consumers != NULL:
        queue.container.steal(&queue.consumers.outlet.base)
    return 0


cdef Subscription subscribe(Broker broker, Queue *topic, object what, tuple key):
    """Make a named subscription without files."""
    cdef Subscription made = Subscription()
    check_selectors(broker)
    broker.check_room()
    made.what = what
    made.key = key
    subscription_begin(broker, topic, made)
    return made


cdef Subscription make_durable(Broker broker, object what, tuple key):
    """Make a subscription's files, before its consumer is told that it is durable."""
    cdef Subscription made = Subscription()
    check_selectors(broker)
    broker.check_room()
    made.what = what
    made.key = key
    made.folder = uuid.uuid4().hex
    made.waiting = []
    broker.making[key] = made
    broker.opener.do(SUBSCRIPTION + made.folder, partial(make_files, broker.files, what),
                     partial(files_made, broker, made))
    return made


cdef int check_selectors(Broker broker) except -1:
    """Refuse one more subscription with a name if the selectors of all take too much memory.

    A subscription may outlive its connection, so that no connection counts its selector.
    """
    if account.limit and broker.container.selectors > account.limit:
        raise Refusal(b"amqp:resource-limit-exceeded",
                      "the selectors of subscriptions take more memory than memory-limit")
    return 0


cdef int wait(Peer *peer, pn_link_t *link, Subscription made) except -1:
    """Let a link wait until a subscription is made."""
    cdef Link *waiting = link_new(peer, link, DEFERRED, CLIENT, sizeof(Link))
    if waiting == NULL:
        raise MemoryError("no memory for a link")
    made.waiting.append(defer(<Broker>peer.container.broker, waiting))
    return 0


def make_files(files: QueueDirectory, what: Description, name: str) -> None:
    """Make all of a subscription's files or none, in the opener's thread.

    Raises:
        OutputError: a file cannot be made.
    """
    folder = files.folder(name)
    try:
        with files.descriptors(name):
            subscription_files.keep(folder, what)
            files.appender(name)
    except BaseException:
        if folder.exists():
            subscription_files.forget(folder)
        raise


def files_made(Broker broker, Subscription made, name: str, error: Exception | None) -> None:
    """Answer the links that wait for a subscription whose files exist or failed."""
    cdef Queue *topic
    cdef bytes why = None
    cdef bint scarce = False
    del broker.making[made.key]
    if broker.container.closing:
        return
    try:
        if error is not None:
            raise error
        # Many may have been made at once.
        check_selectors(broker)
        topic = topic_of(broker, made.what)
        subscription_begin(broker, topic, made)
    except Exception as failure:
        scarce = isinstance(failure, NoDescriptorsError)
        if scarce:
            report_scarce(&broker.container, failure)
        else:
            say(failure)
        why = str(failure).encode("utf-8", "replace")
        if error is None:
            forget_folder(broker, made, None)
            broker.files.appender(name).abandon()
            broker.opener.do(name, broker.files.discard, store_discarded)
    waiting, made.waiting = made.waiting, None
    for deferred in waiting:
        (<Deferred>deferred).delay.scarce = scarce
        deferred_go_on(broker, deferred, why)


cdef Queue *topic_of(Broker broker, object what) except NULL:
    """Return the topic of a description; make it if there is none."""
    cdef Queue *topic = broker.find(what.topic, True, True)
    if not topic.multicast:
        raise QuiverError(f"{what.topic!r} is a queue")
    return topic


cdef int subscription_begin(Broker broker, Queue *topic, Subscription made) except -1:
    """Make a subscription's queue, and give it the file with the stored messages."""
    cdef bint kept = made.key[2]
    made.queue = broker.subscribe(topic)
    choose_encoded(made.queue, made.what.filter, made.key[0])
    made.queue.subscription = <void *>made
    made.queue.temporary = made.queue.temporary and not kept
    made.queue.kept = kept
    broker.subscriptions[made.key] = made
    if not kept:
        return 0
    topic.kept_subscriptions += 1
    # It counts as a consumer, so that other servers send messages even without links.
    add_consumers(topic, 1)
    if made.folder is None:
        return 0
    try:
        made.queue.storable = True
        broker.fill_store(made.queue, SUBSCRIPTION + made.folder)
    except BaseException:
        end_subscription(broker, made)
        broker.let_go(made.queue)
        raise
    topic.stored_subscriptions += 1
    return 0


cdef Queue *known_subscription(Broker broker, Peer *peer, pn_link_t *link) except? NULL:
    """Return the subscription that a link without a source asks about.

    Return NULL while it is being made. The attach is processed again afterwards. JMS clients ask
    before they unsubscribe, and our source describes the subscription (part 2.6.3).
    """
    cdef pn_terminus_t *ours = pn_link_source(link)
    cdef pn_data_t *data = pn_terminus_capabilities(ours)
    cdef Subscription found
    name = link_name(link)
    if name.endswith(b"|global"):
        key = None, name[:-len(b"|global")], True
    else:
        key = container_of(peer), name, True
    if key in broker.making:
        wait(peer, link, broker.making[key])
        return NULL
    found = broker.subscriptions.get(key)
    if found is None:
        raise Refusal(b"amqp:not-found", "the attach has no source, and there is no "
                      "subscription of that name")
    if is_active(found.queue):
        raise Refusal(b"amqp:resource-locked", "the subscription is in use")
    pn_terminus_set_type(ours, PN_SOURCE)
    pn_terminus_set_address(ours, found.queue.address)
    claim(ours, found.what)
    pn_data_clear(data)
    pn_data_put_array(data, False, PN_SYMBOL)
    pn_data_enter(data)
    pn_data_put_symbol(data, pn_bytes(5, b"topic"))
    if found.what.shared:
        pn_data_put_symbol(data, pn_bytes(6, b"shared"))
        if found.what.container is None:
            pn_data_put_symbol(data, pn_bytes(6, b"global"))
    pn_data_exit(data)
    return found.queue


def restore_subscriptions(Broker broker) -> None:
    """Restore the subscriptions in the store. Report a failure, and go on with the others.

    Raises:
        QueueInUseError: another server has the store.
    """
    cdef Subscription made
    cdef Queue *topic
    root = broker.files.folder(SUBSCRIPTION)
    for folder, what in subscription_files.kept(root):
        try:
            if isinstance(what, QuiverError):
                raise what
            topic = topic_of(broker, what)
            made = Subscription()
            made.what = what
            made.key = what.container, what.name, True
            made.folder = folder
            subscription_begin(broker, topic, made)
        except QueueInUseError:
            raise
        except (MemoryError, OSError, QuiverError) as error:
            say(f"the subscription in {root / folder} is not served: {error}")


cdef bint subscription_closed(Queue *queue, Link *link) noexcept nogil:
    """End the subscription of a closed link, unless it is shared and has other consumers.

    Return whether the link has to wait until the end is on disk.
    """
    if queue == NULL or queue.subscription == NULL or not queue.kept or queue.consumer_count > 1:
        return False
    with gil:
        return unsubscribe(
            <Broker>queue.container.broker, <Subscription>queue.subscription, link)


cdef void subscription_left(Queue *queue) noexcept nogil:
    """Free the name of a subscription that is not durable when its last consumer has left."""
    leave_topic(queue)
    if queue.subscription != NULL:
        with gil:
            forget(<Broker>queue.container.broker, <Subscription>queue.subscription)


cdef int forget(Broker broker, Subscription subscription) noexcept:
    subscription.queue.subscription = NULL
    del broker.subscriptions[subscription.key]
    return 0


cdef bint unsubscribe(Broker broker, Subscription subscription, Link *link) noexcept:
    """End a subscription. Its queue is freed with its last link.

    Args:
        link: waits until the end is on disk if the subscription has files; True is returned.
    """
    cdef Queue *queue = subscription.queue
    cdef Deferred deferred = None
    if subscription.folder is not None:
        if link != NULL:
            deferred = defer(broker, link)
        forget_folder(broker, subscription, deferred)
    if queue.kept:
        end_subscription(broker, subscription)
    else:
        # Only a transaction still needs the queue.
        forget(broker, subscription)
    if queue.links == 0:
        leave_topic(queue)
        queue_dirty(queue)
    return deferred is not None


cdef int forget_folder(Broker broker, Subscription subscription, Deferred deferred) except -1:
    """Record the end of a subscription on disk, and then resume the waiting link, if any."""
    broker.opener.do(SUBSCRIPTION + subscription.folder, partial(forget_files, broker.files),
                     partial(files_forgotten, broker, deferred))
    return 0


def forget_files(files: QueueDirectory, name: str) -> None:
    """Record the end of a subscription, in the opener's thread.

    Raises:
        OutputError: the record cannot be written.
    """
    with files.descriptors(name):
        subscription_files.forget(files.folder(name))


def files_forgotten(
        Broker broker, Deferred deferred, name: str, error: Exception | None) -> None:
    """Answer the detach that ended a subscription after its end was recorded."""
    if error is not None:
        say(error)
    if deferred is not None:
        deferred_go_on(broker, deferred, None)


cdef int end_subscription(Broker broker, Subscription subscription) noexcept:
    """Free the name of a durable subscription, and stop storing messages for it."""
    cdef Queue *queue = subscription.queue
    cdef Queue *topic = queue.topic
    if queue.store != NULL:
        topic.stored_subscriptions -= 1
    topic.kept_subscriptions -= 1
    add_consumers(topic, -1)
    queue.kept = False
    queue.temporary = True
    forget(broker, subscription)
    trunks_withdraw(topic)
    return 0


cdef Message *copied(const Message *message) noexcept nogil:
    """Return a copy of a message for another file; NULL without memory."""
    cdef Message *copy = (
        message_new(message.size) if message.size <= WHOLE_MAX else message_in_parts())
    cdef const Chunk *chunk = message.first
    cdef size_t done
    cdef size_t room
    cdef char *space
    while copy != NULL and chunk != NULL:
        done = 0
        while done < chunk.size:
            space = message_space(copy, chunk.size - done, &room)
            if space == NULL:
                message_release(copy)
                return NULL
            memcpy(space, chunk_bytes(<Chunk *>chunk) + done, room)
            message_filled(copy, room)
            done += room
        chunk = chunk.next
    if copy != NULL:
        copy.format = message.format
        copy.header = message.header
        copy.expires = message.expires
        copy.from_trunk = message.from_trunk
        copy.complete = True
    return copy


cdef bint store_copies(Queue *topic, Message *message) noexcept nogil:
    """Write a durable message to the files of all of a topic's subscriptions, or to none.

    The copies are in `incoming` afterwards. Return False if a file is full, or without memory.
    """
    cdef Queue *subscription = topic.subscriptions
    while subscription != NULL:
        if subscription.store != NULL and is_for(subscription, message):
            subscription.incoming = copied(message)
            if subscription.incoming == NULL or not store(subscription, subscription.incoming):
                drop_copies(topic)
                return False
        subscription = subscription.next_subscription
    return True


cdef bint store(Queue *queue, Message *message) noexcept nogil:
    if message.size > WHOLE_MAX:
        return store_part(queue, message, True)
    return store_append(queue, message)


cdef void drop_copies(Queue *topic) noexcept nogil:
    """Remove the copies again, because a subscription could not get one."""
    cdef Queue *subscription = topic.subscriptions
    while subscription != NULL:
        if subscription.incoming != NULL:
            if subscription.incoming.index >= 0 or subscription.incoming.chain != NULL:
                store_remove(subscription, subscription.incoming)
            message_release(subscription.incoming)
            subscription.incoming = NULL
        subscription = subscription.next_subscription


cdef bint spread(Transaction *transaction) noexcept nogil:
    """Add copies for subscriptions to a transaction's work, for its messages to topics.

    The transaction writes them with everything else. Return False without memory.
    """
    cdef Work *work = transaction.first
    cdef Queue *subscription
    while work != NULL:
        if work.message != NULL and work.queue.stored_subscriptions and (
                work.message.header.durable and work.message.index != SPREAD):
            subscription = work.queue.subscriptions
            while subscription != NULL:
                if subscription.store != NULL and is_for(subscription, work.message) and (
                        not add_copy(transaction, work, subscription)):
                    return False
                subscription = subscription.next_subscription
            work.message.index = SPREAD
        work = work.next
    return True


cdef bint add_copy(Transaction *transaction, Work *work, Queue *subscription) noexcept nogil:
    """Put the work of a copy after the work of its message."""
    cdef Work *made = <Work *>calloc(1, sizeof(Work))
    if made == NULL:
        return False
    made.next = work.next
    work.next = made
    if transaction.last == work:
        transaction.last = made
    made.queue = subscription
    subscription.links += 1
    made.message = copied(work.message)
    return made.message != NULL
