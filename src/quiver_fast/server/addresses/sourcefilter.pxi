"""The filter set of a source (AMQP 1.0 part 3.5.8): reading, checking, answering.

The server supports two filters of the AMQP JMS mapping: the selector and no-local. No-local
applies only to topics, because JMS does not define it for queues. The answer to a queue's source
does not name it.
"""

cdef bytes SELECTOR = b"apache.org:selector-filter:string"
cdef bytes NO_LOCAL = b"apache.org:no-local-filter:list"
cdef dict NAMES = {0x0000468C00000004: SELECTOR, 0x0000468C00000003: NO_LOCAL}


cdef class Asked:
    """The filters of a source."""


cdef Asked read_filters(pn_terminus_t *theirs):
    """Read a source's filters.

    Raises:
        Refusal: the set is malformed, or has an unknown filter.
        SelectorError: the selector is not valid.
    """
    return read_set(pn_terminus_filter(theirs))


cdef Asked read_set(pn_data_t *data):
    asked = Asked()
    pn_data_rewind(data)
    if not pn_data_next(data) or pn_data_type(data) == PN_NULL:
        return asked
    if pn_data_type(data) != PN_MAP:
        raise Refusal(b"amqp:invalid-field", "the source's filter is not a map")
    pn_data_enter(data)
    while pn_data_next(data):
        if pn_data_type(data) != PN_SYMBOL:
            raise Refusal(b"amqp:invalid-field", "a filter's key is not a symbol")
        key = bytes_of(pn_data_get_symbol(data))
        if pn_data_next(data) and pn_data_type(data) != PN_NULL:
            read_filter(asked, data, key)
    return asked


cdef int read_filter(Asked asked, pn_data_t *data, bytes key) except -1:
    """Read the current filter in ``data``."""
    kind = b""
    if pn_data_is_described(data):
        pn_data_enter(data)
        pn_data_next(data)
        kind = (bytes_of(pn_data_get_symbol(data)) if pn_data_type(data) == PN_SYMBOL
                else NAMES.get(pn_data_get_ulong(data), b"%#x" % pn_data_get_ulong(data)))
        pn_data_next(data)
    if kind == SELECTOR:
        if asked.selector is not None:
            raise Refusal(b"amqp:invalid-field", "the source has two selectors")
        if pn_data_type(data) != PN_STRING:
            raise Refusal(b"amqp:invalid-field", "the selector is not a string")
        asked.text = bytes_of(pn_data_get_bytes(data)).decode("utf-8", "replace")
        asked.selector = Selector(asked.text)
        asked.selector_key = key
    elif kind == NO_LOCAL:
        asked.local_key = key
    else:
        name = (kind or key).decode("ascii", "replace")
        raise Refusal(b"amqp:not-implemented", f"there is no filter '{name}' here")
    pn_data_exit(data)
    return 0


cdef bytes bytes_of(pn_bytes_t value):
    return value.start[:value.size]


cdef int put_symbol(pn_data_t *data, bytes name) except -1:
    pn_data_put_symbol(data, pn_bytes(len(name), name))
    return 0


cdef int write_filters(Asked asked, bint topic, pn_terminus_t *ours) except -1:
    """Name the effective filters in our source."""
    cdef pn_data_t *data = pn_terminus_filter(ours)
    pn_data_clear(data)
    if asked.selector is None and (asked.local_key is None or not topic):
        return 0
    pn_data_put_map(data)
    pn_data_enter(data)
    if asked.selector is not None:
        text = asked.text.encode()
        put_symbol(data, asked.selector_key)
        pn_data_put_described(data)
        pn_data_enter(data)
        put_symbol(data, SELECTOR)
        pn_data_put_string(data, pn_bytes(len(text), text))
        pn_data_exit(data)
    if asked.local_key is not None and topic:
        put_symbol(data, asked.local_key)
        pn_data_put_described(data)
        pn_data_enter(data)
        put_symbol(data, NO_LOCAL)
        pn_data_put_list(data)
        pn_data_exit(data)
    pn_data_exit(data)
    return 0


cdef int choose(Queue *subscription, Asked asked, bytes container) except -1:
    """Set a new subscription's filters to those of its first consumer.

    Args:
        container: the consumer's container; None for any.
    """
    if asked.local_key is not None and container is not None:
        subscription.not_from = origin_of(container)
    if asked.selector is not None:
        subscription.filter = filter_take(asked.selector)
        subscription.topic.selector_count += 1
        subscription.container.selectors += subscription.filter.memory
    subscription.is_filtered = subscription.not_from != 0 or subscription.filter != NULL
    return 0


cdef int choose_encoded(Queue *subscription, bytes encoded, bytes container) except -1:
    """Like `choose`, for an encoded filter set, which may be empty."""
    return choose(subscription, read_encoded(encoded), container)


cdef Asked read_encoded(bytes encoded):
    """Read an encoded filter set, which may be empty."""
    cdef pn_data_t *data = pn_data(0)
    try:
        if encoded:
            pn_data_decode(data, encoded, len(encoded))
        return read_set(data)
    finally:
        pn_data_free(data)


cdef tuple chosen(bytes encoded):
    """Return what an encoded filter set chooses: filters' keys and descriptors are free."""
    asked = read_encoded(encoded)
    return asked.text, asked.local_key is not None


cdef uint64_t origin_of(bytes container) except? 0:
    """Return a container's number, never 0: a keyed hash that no peer can predict."""
    return <uint64_t>(hash(container) & 0xFFFFFFFFFFFFFFFF) | 1
