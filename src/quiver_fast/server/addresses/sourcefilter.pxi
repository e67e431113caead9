"""The filter set of a source (AMQP 1.0 part 3.5.8): reading, checking, answering.

The server supports two filters of the AMQP JMS mapping, the selector and no-local, and two of
AMQP Filter Expressions 1.0 (working draft 09), for properties and for application properties.
No-local applies only to topics, because JMS does not define it for queues. The answer to a
queue's source does not name it.
"""

cdef bytes SELECTOR = b"apache.org:selector-filter:string"
cdef bytes NO_LOCAL = b"apache.org:no-local-filter:list"
cdef dict NAMES = {
    0x0000468C00000004: SELECTOR, 0x0000468C00000003: NO_LOCAL,
    0x173: PROPERTIES_FILTER.encode(), 0x174: APPLICATION_PROPERTIES_FILTER.encode(),
}


# The filters of a source.
cdef class Asked:
    """The filters of a source."""

    # The selector and the property filters together; None for none of them.
    cdef Selector selector
    cdef list steps
    cdef bint has_selector
    # The key that the peer gave no-local; None if it did not ask for it.
    cdef bytes local_key


cdef Asked read_filters(pn_terminus_t *theirs):
    """Read a source's filters.

    Raises:
        Refusal: the set is malformed, or has an unknown filter.
        SelectorError: the selector or a property filter is not valid.
    """
    return read_set(pn_terminus_filter(theirs))


cdef Asked read_set(pn_data_t *data):
    asked = Asked()
    asked.steps = []
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
    if asked.steps:
        asked.selector = Selector(asked.steps)
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
        if asked.has_selector:
            raise Refusal(b"amqp:invalid-field", "the source has two selectors")
        if pn_data_type(data) != PN_STRING:
            raise Refusal(b"amqp:invalid-field", "the selector is not a string")
        asked.has_selector = True
        join_steps(asked, parse(bytes_of(pn_data_get_bytes(data)).decode("utf-8", "replace")))
    elif kind == NO_LOCAL:
        asked.local_key = key
    elif kind in (PROPERTIES_FILTER.encode(), APPLICATION_PROPERTIES_FILTER.encode()):
        read_property_filter(asked, data, kind.decode())
    else:
        name = (kind or key).decode("ascii", "replace")
        raise Refusal(b"amqp:not-implemented", f"there is no filter '{name}' here")
    pn_data_exit(data)
    return 0


cdef int join_steps(Asked asked, list steps) except -1:
    """Let a message pass only if it passes these steps, too."""
    steps += [Step("and")] * bool(asked.steps)
    asked.steps += steps
    return 0


cdef int read_property_filter(Asked asked, pn_data_t *data, str name) except -1:
    """Read the map of a property filter: the fields or keys, and the values to compare."""
    cdef pn_type_t of_key = PN_SYMBOL if name == PROPERTIES_FILTER else PN_STRING
    if pn_data_type(data) != PN_MAP:
        raise Refusal(b"amqp:invalid-field", f"the {name} is not a map")
    found = []
    pn_data_enter(data)
    while pn_data_next(data):
        if pn_data_type(data) != of_key:
            raise Refusal(b"amqp:invalid-field", f"a key of the {name} has the wrong type")
        key = bytes_of(pn_data_get_bytes(data)).decode("utf-8", "replace")
        pn_data_next(data)
        found.append((key, *kind_of(value_of(data, key))))
    pn_data_exit(data)
    if not found:
        raise Refusal(b"amqp:invalid-field", f"the {name} is empty")
    return join_steps(asked, steps_of(name, found))


cdef object value_of(pn_data_t *data, str key):
    """Return the current value as a literal of a selector."""
    cdef pn_type_t kind = pn_data_type(data)
    if kind == PN_NULL:
        return None
    if kind == PN_STRING or kind == PN_SYMBOL or kind == PN_BINARY:
        return bytes_of(pn_data_get_bytes(data)).decode("utf-8", "replace")
    if kind == PN_BOOL:
        return bool(pn_data_get_bool(data))
    if kind == PN_FLOAT:
        return pn_data_get_float(data)
    if kind == PN_DOUBLE:
        return pn_data_get_double(data)
    if kind == PN_UBYTE:
        return pn_data_get_ubyte(data)
    if kind == PN_USHORT:
        return pn_data_get_ushort(data)
    if kind == PN_UINT:
        return pn_data_get_uint(data)
    if kind == PN_ULONG:
        # The unsigned long may not fit into a long.
        value = pn_data_get_ulong(data)
        return value if value <= LONG_MAX else float(value)
    if kind == PN_BYTE:
        return pn_data_get_byte(data)
    if kind == PN_SHORT:
        return pn_data_get_short(data)
    if kind == PN_INT:
        return pn_data_get_int(data)
    if kind == PN_LONG:
        return pn_data_get_long(data)
    if kind == PN_TIMESTAMP:
        return pn_data_get_timestamp(data)
    raise Refusal(b"amqp:not-implemented", f"the filter of '{key}' has a type without comparison")


cdef bytes bytes_of(pn_bytes_t value):
    return value.start[:value.size]


cdef int write_filters(
        Asked asked, bint topic, pn_terminus_t *theirs, pn_terminus_t *ours) except -1:
    """Name the effective filters in our source, as the peer wrote them."""
    cdef pn_data_t *data = pn_terminus_filter(ours)
    cdef pn_data_t *source = pn_terminus_filter(theirs)
    pn_data_clear(data)
    if asked.selector is None and (asked.local_key is None or not topic):
        return 0
    pn_data_put_map(data)
    pn_data_enter(data)
    pn_data_rewind(source)
    pn_data_next(source)
    pn_data_enter(source)
    while has_pair(source):
        key = bytes_of(pn_data_get_symbol(source))
        pn_data_next(source)
        if pn_data_type(source) != PN_NULL and (topic or key != asked.local_key):
            # This begins behind the pair before.
            pn_data_appendn(data, source, 2)
    pn_data_widen(source)
    return 0


cdef bint has_pair(pn_data_t *map) noexcept nogil:
    """Go to the key of the next pair, and note the place before it."""
    pn_data_narrow(map)
    return pn_data_next(map)


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
    # The form tells 1 from TRUE, which are equal in Python.
    return repr(asked.steps), asked.local_key is not None


cdef uint64_t origin_of(bytes container) except? 0:
    """Return a container's number, never 0: a keyed hash that no peer can predict."""
    return <uint64_t>(hash(container) & 0xFFFFFFFFFFFFFFFF) | 1
