"""The lifetime of dynamic nodes, by lifetime policy (AMQP 1.0 parts 3.5.9 to 3.5.13).

A node without a policy is deleted with its last link, as with `delete-on-no-links`. The deletion
detaches all other links to the node, and frees its name at once.
"""

# Lifetime policies by the last byte of their descriptors, parts 3.5.10 to 3.5.13.
cdef enum:
    DELETE_ON_CLOSE = 0x2B
    DELETE_ON_NO_LINKS = 0x2C
    DELETE_ON_NO_MESSAGES = 0x2D
    DELETE_ON_NO_LINKS_OR_MESSAGES = 0x2E


cdef const char *POLICY = b"lifetime-policy"
cdef size_t POLICY_SIZE = 15
cdef const char *DELETED = b"amqp:resource-deleted"


cdef int read_lifetime(pn_terminus_t *terminus) noexcept nogil:
    """Return the lifetime policy that a dynamic terminus asks for; -1 for an unknown one."""
    cdef pn_data_t *data = pn_terminus_properties(terminus)
    cdef pn_bytes_t key
    pn_data_rewind(data)
    if not pn_data_next(data) or pn_data_type(data) != PN_MAP or not pn_data_enter(data):
        return DELETE_ON_NO_LINKS
    while pn_data_next(data):
        key = pn_data_get_symbol(data)
        if not pn_data_next(data):
            break
        if key.size == POLICY_SIZE and memcmp(key.start, POLICY, POLICY_SIZE) == 0:
            return policy_of(data)
    return DELETE_ON_NO_LINKS


cdef int policy_of(pn_data_t *data) noexcept nogil:
    """Return the code of the current policy in ``data``."""
    cdef uint64_t code
    cdef pn_bytes_t name
    if not pn_data_is_described(data) or not pn_data_enter(data) or not pn_data_next(data):
        return -1
    if pn_data_type(data) != PN_SYMBOL:
        code = pn_data_get_ulong(data)
        return <int>code if DELETE_ON_CLOSE <= code <= DELETE_ON_NO_LINKS_OR_MESSAGES else -1
    name = pn_data_get_symbol(data)
    if is_name(name, b"amqp:delete-on-close:list"):
        return DELETE_ON_CLOSE
    if is_name(name, b"amqp:delete-on-no-links:list"):
        return DELETE_ON_NO_LINKS
    if is_name(name, b"amqp:delete-on-no-messages:list"):
        return DELETE_ON_NO_MESSAGES
    if is_name(name, b"amqp:delete-on-no-links-or-messages:list"):
        return DELETE_ON_NO_LINKS_OR_MESSAGES
    return -1


cdef bint is_name(pn_bytes_t name, bytes wanted) noexcept with gil:
    return <bytes>name.start[:name.size] == wanted


cdef void set_lifetime(Queue *queue, int lifetime, pn_terminus_t *ours) noexcept nogil:
    """Set a dynamic node's lifetime policy, and name it in our terminus."""
    cdef pn_data_t *data = pn_terminus_properties(ours)
    queue.lifetime = <uint8_t>lifetime
    queue.temporary = lifetime == DELETE_ON_NO_LINKS
    queue.on_demand = lifetime == DELETE_ON_NO_LINKS_OR_MESSAGES
    pn_data_clear(data)
    pn_data_put_map(data)
    pn_data_enter(data)
    pn_data_put_symbol(data, pn_bytes(POLICY_SIZE, POLICY))
    pn_data_put_described(data)
    pn_data_enter(data)
    pn_data_put_ulong(data, lifetime)
    pn_data_put_list(data)
    pn_data_exit(data)
    pn_data_exit(data)


cdef void maker_left(Queue *queue) noexcept nogil:
    """Apply the lifetime policy of a node whose creating link has ended."""
    if queue.lifetime == DELETE_ON_CLOSE:
        node_delete(queue)
    elif queue.lifetime == DELETE_ON_NO_MESSAGES:
        # Delete the node now if it is empty, else when its last message is settled.
        queue.orphaned = True
        queue_dirty(queue)


cdef void node_delete(Queue *queue) noexcept nogil:
    """Delete a node: free its name, and detach all links to it."""
    cdef Queue *subscription = queue.subscriptions
    cdef Inlet *inlet = queue.inlets
    queue.orphaned = False
    queue.temporary = True
    forget_name(queue)
    while inlet != NULL:
        link_refuse(&inlet.base, DELETED, b"the node was deleted")
        inlet = inlet.next_inlet
    refuse_consumers(queue)
    while subscription != NULL:
        refuse_consumers(subscription)
        subscription = subscription.next_subscription
    queue_dirty(queue)


cdef void forget_name(Queue *queue) noexcept with gil:
    (<Broker>queue.container.broker).forget_name(queue)


cdef void refuse_consumers(Queue *queue) noexcept nogil:
    cdef Consumer *consumer = queue.consumers
    while consumer != NULL:
        link_refuse(&consumer.outlet.base, DELETED, b"the node was deleted")
        consumer_unready(consumer)
        consumer = consumer.next
    consumer = queue.browsers
    while consumer != NULL:
        link_refuse(&consumer.outlet.base, DELETED, b"the node was deleted")
        consumer = consumer.next


cdef void node_join(Inlet *inlet) noexcept nogil:
    """Put a peer's link into the list of its node."""
    list_push(&inlet.queue.inlets, inlet, &inlet.prev_inlet, &inlet.next_inlet)


cdef void node_leave(Inlet *inlet) noexcept nogil:
    """Remove a link from the list of its node, if it is in one."""
    if inlet.queue != NULL and inlet.base.role != TRUNK_CONSUMER:
        list_remove(&inlet.queue.inlets, inlet, &inlet.prev_inlet, &inlet.next_inlet)
