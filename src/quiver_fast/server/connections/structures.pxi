# A session of one connection, which owns it until its end is answered: the engine's session and the
# data plane's (`end.user`) point to it, and `session_delete` takes it from both.
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
    # We end it as soon as the peer has answered our begin.
    bint ends
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
    uint32_t _mark
    # No file had room for a stream's bytes: the window is one for streams until its end.
    bint crowded

# A link of any kind. Its session owns it until its detach is answered: the engine's link and the
# data plane's (`deliveries.end.user`) point to it, and `link_forget` takes it from both.
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
    bint _named             # it held its name, or holds it: see names.pxi

# One AMQP connection. The container owns it, and frees it at the end of the turn in which it died.
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
    # Sessions of the peer's, and ours.
    size_t session_count
    size_t own_sessions
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
    # Bytes that wait in both directions, as counted for the connection.
    size_t counted
    # The engine takes no more: the peer has closed, or broke the protocol.
    bint deaf
    # Events are left for the next round; until then nothing is read.
    bint behind
    bint dead               # freed at the end of the turn
    Peer *next_dead
    bint dirty
    Peer *next_dirty
    bint _borrows
    Peer *_next_borrower
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
    # That server, once both sides have opened; in its list of connections.
    Neighbour *neighbour
    Peer *prev_trunk
    Peer *next_trunk
    # Open transactions by the low bits of their ids; free places are chained.
    Transaction **transactions
    uint32_t transaction_capacity
    uint32_t transaction_count
    uint32_t free_transaction
    int64_t accepted_at
    # When a login that waits is judged (monotonic ns); counts while the plane is held.
    int64_t judged_at
