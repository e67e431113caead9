"""Restores messages from a queue's file: from entries, and long messages from their parts."""

# The bytes of a document before its content (A.2).
cdef size_t HEADER = 4
# The first bytes of a long message, which contain its header section.
cdef size_t FIRST_BYTES = 4096
# The ending of a chain's last part if a copy of the message follows.
cdef uint32_t COPIED = 2


cdef class Restorer:
    """Makes messages of the live documents of a queue's files, taken in order.

    Args:
        appender: the writer of the files.
    """

    cdef Appender appender
    cdef dict unfinished
    cdef list whole
    cdef list loose
    cdef dict bytes

    def __cinit__(self, appender: Appender) -> None:
        self.appender = appender
        # The chains without an end, by number.
        self.unfinished = {}
        # The messages that are complete.
        self.whole = []
        # The entries that belong to no message.
        self.loose = []
        # The bytes of parts that are meta-data, by cycle.
        self.bytes = {}

    def __dealloc__(self) -> None:
        for chain in self.unfinished.values():
            free(<Chain *><size_t>chain)

    cdef Message *take(
            self, Tailer tailer, const char *start, size_t size, int64_t index, bint meta,
            int64_t now) except? NULL:
        """Take the last document that was read; return the message that it completes, or NULL.

        Other programs may write to the file too. Documents that are no messages are skipped.
        """
        cdef Part part
        if read_part(start, size, meta, &part):
            return self.take_part(
                tailer, start - HEADER - tailer.file.base, &part, -1 if meta else index, now)
        if meta or not is_raw(start, size):
            return NULL
        if is_reference(start + RAW_HEAD, size - RAW_HEAD):
            return self.take_reference(start + RAW_HEAD, index, now)
        return self.take_entry(tailer, start, size, index, now)

    cdef Message *take_entry(
            self, Tailer tailer, const char *start, size_t size, int64_t index,
            int64_t now) except? NULL:
        """Make a message of an entry. A long one stays in the file."""
        cdef Message *message
        cdef Chain *chain
        size -= RAW_HEAD
        if size < STREAM_SIZE:
            message = stored_message(start + RAW_HEAD, size)
            message.complete = True
            message.index = index
            if message_read_stored(message, now) != HEADER_READ:
                message_release(message)
                return NULL
            return message
        chain = chain_new(self.appender, 0)
        if chain == NULL:
            raise MemoryError("no memory for a stored message")
        chain.single = True
        note_part(
            chain, tailer.cycle, start - HEADER - tailer.file.base, tailer.at, size, -1)
        return self.made_whole(chain, 0, index, now)

    cdef Message *take_part(
            self, Tailer tailer, size_t at, Part *part, int64_t index, int64_t now) except? NULL:
        """Take a part at offset ``at``; ``index`` is -1 if it is meta-data."""
        cdef Chain *chain = self.chain_for(part)
        if index < 0:
            self.bytes[tailer.cycle] = self.bytes.get(tailer.cycle, 0) + tailer.at - at
        if chain == NULL:
            if index >= 0:
                # This is the rest of a chain that was being removed.
                self.loose.append((index, index))
            return NULL
        note_part(chain, tailer.cycle, at, tailer.at, part.size, index)
        chain.closed = part.ending != 0
        if index < 0 and part.ending == COPIED:
            # Only the entry that follows is needed.
            del self.unfinished[part.id]
            free(chain)
        elif index >= 0 and chain.closed:
            del self.unfinished[part.id]
            return self.made_whole(chain, 0, index, now)
        return NULL

    cdef Chain *chain_for(self, const Part *part) except? NULL:
        """Return the chain that the part continues, with room for it; NULL if there is none."""
        cdef Chain *chain = <Chain *><size_t>self.unfinished.get(part.id, 0)
        if chain == NULL and part.number == 0:
            chain = chain_new(self.appender, part.id)
        elif chain == NULL or chain.closed or part.number != chain.parts:
            return NULL
        else:
            chain = chain_grown(chain)
        if chain == NULL:
            raise MemoryError("no memory for a stored message")
        self.unfinished[part.id] = <size_t>chain
        return chain

    cdef Message *take_reference(
            self, const char *bytes, int64_t index, int64_t now) except? NULL:
        """Take an entry that refers to the preceding parts of a chain."""
        cdef Chain *chain
        cdef uint64_t id
        cdef uint32_t parts
        cdef uint32_t format
        cdef uint64_t size
        memcpy(&id, bytes + 8, sizeof(uint64_t))
        memcpy(&parts, bytes + 16, sizeof(uint32_t))
        memcpy(&format, bytes + 20, sizeof(uint32_t))
        memcpy(&size, bytes + 24, sizeof(uint64_t))
        chain = <Chain *><size_t>self.unfinished.get(id, 0)
        if chain == NULL or not chain.closed or chain.parts != parts or chain.size != size:
            self.loose.append((index, index))
            return NULL
        del self.unfinished[id]
        return self.made_whole(chain, format, index, now)

    cdef Message *made_whole(
            self, Chain *chain, uint32_t format, int64_t index, int64_t now) except? NULL:
        """Make a message that stays in the file, with only its header's fields in memory.

        Return NULL if it is not a message.
        """
        cdef Message *message = stored_message(NULL, 0)
        cdef ChainReader *reader
        cdef bint good
        message.format = format
        message.chain = chain
        message.complete = True
        message.index = index
        reader = chain_open(message)
        if reader == NULL or not chain_read(reader, message):
            chain_close(reader)
            message_release(message)
            raise OutputError(f"{self.appender.directory}: a stored message cannot be read")
        good = read_start(message, reader.at, min(reader.left, FIRST_BYTES), now)
        chain_close(reader)
        if not good:
            message_release(message)
            return NULL
        message.size = chain.size
        self.whole.append(<size_t>message)
        return message

    cdef int hold(self, Retention retention) except -1:
        """Keep the files that have parts of messages."""
        cdef Chain *chain
        cdef uint32_t i
        for message in self.whole:
            chain = chain_of(<Message *><size_t>message)
            chain_hold(chain, retention)
            for i in range(chain.count):
                if chain.spans[i].held:
                    self.bytes[chain.spans[i].cycle] -= chain.spans[i].held
        for cycle, size in self.bytes.items():
            retention.note_dead(cycle, size)
        return 0

    def torn(self) -> list[tuple[int, int]]:
        """Return the entries that belong to no message, as ranges of first and last."""
        cdef Chain *chain
        cdef uint32_t i
        ranges = list(self.loose)
        for address in self.unfinished.values():
            chain = <Chain *><size_t>address
            for i in range(chain.count):
                if chain.spans[i].index >= 0:
                    ranges.append(
                        (chain.spans[i].index, chain.spans[i].index + chain.spans[i].parts - 1))
        return ranges


cdef Message *stored_message(const char *bytes, size_t size) except NULL:
    cdef Message *message = message_new(max(size, FIRST_BYTES) if bytes == NULL else size)
    cdef size_t room
    if message == NULL:
        raise MemoryError("no memory for a stored message")
    if size:
        memcpy(message_space(message, size, &room), bytes, size)
        message_filled(message, size)
    return message


cdef bint read_start(Message *message, const char *bytes, size_t size, int64_t now) noexcept nogil:
    """Read a message's header from its first bytes, without keeping them; False if invalid."""
    cdef HeaderResult result
    cdef size_t room
    memcpy(message_space(message, size, &room), bytes, size)
    message_filled(message, size)
    result = message_read_stored(message, now)
    message_drain(message, NULL, size)
    return result == HEADER_READ


cdef int restore_whole(Queue *queue, Message *message, dict states) except -1:
    """Queue a message with its remaining time to live and its failures."""
    cdef Entry *entry
    cdef int64_t end
    cdef uint32_t failures
    end, failures = states.get(message.index, (0, 0))
    if end and message.expires:
        # 0 would mean that it never expires.
        message.expires = max(
            queue.container.now_ms + end - realtime_ns() // 1000000, <int64_t>1)
    entry = queue_append(queue, message)
    if entry == NULL:
        message_release(message)
        raise MemoryError("no memory for a stored message")
    entry.used = failures > 0
    entry.failures = failures
    return 0
