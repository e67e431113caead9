"""Unread bytes of a stream, in a file instead of memory.

A stream can put 32 MiB into a session's window for small messages, and the window cannot shrink
(part 2.5.6). So the server writes bytes beyond a mark to a file without a name. They keep their
place in the window until they are read back, so the sender stops at the same point as without
the file.

The file is a ring, no larger than the largest window of a session. The files of all streams
together take no more disk space than memory-limit. Beyond that, the bytes stay in memory and
count there, and the session gets no more window than one for streams.
"""

# The file of a stream, and the place of its bytes in the ring; they grow beyond its size.
cdef struct Spill:
    int fd
    size_t at
    size_t end
    # The size of the ring, and of its part that has disk space.
    size_t ring
    size_t size

cdef inline bint has_spilled(const Inlet *inlet) noexcept nogil:
    return inlet._spill != NULL and (<Spill *>inlet._spill).end > (<Spill *>inlet._spill).at

# The unread bytes beyond which a stream writes them to the file.
cdef size_t SPILL_ABOVE = 65536
cdef enum:
    SPILL_PIECE = 32768

cdef bint failed = False


cdef bint spill(Inlet *inlet, amqp_delivery_t *delivery) noexcept nogil:
    """Move many unread bytes of a stream to the file; return False if some are lost."""
    cdef Session *session = session_of(inlet.base.session)
    cdef size_t frame_size = inlet.base.peer.container.limits.frame_size
    cdef size_t pending = delivery.pending
    # A window for streams is not larger than the memory that a stream may use.
    if pending < SPILL_ABOVE or (
            session.window <= <size_t>stream_window(inlet.base.peer) * frame_size):
        return True
    # One frame stays in memory, so that the window is at least one frame.
    pending = min(pending, session.window - frame_size - session.spilled)
    if pending == 0:
        return True
    if inlet._spill == NULL and not spill_open(inlet, WIDE_WINDOW * frame_size):
        session.crowded = True
        return True
    return spill_move(inlet, session, delivery, pending)


cdef bint spill_move(
        Inlet *inlet, Session *session, amqp_delivery_t *delivery,
        size_t pending) noexcept nogil:
    """Write bytes of the current delivery to the file; return False if some are lost."""
    cdef Spill *file = <Spill *>inlet._spill
    cdef char[SPILL_PIECE] piece
    cdef size_t at
    cdef size_t n
    while pending:
        at = file.end % file.ring
        n = min(pending, min(sizeof(piece), file.ring - at))
        if not has_disk(file, at + n):
            session.crowded = True
            break
        n = amqp_delivery_read(delivery, piece, n)
        if pwrite(file.fd, piece, n, at) != <ssize_t>n:
            return False
        file.end += n
        session.spilled += n
        pending -= n
    fit_session(inlet.base.peer, session)
    return True


cdef bint has_disk(Spill *file, size_t size) noexcept nogil:
    """Have disk space for so many bytes of a file; return False if there is none."""
    cdef size_t more
    if size <= file.size:
        return True
    more = size - file.size
    if account.limit and account.spilled + more > account.limit or (
            posix_fallocate(file.fd, file.size, more) != 0):
        return False
    file.size = size
    account.spilled += more
    return True


cdef bint spill_open(Inlet *inlet, size_t ring) noexcept nogil:
    """Create the file. Without it, the bytes stay in memory and count there."""
    global failed
    cdef Spill *made = <Spill *>calloc(1, sizeof(Spill))
    if made == NULL:
        return False
    with gil:
        try:
            with tempfile.TemporaryFile(buffering=0) as file:
                made.fd = os.dup(file.fileno())
        except OSError as error:
            free(made)
            if not failed:
                failed = True
                why = one_line(str(error))
                sys.stderr.write(
                    f"quiver-server-pyfast: a stream that waits stays in memory: {why}\n")
            return False
    made.ring = ring
    inlet._spill = made
    return True


cdef bint spill_back(Inlet *inlet, Message *message, size_t most) noexcept nogil:
    """Read up to ``most`` first bytes of the file into a message; return False on a failure."""
    cdef Spill *file = <Spill *>inlet._spill
    cdef size_t left = min(most, file.end - file.at)
    cdef size_t size
    cdef size_t at
    cdef char *space
    cdef ssize_t n
    while left:
        space = message_space(message, left, &size)
        if space == NULL:
            return False
        at = file.at % file.ring
        n = pread(file.fd, space, min(size, file.ring - at), at)
        if n <= 0:
            return False
        message_filled(message, n)
        leave_window(inlet, n)
        left -= n
    fit_session(inlet.base.peer, session_of(inlet.base.session))
    return True


cdef inline void leave_window(Inlet *inlet, size_t size) noexcept nogil:
    cdef Spill *file = <Spill *>inlet._spill
    session_of(inlet.base.session).spilled -= size
    file.at += size
    if file.at == file.end:
        # The next bytes use the same disk space.
        file.at = file.end = 0


cdef void spill_forget(Inlet *inlet) noexcept nogil:
    """Drop the bytes in the file, which nobody needs any more."""
    if has_spilled(inlet):
        leave_window(inlet, (<Spill *>inlet._spill).end - (<Spill *>inlet._spill).at)
        fit_session(inlet.base.peer, session_of(inlet.base.session))


cdef void spill_end(Inlet *inlet) noexcept nogil:
    """Free the file at the stream's end."""
    spill_forget(inlet)
    session_of(inlet.base.session).crowded = False
    if inlet._spill != NULL:
        account.spilled -= (<Spill *>inlet._spill).size
        close((<Spill *>inlet._spill).fd)
        free(inlet._spill)
        inlet._spill = NULL


cdef bint read_into(amqp_delivery_t *delivery, Message *message, size_t size) noexcept nogil:
    """Move ``size`` unread bytes of a delivery into a message; return False without memory."""
    cdef size_t room
    cdef char *space
    while size:
        space = message_space(message, size, &room)
        if space == NULL:
            return False
        room = amqp_delivery_read(delivery, space, room)
        if room == 0:
            return True
        message_filled(message, room)
        size -= room
    return True
