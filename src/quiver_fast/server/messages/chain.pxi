"""Long messages in a queue's file: parts, written as they arrive, and then one entry.

A part is meta-data, so other readers skip it. It is binary wire: an event with the name
`quiver.part` and a byte array:

    offset  0   8   number of the chain, unique in the queue
            8   4   number of the part, from 0
           12   4   0; of the last part, which may be empty, 1 or 2: what makes it whole

All numbers are little-endian. The bytes of the message follow. Parts of several chains and other
documents may be mixed. An entry follows the last part, and other readers see it as the message:

    2   a copy of the message, if it fits into an entry and has message-format 0: the parts
        are not needed any more
    1   a reference to the parts: ff 'quiver' 02, the number of the chain (8 bytes), the
        number of its parts (4), the message-format (4), the size of the message (8), and its
        first bytes

A chain without its entry is no message: an abort or a crash cut it short. In files of earlier
versions the parts are entries, which begin with ff 'quiver' 01 and the same 16 bytes. The part
with 1 completes the message.
"""

cdef const char *PART_EVENT = b"\xb9\x0bquiver.part\x82"
cdef const char *OLD_PART = b"\xffquiver\x01"
cdef const char *REFERENCE = b"\xffquiver\x02"
cdef enum:
    PART_EVENT_SIZE = 14
    # The event, the length of the rest, the byte array.
    PART_HEAD = 19
    MAGIC_SIZE = 8
    # The numbers of the chain and the part, and the ending.
    NAMED = 16
    REFERENCE_SIZE = 32
    SPANS = 4
    # How a part ends: not the last one, a reference follows, a copy follows.
    ENDS_NOT = 0
    ENDS_BY_REFERENCE = 1
    ENDS_BY_COPY = 2
# The most bytes of one part: far below the limit of an entry.
cdef size_t PART_MAX = 1048576
# Pages are unmapped in steps of this size: used pages of a mapped file count as our memory.
cdef size_t LET_GO = 4194304
# An entry with a reference has so many first bytes of the message, for other readers.
cdef size_t SHOWN = 4096

# The first number is random, because the files have chains of earlier runs.
cdef uint64_t next_id = int.from_bytes(os.urandom(8), "little")


cdef Chain *chain_new(Appender appender, uint64_t id) noexcept nogil:
    """Make an empty chain; NULL without memory."""
    cdef Chain *chain = <Chain *>calloc(1, sizeof(Chain) + SPANS * sizeof(Span))
    if chain == NULL:
        return NULL
    chain.end = chain_end
    chain.appender = <void *>appender
    chain.id = id
    chain.capacity = SPANS
    return chain


cdef Chain *chain_grown(Chain *chain) noexcept nogil:
    """Return the chain with room for one more span; NULL without memory."""
    cdef Chain *grown
    if chain.count < chain.capacity:
        return chain
    grown = <Chain *>realloc(chain, sizeof(Chain) + 2 * chain.capacity * sizeof(Span))
    if grown != NULL:
        grown.capacity *= 2
    return grown


cdef void chain_end(void *ended) noexcept nogil:
    """Free a chain, and release its files."""
    cdef Chain *chain = <Chain *>ended
    let_spans_go(chain)
    if chain.retention != NULL:
        with gil:
            Py_DECREF(<Retention>chain.retention)
    free(chain)


cdef void let_spans_go(Chain *chain) noexcept nogil:
    cdef uint32_t i
    for i in range(chain.count):
        if chain.spans[i].held:
            with gil:
                (<Retention>chain.retention).let_go(chain.spans[i].cycle, chain.spans[i].held)
            chain.spans[i].held = 0


cdef int chain_hold(Chain *chain, Retention retention) except -1:
    """Keep the files of a chain's parts as long as the chain. Entries keep their own files."""
    cdef uint32_t i
    Py_INCREF(retention)
    chain.retention = <void *>retention
    for i in range(chain.count):
        if chain.spans[i].index < 0 and not chain.single:
            chain.spans[i].held = chain.spans[i].end - chain.spans[i].at
            retention.hold(chain.spans[i].cycle, chain.spans[i].held)
    return 0


cdef void note_part(
        Chain *chain, int64_t cycle, size_t at, size_t end, size_t size,
        int64_t index) noexcept nogil:
    """Add a document with ``size`` bytes as the next part; the chain has room for a span."""
    cdef Span *latest = &chain.spans[chain.count - 1] if chain.count else NULL
    chain.parts += 1
    chain.size += size
    if latest != NULL and latest.cycle == cycle and latest.end == at and (
            index < 0 or index == latest.index + latest.parts):
        latest.end = end
        latest.parts += 1
    else:
        chain.spans[chain.count] = Span(cycle, at, end, 1, index, 0)
        chain.count += 1


cdef bint chain_write(
        Appender appender, Retention retention, Message *message, bint last) noexcept nogil:
    """Write a message's bytes in memory to the file, and free them.

    Return False on a failure, with the reason in the appender. The message then keeps the bytes
    that are not in its chain.

    Args:
        last: the message ends with these bytes; `chain_commit` then completes it.
    """
    cdef size_t size
    if message.chain == NULL and not begin_chain(appender, retention, message):
        return False
    while message.held or last and not chain_of(message).closed:
        size = min(message.held, PART_MAX)
        if not write_part(appender, message, size, last and size == message.held):
            return False
    return True


cdef bint begin_chain(Appender appender, Retention retention, Message *message) noexcept nogil:
    global next_id
    message.chain = chain_new(appender, next_id)
    if message.chain == NULL:
        appender.error = ENOMEM
        return False
    next_id += 1
    with gil:
        chain_hold(chain_of(message), retention)
    return True


cdef bint write_part(Appender appender, Message *message, size_t size, bint last) noexcept nogil:
    cdef Chain *chain = chain_grown(chain_of(message))
    cdef uint32_t ending = ENDS_NOT
    cdef size_t at
    cdef char *out
    if chain == NULL:
        appender.error = ENOMEM
        return False
    message.chain = chain
    if last:
        ending = ENDS_BY_COPY if is_copied(appender, message) else ENDS_BY_REFERENCE
    out = appender.begin(PART_HEAD + NAMED + size)
    if out == NULL:
        return False
    at = appender.tail
    memcpy(out, PART_EVENT, PART_EVENT_SIZE)
    put32(out + PART_EVENT_SIZE, <uint32_t>(1 + NAMED + size))
    out[PART_HEAD - 1] = <char>0x8A
    out += PART_HEAD
    memcpy(out, &chain.id, sizeof(uint64_t))
    memcpy(out + 8, &chain.parts, sizeof(uint32_t))
    memcpy(out + 12, &ending, sizeof(uint32_t))
    message_drain(message, out + NAMED, size)
    if appender.commit_meta() != 0:
        return False
    note_part(chain, appender.cycle, at, appender.tail, size, -1)
    keep_part(chain, appender.tail - at)
    chain.closed = last
    unmap(appender.file.base, at // LET_GO * LET_GO, appender.tail // LET_GO * LET_GO)
    return True


cdef void keep_part(Chain *chain, size_t size) noexcept nogil:
    """Keep the file of the last part."""
    cdef Span *span = &chain.spans[chain.count - 1]
    span.held += size
    with gil:
        (<Retention>chain.retention).hold(span.cycle, size)


cdef inline bint is_copied(Appender appender, const Message *message) noexcept nogil:
    """Say whether the entry has a copy of the message: then it has AMQP's message-format."""
    return message.format == 0 and message.size + RAW_HEAD <= appender.max_entry


cdef size_t commit_size(Appender appender, const Message *message) noexcept nogil:
    """Return the number of bytes that `chain_commit` copies."""
    return message.size if is_copied(appender, message) else min(SHOWN, message.size)


cdef int64_t chain_commit(Appender appender, Message *message) noexcept nogil:
    """Write the entry that completes a message; return its index, or -1 (see error)."""
    cdef Chain *chain = chain_of(message)
    cdef bint copied = is_copied(appender, message)
    cdef size_t size = commit_size(appender, message)
    cdef ChainReader *reader = chain_open(message)
    cdef char *out
    cdef int64_t index = -1
    cdef size_t at
    if reader == NULL:
        appender.error = EIO
        return -1
    out = appender.begin_bytes(size if copied else REFERENCE_SIZE + size)
    at = appender.tail
    if out != NULL and not copied:
        put_reference(chain, message.format, out)
        out += REFERENCE_SIZE
    if out != NULL and chain_copy(reader, message, out, size) == size and (
            not chain_was_cut(reader)):
        index = appender.commit()
    elif out != NULL:
        appender.error = EIO
    chain_close(reader)
    if index >= 0 and copied and chain.readers == NULL:
        # Nobody needs the parts any more.
        be_single(chain, appender.cycle, at, appender.tail)
    return index


cdef void put_reference(const Chain *chain, uint32_t format, char *out) noexcept nogil:
    memcpy(out, REFERENCE, MAGIC_SIZE)
    memcpy(out + 8, &chain.id, sizeof(uint64_t))
    memcpy(out + 16, &chain.parts, sizeof(uint32_t))
    memcpy(out + 20, &format, sizeof(uint32_t))
    memcpy(out + 24, &chain.size, sizeof(uint64_t))


cdef size_t chain_copy(
        ChainReader *reader, const Message *message, char *out, size_t size) noexcept nogil:
    """Copy up to ``size`` next bytes of a message's parts; return how many there were."""
    cdef size_t n
    cdef size_t copied = 0
    while copied < size:
        if not chain_read(reader, message) or reader.left == 0:
            break
        n = min(size - copied, reader.left)
        memcpy(out + copied, reader.at, n)
        reader.left -= n
        reader.at += n
        copied += n
    return copied


cdef void be_single(Chain *chain, int64_t cycle, size_t at, size_t end) noexcept nogil:
    """Make the entry the chain's only part: the message is sent from there."""
    let_spans_go(chain)
    chain.single = True
    chain.count = 0
    chain.parts = 0
    chain.size = 0
    note_part(chain, cycle, at, end, end - at, -1)


cdef void unmap(char *base, size_t begin, size_t end) noexcept nogil:
    """Unmap pages of a file that nobody needs any more. Their content stays in the file."""
    begin = begin // system_page * system_page
    end = end // system_page * system_page
    # Mostly there is nothing to do. A roll may have moved the end back.
    if end > begin:
        madvise(base + begin, end - begin, MADV_DONTNEED)


cdef bint is_raw(const char *start, size_t size) noexcept nogil:
    """Say whether an entry is raw bytes: form 2 of A.6."""
    return (
        size >= RAW_HEAD and <unsigned char>start[0] == 0x82
        and get32(start + 1) == size - 5 and <unsigned char>start[5] == 0x8A)


cdef bint read_part(const char *start, size_t size, bint meta, Part *part) noexcept nogil:
    """Read a document as a part of either version; return False if it is not one."""
    if meta:
        if size < PART_HEAD + NAMED or memcmp(start, PART_EVENT, PART_EVENT_SIZE) != 0:
            return False
        start += PART_HEAD
        size -= PART_HEAD
    else:
        if size < RAW_HEAD + MAGIC_SIZE + NAMED or not is_raw(start, size) or (
                memcmp(start + RAW_HEAD, OLD_PART, MAGIC_SIZE) != 0):
            return False
        start += RAW_HEAD + MAGIC_SIZE
        size -= RAW_HEAD + MAGIC_SIZE
    memcpy(&part.id, start, sizeof(uint64_t))
    memcpy(&part.number, start + 8, sizeof(uint32_t))
    memcpy(&part.ending, start + 12, sizeof(uint32_t))
    part.bytes = start + NAMED
    part.size = size - NAMED
    return True


cdef bint is_reference(const char *start, size_t size) noexcept nogil:
    """Say whether the bytes of an entry refer to the parts of a message."""
    return size >= REFERENCE_SIZE and memcmp(start, REFERENCE, MAGIC_SIZE) == 0


cdef ChainReader *chain_open(const Message *message) noexcept nogil:
    """Begin to read a message from the file; NULL without memory."""
    cdef ChainReader *reader = <ChainReader *>calloc(1, sizeof(ChainReader))
    if reader == NULL:
        return NULL
    with gil:
        try:
            with Reserve():
                tailer = Tailer((<Appender>chain_of(message).appender).directory)
        except Exception as error:
            sys.stderr.write(f"quiver-server-pyfast: {one_line(str(error))}\n")
            free(reader)
            return NULL
        Py_INCREF(tailer)
        reader.tailer = <void *>tailer
    if not stand_before(reader, message):
        chain_close(reader)
        return NULL
    return reader


cdef bint stand_before(ChainReader *reader, const Message *message) noexcept nogil:
    """Map the file of the current span, and move before its first part.

    A complete message needs no descriptor of its file. A growing file is mapped again.
    """
    cdef Chain *chain = chain_of(message)
    cdef const Span *span = &chain.spans[reader.span]
    cdef int step = TAILER_FOUND
    if (<Tailer>reader.tailer).cycle != span.cycle or (<Tailer>reader.tailer).file.base == NULL or (
            span.end > (<Tailer>reader.tailer).file.size):
        reserve_begin()
        step = (<Tailer>reader.tailer).open_file(span.cycle)
        reserve_end()
        reader.unopened = step == TAILER_FAILED and is_want((<Tailer>reader.tailer).error)
    (<Tailer>reader.tailer).at = span.at
    if message.complete:
        (<Tailer>reader.tailer).let_descriptor_go()
    return step == TAILER_FOUND and (<Tailer>reader.tailer).cycle == span.cycle


cdef bint is_want(int error) noexcept nogil:
    """Say whether a call failed for lack of a resource that may be free later."""
    return error == EMFILE or error == ENFILE or error == ENOMEM


cdef bint chain_read(ChainReader *reader, const Message *message) noexcept nogil:
    """Move to the next part that has bytes; `left` is 0 if there is none yet.

    Return False if the part is not readable.
    """
    cdef Chain *chain = chain_of(message)
    while reader.left == 0:
        if reader.part == chain.spans[reader.span].parts:
            if reader.span + 1 == chain.count:
                return True
            reader.span += 1
            reader.part = 0
            if not stand_before(reader, message):
                return False
        if not next_part(reader, chain):
            return False
    return True


cdef bint next_part(ChainReader *reader, const Chain *chain) noexcept nogil:
    """Read the next document; return False if it is not the expected part."""
    cdef const char *start
    cdef size_t size
    cdef int64_t index
    cdef bint meta
    cdef Part part
    if (<Tailer>reader.tailer).next_meta(&start, &size, &index, &meta) != TAILER_FOUND:
        return False
    if chain.single:
        if meta or not is_raw(start, size):
            return False
        reader.at = start + RAW_HEAD
        reader.left = size - RAW_HEAD
    elif read_part(start, size, meta, &part) and part.id == chain.id:
        reader.at = part.bytes
        reader.left = part.size
    else:
        return False
    reader.part += 1
    forget_pages(reader, start)
    return True


cdef void forget_pages(ChainReader *reader, const char *at) noexcept nogil:
    """Unmap the pages before ``at``, which were sent."""
    cdef char *base = (<Tailer>reader.tailer).file.base
    cdef size_t done = at - base
    if base != reader.base or done < reader.let_go:
        reader.base = base
        reader.let_go = done
    elif done - reader.let_go >= LET_GO:
        unmap(base, reader.let_go, done)
        reader.let_go = done


cdef bint chain_was_cut(const ChainReader *reader) noexcept nogil:
    """Say whether another program truncated the file before the bytes that were read."""
    return cycle_cut(&(<Tailer>reader.tailer).file)


cdef void chain_close(ChainReader *reader) noexcept nogil:
    """End the reading, at the message's end or before."""
    if reader == NULL:
        return
    with gil:
        Py_DECREF(<Tailer>reader.tailer)
    free(reader)
