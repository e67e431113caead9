"""Durable messages longer than an entry may be: a chain of entries in the queue's file.

They are written as the message arrives and sent from the file, so a message of any
size takes constant memory. Each part is an entry of raw bytes (A.6, form 2) that begins

    offset  0   8   ff 'quiver' 01     no AMQP section begins with ff (AMQP 1.0 part 3.2)
            8   8   number of the chain, unique in the queue
           16   4   number of the part, from 0
           20   4   1 for the last part, which may be empty; else 0

little-endian, then the bytes of the message. Parts of several chains and other entries
may lie between. The last part makes the message whole: a chain that has none at start
is what a crash cut short, and is removed.
"""

from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

import sys

from quiver_fast.proton.libsys cimport MADV_DONTNEED, madvise
from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.queuefile.cyclefile cimport cycle_cut
from quiver_fast.queuefile.reserve cimport Reserve, reserve_begin, reserve_end
from quiver_fast.queuefile.tailer cimport TAILER_FOUND, Tailer
from quiver_fast.server.message cimport (
    Message, message_drain, message_filled, message_new, message_read_header, message_release,
    message_space,
)

cdef const char *MAGIC = b"\xffquiver\x01"
cdef enum:
    MAGIC_SIZE = 8
    HEAD = 24
    # Of form 2, before it.
    RAW_HEAD = 6
    SPANS = 4
    PAGE = 4096
# Bytes of one part: far below the entry limit.
cdef size_t PART_MAX = 1048576
# What is mapped of a file and was used counts as our memory until it is let go.
cdef size_t LET_GO = 4194304
# Of a restored message's first part, enough for its header section.
cdef size_t START = 4096


cdef Chain *chain_grown(Chain *chain, Appender appender, uint64_t id) noexcept nogil:
    """Return the chain with room for one more span; NULL without memory."""
    cdef uint32_t capacity = SPANS if chain == NULL else 2 * chain.capacity
    cdef size_t size = sizeof(Chain) + capacity * sizeof(Span)
    cdef Chain *grown
    if chain != NULL and chain.count < chain.capacity:
        return chain
    grown = <Chain *>realloc(chain, size)
    if grown == NULL:
        return NULL
    if chain == NULL:
        grown.appender = <void *>appender
        grown.id = id
        grown.parts = 0
        grown.closed = False
        grown.count = 0
    grown.capacity = capacity
    return grown


cdef void note_part(Chain *chain, uint64_t index) noexcept nogil:
    """Take an entry as the next part; there is room for a span."""
    cdef Span *latest = &chain.spans[chain.count - 1] if chain.count else NULL
    chain.parts += 1
    if latest != NULL and latest.last + 1 == index:
        latest.last = index
        return
    chain.spans[chain.count].first = index
    chain.spans[chain.count].last = index
    chain.count += 1


cdef bint chain_write(Appender appender, Message *message, bint last) noexcept nogil:
    """Write what is held of a message to the file, and hold it no longer.

    Returns False if that failed: the appender says why, the message is as it was
    or shorter by parts that are in its chain.

    Args:
        last: the message ends with that.
    """
    cdef size_t size
    while message.held or last:
        size = min(message.held, PART_MAX)
        if not write_part(appender, message, size, last and size == message.held):
            return False
        if (<Chain *>message.chain).closed:
            return True
    return True


cdef bint write_part(Appender appender, Message *message, size_t size, bint last) noexcept nogil:
    cdef Chain *chain = chain_grown(
        <Chain *>message.chain, appender, appender.end_index())
    cdef char *out
    cdef size_t before
    cdef uint32_t ending = last
    cdef int64_t index
    if chain == NULL:
        return False
    message.chain = chain
    out = appender.begin_bytes(HEAD + size)
    if out == NULL:
        return False
    memcpy(out, MAGIC, MAGIC_SIZE)
    memcpy(out + 8, &chain.id, sizeof(uint64_t))
    memcpy(out + 16, &chain.parts, sizeof(uint32_t))
    memcpy(out + 20, &ending, sizeof(uint32_t))
    message_drain(message, out + HEAD, size)
    index = appender.commit()
    if index < 0:
        return False
    note_part(chain, index)
    chain.closed = last
    before = (appender.tail - HEAD - size) // LET_GO * LET_GO
    let_go(appender.file.base, before, appender.tail // LET_GO * LET_GO)
    return True


cdef void let_go(char *base, size_t begin, size_t end) noexcept nogil:
    """Unmap pages of a file that are done with here; the file keeps them."""
    begin = begin // PAGE * PAGE
    end = end // PAGE * PAGE
    # Nothing to do is the rule; a roll may have moved the end back.
    if end > begin:
        madvise(base + begin, end - begin, MADV_DONTNEED)


cdef bint chain_is_part(const char *bytes, size_t size) noexcept nogil:
    """Say whether an entry's raw bytes are a part of a chain."""
    return size >= HEAD and memcmp(bytes, MAGIC, MAGIC_SIZE) == 0


cdef ChainReader *chain_open(const Message *message) noexcept nogil:
    """Begin to read a message from the file; NULL without memory."""
    cdef ChainReader *reader = <ChainReader *>calloc(1, sizeof(ChainReader))
    if reader == NULL:
        return NULL
    reader.index = (<Chain *>message.chain).spans[0].first
    with gil:
        try:
            with Reserve():
                tailer = Tailer((<Appender>(<Chain *>message.chain).appender).directory)
        except Exception as error:
            sys.stderr.write(f"quiver-server-pyfast: {error}\n")
            free(reader)
            return NULL
        Py_INCREF(tailer)
        reader.tailer = <void *>tailer
        if not stand_before(reader):
            chain_close(reader)
            return NULL
    return reader


cdef bint stand_before(ChainReader *reader) noexcept nogil:
    """Have the next part's file in memory; its descriptor is not needed for what is whole."""
    cdef bint found
    reserve_begin()
    found = (<Tailer>reader.tailer).seek(reader.index) == TAILER_FOUND
    reserve_end()
    (<Tailer>reader.tailer).let_descriptor_go()
    return found


cdef bint chain_read(ChainReader *reader, const Message *message) noexcept nogil:
    """Go on to the next part that has bytes; at the end `left` is 0. False: not readable."""
    cdef Chain *chain = <Chain *>message.chain
    cdef const char *start
    cdef size_t size
    cdef int64_t index
    while reader.left == 0 and reader.span < chain.count:
        if (<Tailer>reader.tailer).next(&start, &size, &index) != TAILER_FOUND or (
                <uint64_t>index != reader.index):
            # Others' entries are between, or it is in a later file.
            if not stand_before(reader):
                return False
            if (<Tailer>reader.tailer).next(&start, &size, &index) != TAILER_FOUND:
                return False
        if <uint64_t>index != reader.index or size < RAW_HEAD or not chain_is_part(
                start + RAW_HEAD, size - RAW_HEAD):
            return False
        (<Tailer>reader.tailer).let_descriptor_go()
        forget_pages(reader, start)
        reader.at = start + RAW_HEAD + HEAD
        reader.left = size - RAW_HEAD - HEAD
        if reader.index < chain.spans[reader.span].last:
            reader.index += 1
        else:
            reader.span += 1
            if reader.span < chain.count:
                reader.index = chain.spans[reader.span].first
    return True


cdef void forget_pages(ChainReader *reader, const char *at) noexcept nogil:
    """Let the pages go that were sent."""
    cdef char *base = (<Tailer>reader.tailer).file.base
    cdef size_t done = at - base
    if base != reader.base or done < reader.let_go:
        reader.base = base
        reader.let_go = done
    elif done - reader.let_go >= LET_GO:
        let_go(base, reader.let_go, done)
        reader.let_go = done


cdef bint chain_was_cut(const ChainReader *reader) noexcept nogil:
    """Say whether what was read of the file may be missing: somebody else cut it short."""
    return cycle_cut(&(<Tailer>reader.tailer).file)


cdef void chain_close(ChainReader *reader) noexcept nogil:
    """End reading, at its end or before."""
    if reader == NULL:
        return
    with gil:
        Py_DECREF(<Tailer>reader.tailer)
    free(reader)


cdef class ChainRestorer:
    """Puts chains together again from the live entries of a file, in their order.

    Args:
        appender: the writer of the file.
    """

    def __cinit__(self, appender: Appender) -> None:
        self.appender = appender
        # Message by number of the chain.
        self.unfinished = {}
        self.loose = []

    def __dealloc__(self) -> None:
        for message in self.unfinished.values():
            message_release(<Message *><size_t>message)

    cdef Message *add(
            self, const char *bytes, size_t size, int64_t index, int64_t now) except? NULL:
        """Take one part; return the message that it makes whole, else NULL."""
        # Entries lie anywhere in their file.
        cdef uint64_t id
        cdef uint32_t number
        cdef uint32_t last
        memcpy(&id, bytes + 8, sizeof(uint64_t))
        memcpy(&number, bytes + 16, sizeof(uint32_t))
        memcpy(&last, bytes + 20, sizeof(uint32_t))
        cdef Message *message = <Message *><size_t>self.unfinished.get(id, 0)
        cdef Chain *chain
        if message == NULL and number == 0:
            message = begin_message(bytes + HEAD, size - HEAD, now)
            self.unfinished[id] = <size_t>message
        if message == NULL or number and number != (<Chain *>message.chain).parts:
            # What is left of a chain that was being removed.
            self.loose.append((index, index))
            return NULL
        chain = chain_grown(<Chain *>message.chain, self.appender, id)
        if chain == NULL:
            raise MemoryError("no memory for a stored message")
        message.chain = chain
        note_part(chain, index)
        message.size += size - HEAD
        if not last:
            return NULL
        del self.unfinished[id]
        chain.closed = True
        message.complete = True
        message.index = index
        return message

    def torn(self) -> list[tuple[int, int]]:
        """Return the entries of chains that are not whole, in ranges of first and last."""
        cdef Chain *chain
        cdef uint32_t i
        ranges = list(self.loose)
        for address in self.unfinished.values():
            chain = <Chain *>(<Message *><size_t>address).chain
            for i in range(chain.count):
                ranges.append((chain.spans[i].first, chain.spans[i].last))
        return ranges


cdef Message *begin_message(const char *bytes, size_t size, int64_t now) except NULL:
    """Make a message that holds nothing but what its header says."""
    cdef Message *message = message_new(START)
    cdef size_t room
    if message == NULL:
        raise MemoryError("no memory for a stored message")
    size = min(size, START)
    memcpy(message_space(message, size, &room), bytes, size)
    message_filled(message, size)
    message_read_header(message, now)
    message_drain(message, NULL, size)
    message.size = 0
    return message
