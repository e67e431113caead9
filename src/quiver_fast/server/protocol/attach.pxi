"""Attach and detach of links: a link's terms, and the nodes and subscriptions behind it.

Attaching is not a hot path, so it holds the GIL and describes every error.
"""

# The most refused links that a peer has not detached: an honest one detaches them at once.
cdef size_t REFUSED_MAX = 1024


cdef void attach(Peer *peer, pn_link_t *link) noexcept nogil:
    """Answer a peer's attach with a working link, or with a detach that gives the reason."""
    cdef Session *session = session_of(pn_link_session(link))
    cdef amqp_link_end_t *end
    if session == NULL or pn_session_state(session.session) & PN_LOCAL_CLOSED:
        # The session or the connection was refused.
        return
    if not has_handle(session):
        # There is no handle for an answer, not even for a refusal (part 2.7.2).
        refuse_session(peer, session, b"amqp:resource-limit-exceeded",
                       b"the session has more links than its handle-max")
        return
    if session.end.phase[<int>AMQP_OURS] == AMQP_BEFORE:
        session.unframed += 1
    end = link_end(link)
    with gil:
        try:
            if peer.link_count >= peer.container.limits.links:
                raise Refusal(b"amqp:resource-limit-exceeded",
                              f"a connection has at most {peer.container.limits.links} links")
            answer_attach(peer, link)
            hold_name(link)
        except Refusal as refusal:
            refuse(link, refusal.condition, str(refusal))
        except TooManyQueues as error:
            refuse(link, b"amqp:resource-limit-exceeded", str(error))
        except UsageError as error:
            refuse(link, b"amqp:invalid-field", str(error))
        except MemoryError:
            refuse(link, b"amqp:resource-limit-exceeded", "the server is out of memory")
        except NoDescriptorsError as error:
            report_scarce(peer.container, error)
            refuse(link, b"amqp:resource-limit-exceeded", str(error))
        except QuiverError as error:
            # The queue cannot be opened.
            refuse(link, b"amqp:internal-error", str(error))
        except Exception as error:
            refuse(link, b"amqp:internal-error", f"{type(error).__name__}: {error}")
    # Of a flawed attach nothing was decoded.
    if end != NULL and end.flaw == NULL:
        amqp_link_end_hold(
            &peer.plane.endpoints, end, VALUE_SIZE * values_of(link) + selector_memory(link))
    if link_of(link) == NULL and keeps_refused(peer):
        peer_close(peer, b"amqp:resource-limit-exceeded", b"too many refused links are attached")
    peer_dirty(peer)


cdef bint keeps_refused(Peer *peer) noexcept nogil:
    """Say whether a peer has not detached too many links that have no link of ours any more."""
    cdef const Session *session = peer.sessions
    cdef size_t attached = 0
    while session != NULL:
        if session.end != NULL:
            attached += session.end.attached[<int>AMQP_THEIRS]
        session = session.next
    return attached > peer.link_count + peer.own_links + REFUSED_MAX


cdef void refuse_late(Peer *peer, pn_link_t *link, const Delay *delay) noexcept nogil:
    """Refuse an attach whose files could not be made."""
    cdef const char *condition = b"amqp:internal-error"
    if delay.scarce:
        condition = b"amqp:resource-limit-exceeded"
    with gil:
        refuse(link, condition, delay.why.decode("utf-8", "replace"))
    peer_dirty(peer)


cdef int refuse(pn_link_t *link, bytes condition, str why) except -1:
    # Part 2.6.3: attach without the terminus, then detach with the error.
    text = why.encode()
    ours = pn_link_source(link) if pn_link_is_sender(link) else pn_link_target(link)
    pn_terminus_set_type(ours, PN_UNSPECIFIED)
    pn_link_open(link)
    set_condition(pn_link_condition(link), condition, text)
    pn_link_close(link)
    return 0


cdef int hold_name(pn_link_t *engine_link) except -1:
    """Give a link its name, and end the link that held the name before (part 2.6.1)."""
    cdef Link *link = <Link *>pn_link_get_context(engine_link)
    cdef Link *before
    if link == NULL or link.kind == DEFERRED or link.deliveries.end == NULL or link.refused:
        return 0
    before = name_take(link)
    if before != NULL:
        steal(before)
    return 0


cdef void displace(Peer *peer, amqp_link_end_t *end) noexcept nogil:
    """End a link when an attach with its name has come in the same session; also a refused link.

    The engine takes no second link of a name in a session. So it gets a detach of the first one as
    if the peer had sent it, and does not get the peer's own detach, which follows.
    """
    cdef amqp_link_end_t *before = amqp_link_end_before(end)
    if before == NULL:
        return
    before.displaced = True
    if before.user != NULL:
        steal(<Link *>before.user)
    with gil:
        frame = detach_frame(
            end.session.channel[<int>AMQP_THEIRS], before.handle[<int>AMQP_THEIRS])
        peer_feed(peer, amqp_bytes_t(<const uint8_t *><const char *>frame, len(frame)))


cdef bytes detach_frame(int channel, uint32_t handle):
    """Return the frame that closes a link: handle and closed (part 2.7.7)."""
    body = b"\x00\x53\x16\xc0\x07\x02\x70" + struct.pack(">I", handle) + b"\x41"
    return struct.pack(">IBBH", 8 + len(body), 2, 0, channel) + body


cdef int answer_attach(Peer *peer, pn_link_t *link) except -1:
    cdef const amqp_link_end_t *end = link_end(link)
    if end == NULL:
        raise Refusal(b"amqp:invalid-field", "there is no such name of a link")
    if end.flaw != NULL:
        raise Refusal(b"amqp:invalid-field", (<bytes>end.flaw).decode())
    broker = <Broker>peer.container.broker
    check_terminus(pn_link_remote_source(link))
    check_terminus(pn_link_remote_target(link))
    if pn_link_is_sender(link):
        return attach_outlet(broker, peer, link)
    if pn_terminus_get_type(pn_link_remote_target(link)) == PN_COORDINATOR:
        return attach_coordinator(peer, link)
    return attach_inlet(broker, peer, link)


cdef size_t values_of(pn_link_t *link) noexcept nogil:
    """Return the number of values that the engine decodes when we read a link's terms."""
    cdef pn_terminus_t *theirs = pn_link_remote_source(link)
    if pn_link_is_sender(link):
        return values_of_terminus(theirs) + pn_data_size(pn_terminus_filter(theirs))
    if pn_terminus_get_type(pn_link_remote_target(link)) == PN_COORDINATOR:
        return pn_data_size(pn_terminus_outcomes(theirs)) + pn_data_size(
            pn_terminus_capabilities(pn_link_remote_target(link)))
    return values_of_terminus(pn_link_remote_target(link))


cdef size_t selector_memory(pn_link_t *link) noexcept nogil:
    """Return the memory of a link's selector, or of its subscription's."""
    cdef const Link *made = link_of(link)
    cdef const Consumer *consumer
    if made == NULL or made.kind != OUTLET:
        return 0
    consumer = &(<const Outlet *>made).consumer
    if consumer.filter != NULL:
        return consumer.filter.memory
    return consumer.queue.filter.memory if consumer.queue.filter != NULL else 0


cdef size_t values_of_terminus(pn_terminus_t *theirs) noexcept nogil:
    cdef size_t count = pn_data_size(pn_terminus_capabilities(theirs))
    if pn_terminus_is_dynamic(theirs):
        count += pn_data_size(pn_terminus_properties(theirs))
    return count


cdef Link *new_link(Peer *peer, pn_link_t *link, LinkKind kind, size_t size) except NULL:
    made = link_new(peer, link, kind, CLIENT, size)
    if made == NULL:
        raise MemoryError("no memory for a link")
    return made


cdef Queue *node_of(Broker broker, pn_terminus_t *theirs, pn_terminus_t *ours) except NULL:
    """Return the queue or topic of a terminus, created if allowed; sets our terminus' address."""
    cdef const char *address = pn_terminus_get_address(theirs)
    cdef pn_data_t *capabilities = pn_terminus_capabilities(theirs)
    cdef bint topic = has_capability(capabilities, b"topic") or has_capability(
        capabilities, b"temporary-topic")
    cdef Queue *queue
    if pn_terminus_is_dynamic(theirs):
        lifetime = read_lifetime(theirs)
        if lifetime < 0:
            raise Refusal(b"amqp:not-implemented", "there is no such lifetime policy here")
        queue = broker.make_dynamic(topic)
        set_lifetime(queue, lifetime, ours)
        pn_terminus_set_address(ours, queue.address)
        pn_terminus_set_dynamic(ours, True)
        return queue
    if address == NULL or address[0] == 0:
        raise Refusal(b"amqp:invalid-field", "the terminus has no address")
    name = <bytes>address
    queue = broker.find(name, broker.may_create(name), topic)
    if queue == NULL:
        raise Refusal(b"amqp:not-found", f"there is no address '{name.decode()}' here")
    return queue


cdef int check_terminus(pn_terminus_t *terminus) except -1:
    """Refuse an address that is not a string (part 1.6.20), before our attach repeats it."""
    cdef const char *address = pn_terminus_get_address(terminus)
    if address == NULL:
        return 0
    try:
        (<bytes>address).decode()
    except UnicodeDecodeError:
        raise Refusal(b"amqp:decode-error", "the address is not UTF-8") from None
    return 0


cdef inline Queue *node_of_queue(Queue *queue) noexcept nogil:
    return queue.topic if queue.topic != NULL else queue


cdef int attach_outlet(Broker broker, Peer *peer, pn_link_t *link) except -1:
    """Attach a consumer: our side sends."""
    cdef pn_terminus_t *theirs = pn_link_remote_source(link)
    cdef Queue *queue
    cdef Outlet *outlet
    pn_terminus_copy(pn_link_source(link), theirs)
    pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link))
    asked = read_filters(theirs)
    claim_nothing(pn_link_source(link))
    if pn_terminus_get_type(theirs) == PN_UNSPECIFIED:
        queue = known_subscription(broker, peer, link)
        if queue == NULL:
            return 0
    else:
        queue = node_of(broker, theirs, pn_link_source(link))
    if peer.trunk and queue.links == 0 and is_dynamic(queue) and not queue.lifetime:
        # This is a temporary node of another server. It exists here while that server's link does.
        queue.temporary = True
    if queue.multicast:
        queue = subscription_of(broker, peer, link, queue)
        if queue == NULL:
            return 0
        queue.trunk = peer.trunk
        if queue.subscription == NULL:
            choose(queue, asked, container_of(peer))
    if pn_terminus_get_type(theirs) != PN_UNSPECIFIED:
        say_node(pn_link_source(link), theirs, node_of_queue(queue), not peer.trunk)
    outlet = <Outlet *>new_link(peer, link, OUTLET, sizeof(Outlet))
    if pn_terminus_is_dynamic(theirs):
        outlet.base.made = node_of_queue(queue)
    outlet.presettled = pn_link_remote_snd_settle_mode(link) == PN_SND_SETTLED
    outlet.consumer.outlet = outlet
    outlet.consumer.trunk = peer.trunk
    outlet.consumer.browser = (
        pn_terminus_get_distribution_mode(theirs) == PN_DIST_MODE_COPY and queue.topic == NULL)
    if asked.selector is not None and queue.topic == NULL:
        outlet.consumer.filter = filter_take(asked.selector)
    # Our source names the properties in effect (part 2.6.3).
    write_filters(asked, queue.topic != NULL, theirs, pn_link_source(link))
    say_distribution(pn_link_source(link), queue)
    consumer_join(queue, &outlet.consumer)
    queue.links += 1
    pn_link_set_snd_settle_mode(link, pn_link_remote_snd_settle_mode(link))
    # In either mode we settle after the consumer's disposition (part 2.6.12).
    pn_link_set_rcv_settle_mode(link, pn_link_remote_rcv_settle_mode(link))
    limit_size(peer, link)
    pn_link_open(link)
    link_opened(&outlet.base)
    trunks_announce(node_of_queue(queue))
    demand_began(node_of_queue(queue))
    return 0


cdef int attach_inlet(Broker broker, Peer *peer, pn_link_t *link) except -1:
    """Attach a producer: our side receives. A target without address is the anonymous terminus."""
    cdef pn_terminus_t *theirs = pn_link_remote_target(link)
    cdef const char *address = pn_terminus_get_address(theirs)
    cdef Queue *queue = NULL
    cdef Inlet *inlet
    if pn_terminus_get_type(theirs) == PN_UNSPECIFIED:
        raise Refusal(b"amqp:invalid-field", "the attach has no target")
    pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link))
    pn_terminus_copy(pn_link_target(link), theirs)
    claim_nothing(pn_link_target(link))
    if pn_terminus_is_dynamic(theirs) or address != NULL:
        queue = node_of(broker, theirs, pn_link_target(link))
    say_node(pn_link_target(link), theirs, queue, False)
    inlet = <Inlet *>new_link(peer, link, INLET, sizeof(Inlet))
    inlet.queue = queue
    inlet.origin = origin_of(container_of(peer))
    # Another server attaches links for streams without an address: the routes have addresses.
    if peer.trunk and queue == NULL:
        inlet.base.role = STREAMS_FROM_SERVER
    if inlet.base.role == STREAMS_FROM_SERVER or has_capability(
            pn_terminus_capabilities(theirs), b"qd.streaming-deliveries"):
        stream_inlet(inlet)
    if queue != NULL:
        queue.links += 1
        node_join(inlet)
        if pn_terminus_is_dynamic(theirs):
            inlet.base.made = queue
        if inlet.streaming:
            demand_join(inlet)
    pn_link_set_snd_settle_mode(link, pn_link_remote_snd_settle_mode(link))
    pn_link_set_rcv_settle_mode(link, PN_RCV_FIRST)
    limit_size(peer, link)
    pn_link_open(link)
    link_opened(&inlet.base)
    inlet_top_up(inlet)
    return 0


cdef void claim_nothing(pn_terminus_t *ours) noexcept nogil:
    """Make our terminus say that it ends with its link, whatever the peer asked (part 2.6.3).

    Without a policy it would last until the end of its session (part 3.5.6).
    """
    pn_terminus_set_expiry_policy(ours, PN_EXPIRE_WITH_LINK)
    pn_terminus_set_timeout(ours, 0)
    pn_terminus_set_durability(ours, PN_NONDURABLE)


cdef void say_node(
        pn_terminus_t *ours, pn_terminus_t *theirs, const Queue *node, bint shares) noexcept nogil:
    """Keep only the capabilities that the node has (parts 3.5.3 and 3.5.4).

    Args:
        node: NULL for the anonymous terminus.
        shares: a consumer of a topic may share its subscription.
    """
    cdef bint topic = node != NULL and node.multicast
    # With room for all.
    cdef const char *names[5]
    cdef int count = 0 if node == NULL else 1 + is_dynamic(node)
    names[0] = b"topic" if topic else b"queue"
    names[1] = b"temporary-topic" if topic else b"temporary-queue"
    if topic and shares:
        names[count] = b"shared"
        names[count + 1] = b"global"
        count += 2
    names[count] = b"qd.streaming-deliveries"
    keep_capabilities(
        pn_terminus_capabilities(ours), pn_terminus_capabilities(theirs), names, count + 1)


cdef void say_distribution(pn_terminus_t *ours, const Queue *queue) noexcept nogil:
    """Name the distribution mode if the peer named none (part 3.5.3)."""
    if pn_terminus_get_distribution_mode(ours) == PN_DIST_MODE_UNSPECIFIED:
        pn_terminus_set_distribution_mode(
            ours, PN_DIST_MODE_MOVE if queue.topic == NULL else PN_DIST_MODE_COPY)


cdef void limit_size(const Peer *peer, pn_link_t *link) noexcept nogil:
    if peer.container.limits.message_size != UINT64_MAX:
        pn_link_set_max_message_size(link, peer.container.limits.message_size)


cdef int attach_coordinator(Peer *peer, pn_link_t *link) except -1:
    cdef Link *made = new_link(peer, link, COORDINATOR, sizeof(Coordinator))
    pn_terminus_copy(pn_link_source(link), pn_link_remote_source(link))
    pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link))
    say_transactions(pn_terminus_capabilities(pn_link_target(link)))
    pn_link_open(link)
    link_opened(made)
    coordinator_receive(made)
    return 0


cdef bint closed_by_peer(Link *link) noexcept nogil:
    """End the subscription of a link that the peer closes (part 2.6.6).

    Return whether the answer has to wait. If we closed the link with an error, the peer's close is
    only a confirmation.
    """
    return link.kind == OUTLET and not link.refused and (
        subscription_closed((<Outlet *>link).consumer.queue, link))


cdef void steal(Link *link) noexcept nogil:
    """Detach a consumer whose link's name was attached again (part 2.6.1)."""
    set_condition(pn_link_condition(link.link), b"amqp:link:stolen",
                  b"a link of that name was attached elsewhere")
    take_down(link)
    pn_link_close(link.link)
    link_abandon(link)


cdef void detach(Link *link, bint closed) noexcept nogil:
    """Take a link out of service, and answer the peer's detach or close (part 2.6.5)."""
    take_down(link)
    if closed:
        pn_link_close(link.link)
    else:
        pn_link_detach(link.link)
    if link.owns_session:
        session_close(link.session)
    link_delete(link)


cdef void detach_later(Link *link) noexcept nogil:
    """Take a link out of service; `detach` answers the peer later. The name is free at once."""
    take_down(link)
    name_leave(link)
    link.kind = DEFERRED


cdef void take_down(Link *link) noexcept nogil:
    """Take a link out of service, and keep its record and the engine's link."""
    cdef Peer *peer = link.peer
    cdef Queue *queue = NULL
    cdef Queue *sought = NULL
    cdef Queue *made = link.made
    link.made = NULL
    if link.kind == OUTLET:
        queue = (<Outlet *>link).consumer.queue
        outlet_detached(<Outlet *>link)
        if queue != NULL:
            trunks_withdraw(node_of_queue(queue))
            # The queue's senders of streams keep it.
            if node_of_queue(queue).streaming_inlets != NULL:
                sought = node_of_queue(queue)
    elif link.kind == INLET:
        queue = (<Inlet *>link).queue
        trunk_detached(<Inlet *>link)
        node_leave(<Inlet *>link)
        demand_leave(<Inlet *>link)
        inlet_detached(<Inlet *>link)
    elif link.kind == COORDINATOR:
        coordinator_detached(link)
    else:
        deferred_left(link)
    if made != NULL:
        maker_left(made)
    if queue != NULL:
        queue_left(queue)
    if sought != NULL:
        demand_ended(sought)
    peer_dirty(peer)
