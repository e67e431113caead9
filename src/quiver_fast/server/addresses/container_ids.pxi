"""Container ids that only one connection may have. JMS calls them client identifiers.

A client that desires the capability `sole-connection-for-container` is refused while another
such connection has its container id. Other clients may share a container id.
"""

cdef bint claim_container(Peer *peer) noexcept nogil:
    """Reserve a container id for a peer; False if another connection has reserved it."""
    cdef const char *name = pn_connection_remote_container(peer.driver.connection)
    if name == NULL or not has_capability(
            pn_connection_remote_desired_capabilities(peer.driver.connection),
            b"sole-connection-for-container"):
        return True
    with gil:
        containers = (<Broker>peer.container.broker).containers
        if <bytes>name in containers:
            return False
        containers[<bytes>name] = <size_t>peer
        peer.sole = True
    return True


cdef void leave_container(Peer *peer) noexcept nogil:
    """Release the peer's container id."""
    if not peer.sole:
        return
    peer.sole = False
    with gil:
        name = <bytes>pn_connection_remote_container(peer.driver.connection)
        (<Broker>peer.container.broker).containers.pop(name, None)


cdef void refuse_container(Peer *peer) noexcept nogil:
    """Close a connection whose container id another connection has reserved.

    A property of our open frame announces the close, so that the client does not treat the
    connection as established.
    """
    cdef pn_data_t *data = pn_connection_properties(peer.driver.connection)
    pn_data_clear(data)
    pn_data_put_map(data)
    pn_data_enter(data)
    pn_data_put_symbol(data, pn_bytes(36, b"amqp:connection-establishment-failed"))
    pn_data_put_bool(data, True)
    pn_data_exit(data)
    pn_connection_open(peer.driver.connection)
    # The name of the invalid field (part 2.8.16).
    data = pn_condition_info(pn_connection_condition(peer.driver.connection))
    pn_data_put_map(data)
    pn_data_enter(data)
    pn_data_put_symbol(data, pn_bytes(13, b"invalid-field"))
    pn_data_put_symbol(data, pn_bytes(12, b"container-id"))
    pn_data_exit(data)
    peer_close(peer, b"amqp:invalid-field",
               b"another connection has this container-id for itself")
