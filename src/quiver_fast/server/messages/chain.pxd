from libc.stdint cimport int64_t, uint32_t, uint64_t

from quiver_fast.queuefile.appender cimport Appender
from quiver_fast.queuefile.retention cimport Retention
from quiver_fast.server.messages.message cimport Message

# Before the bytes of a raw entry: form 2 of A.6.
cdef enum:
    RAW_HEAD = 6

# Adjacent parts in one file.
cdef struct Span:
    int64_t cycle
    # Offsets of the first part and behind the last one.
    size_t at
    size_t end
    uint32_t parts
    # Index of the first part if parts are entries; else -1.
    int64_t index
    # The hold that keeps the file.
    size_t held

# A message that is sent from the queue's file; what Message.chain points to.
cdef struct Chain:
    # How to free it; has to be the first member.
    void (*end)(void *chain) noexcept nogil
    # The file's Appender, which stays as long as its queue, and its Retention, which is ours.
    void *appender
    void *retention
    uint64_t id
    uint32_t parts
    # Bytes of the message in the parts.
    uint64_t size
    # The last part is written, so the message is complete.
    bint closed
    # It has one part, an entry that is the message as it is.
    bint single
    # The message's entry in its queue while it arrives; NULL after the entry's end.
    bint shown
    void *entry
    # The Inlet that it arrives by, to be woken at the entry's end.
    void *inlet
    # The consumer's outcome, if it came before the end of the message.
    uint64_t outcome
    # Outlets that send the message while it arrives.
    void *readers
    uint32_t count
    uint32_t capacity
    # `capacity` of them, in the same allocation.
    Span[1] spans

# Where a delivery from the file stands.
cdef struct ChainReader:
    # A Tailer, which maps one file at a time.
    void *tailer
    uint32_t span
    # Parts of that span that were read.
    uint32_t part
    # What is left of the current one.
    const char *at
    size_t left
    # The file's pages up to here were unmapped.
    const char *base
    size_t let_go
    # The next file could not be opened for want of descriptors or memory: the message is whole.
    bint unopened

# A part as it is in the file.
cdef struct Part:
    uint64_t id
    uint32_t number
    uint32_t ending
    const char *bytes
    size_t size

cdef inline Chain *chain_of(const Message *message) noexcept nogil:
    return <Chain *>message.chain

cdef bint chain_write(
    Appender appender, Retention retention, Message *message, bint last) noexcept nogil
cdef size_t commit_size(Appender appender, const Message *message) noexcept nogil
cdef int64_t chain_commit(Appender appender, Message *message) noexcept nogil
cdef ChainReader *chain_open(const Message *message) noexcept nogil
cdef bint chain_read(ChainReader *reader, const Message *message) noexcept nogil
cdef size_t chain_copy(
    ChainReader *reader, const Message *message, char *out, size_t size) noexcept nogil
cdef bint chain_was_cut(const ChainReader *reader) noexcept nogil
cdef void chain_close(ChainReader *reader) noexcept nogil
cdef bint is_raw(const char *start, size_t size) noexcept nogil
cdef bint read_part(const char *start, size_t size, bint meta, Part *part) noexcept nogil
cdef bint is_reference(const char *start, size_t size) noexcept nogil
cdef Chain *chain_new(Appender appender, uint64_t id) noexcept nogil
cdef Chain *chain_grown(Chain *chain) noexcept nogil
cdef void note_part(
    Chain *chain, int64_t cycle, size_t at, size_t end, size_t size, int64_t index) noexcept nogil
cdef int chain_hold(Chain *chain, Retention retention) except -1
