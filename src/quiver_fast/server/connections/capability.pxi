"""Capabilities in open frames and termini: one symbol or an array of symbols.

The server offers `quiver.trunk` only to servers that may be trunks. On any other connection that
offers it the server does as with a client.

Between routers, `qd.streaming-links` means links without addresses: each message has its
destination in sections that only routers write. So the server does not offer this capability to
routers. A router's streams use the links that the router attached, like its messages.
"""

cdef const char *ANONYMOUS_RELAY = b"ANONYMOUS-RELAY"
cdef const char *SHARED_SUBSCRIPTIONS = b"SHARED-SUBS"
cdef const char *SOLE_CONTAINER = b"sole-connection-for-container"
cdef const char *STREAMING_LINKS = b"qd.streaming-links"
# Asks another server to treat the connection as a trunk.
cdef const char *TRUNK = b"quiver.trunk"


cdef bint is_trunk(pn_connection_t *connection) noexcept nogil:
    """Say whether the peer's open frame asks for a trunk."""
    return has_capability(pn_connection_remote_offered_capabilities(connection), TRUNK)


cdef bint is_router(pn_connection_t *connection) noexcept nogil:
    """Say whether the peer is a router, which relays messages for others."""
    return not is_trunk(connection) and has_capability(
        pn_connection_remote_offered_capabilities(connection), ANONYMOUS_RELAY)


cdef bint takes_streaming_links(pn_connection_t *connection) noexcept nogil:
    """Say whether this server may attach links to the peer for its streams."""
    return not is_router(connection) and has_capability(
        pn_connection_remote_offered_capabilities(connection), STREAMING_LINKS)


cdef void offer_capabilities(
        pn_connection_t *connection, bint streaming_links, bint trunk) noexcept nogil:
    """Offer this server's capabilities in the open frame."""
    cdef pn_data_t *data = pn_connection_offered_capabilities(connection)
    pn_data_clear(data)
    pn_data_put_array(data, False, PN_SYMBOL)
    pn_data_enter(data)
    pn_data_put_symbol(data, pn_bytes(strlen(ANONYMOUS_RELAY), ANONYMOUS_RELAY))
    pn_data_put_symbol(data, pn_bytes(strlen(SHARED_SUBSCRIPTIONS), SHARED_SUBSCRIPTIONS))
    pn_data_put_symbol(data, pn_bytes(strlen(SOLE_CONTAINER), SOLE_CONTAINER))
    if streaming_links:
        pn_data_put_symbol(data, pn_bytes(strlen(STREAMING_LINKS), STREAMING_LINKS))
    if trunk:
        pn_data_put_symbol(data, pn_bytes(strlen(TRUNK), TRUNK))
    pn_data_exit(data)


cdef void introduce(pn_connection_t *connection, bytes version, bytes queue_limit) noexcept:
    """Put product and version into the open frame's properties, as brokers do (part 2.7.1).

    The limit of a queue lets our arrow say why messages have no outcome.
    """
    cdef pn_data_t *data = pn_connection_properties(connection)
    pn_data_put_map(data)
    pn_data_enter(data)
    pn_data_put_symbol(data, pn_bytes(7, b"product"))
    pn_data_put_string(data, pn_bytes(11, b"quiver-fast"))
    pn_data_put_symbol(data, pn_bytes(7, b"version"))
    pn_data_put_string(data, pn_bytes(len(version), version))
    pn_data_put_symbol(data, pn_bytes(11, b"queue-limit"))
    pn_data_put_string(data, pn_bytes(len(queue_limit), queue_limit))
    pn_data_exit(data)


cdef void say_transactions(pn_data_t *data) noexcept nogil:
    """Name the coordinator's capabilities, whatever a controller asks for (part 4.5.1)."""
    pn_data_clear(data)
    pn_data_put_array(data, False, PN_SYMBOL)
    pn_data_enter(data)
    pn_data_put_symbol(data, pn_bytes(23, b"amqp:local-transactions"))
    pn_data_put_symbol(data, pn_bytes(23, b"amqp:multi-txns-per-ssn"))
    pn_data_put_symbol(data, pn_bytes(23, b"amqp:multi-ssns-per-txn"))
    pn_data_exit(data)


cdef bint may_reject(pn_data_t *outcomes) noexcept nogil:
    """Say whether a source takes *rejected*; without a list it takes any outcome (part 3.5.3)."""
    pn_data_rewind(outcomes)
    return not pn_data_next(outcomes) or has_capability(outcomes, b"amqp:rejected:list")


cdef bint has_capability(pn_data_t *data, const char *wanted) noexcept nogil:
    """Say whether ``wanted`` is among the capabilities in ``data``."""
    pn_data_rewind(data)
    if not pn_data_next(data):
        return False
    if pn_data_type(data) != PN_ARRAY:
        return is_symbol(data, wanted)
    pn_data_enter(data)
    while pn_data_next(data):
        if is_symbol(data, wanted):
            return True
    return False


cdef void keep_capabilities(
        pn_data_t *ours, pn_data_t *theirs, const char **names, int count) noexcept nogil:
    """Answer with those of a peer's capabilities that are among ``names``."""
    cdef bint any = False
    cdef int i
    pn_data_clear(ours)
    for i in range(count):
        if has_capability(theirs, names[i]):
            if not any:
                pn_data_put_array(ours, False, PN_SYMBOL)
                pn_data_enter(ours)
            any = True
            pn_data_put_symbol(ours, pn_bytes(strlen(names[i]), names[i]))
    if any:
        pn_data_exit(ours)


cdef bint is_symbol(pn_data_t *data, const char *wanted) noexcept nogil:
    cdef pn_bytes_t symbol
    if pn_data_type(data) != PN_SYMBOL:
        return False
    symbol = pn_data_get_symbol(data)
    return symbol.size == strlen(wanted) and memcmp(symbol.start, wanted, symbol.size) == 0
