"""What an outcome carries: the reason of a rejection, and annotations."""

from libc.stdint cimport uint64_t
from libc.string cimport memcpy

from quiver_fast.proton.libproton cimport (
    PN_MODIFIED, PN_REJECTED, pn_data_size, pn_data_t, pn_disposition_annotations,
    pn_disposition_condition, pn_disposition_t,
)
from quiver_fast.server.messages.annotations import merged
from quiver_fast.server.messages.encoding cimport encoded
from quiver_fast.server.messages.message cimport (
    Chunk, Message, chunk_bytes, message_filled, message_new, message_read_header,
    message_release, message_space,
)
from quiver_fast.server.model.structures cimport Entry, Work
from quiver_fast.server.streams.stream cimport stream_reason


cdef void outcome_said(
        Entry *entry, uint64_t state, pn_disposition_t *said) noexcept nogil:
    """Forward the reason why a stream is rejected; keep annotations of *modified* (part 3.4.5).

    A browser's copy just ends. A message that is only in the queue's file does not change.
    """
    cdef pn_data_t *annotations
    if entry.message.stream != NULL:
        if state == PN_REJECTED:
            stream_reason(entry.message, pn_disposition_condition(said))
        return
    if state != PN_MODIFIED or not can_change(entry):
        return
    annotations = pn_disposition_annotations(said)
    if pn_data_size(annotations):
        annotate_with(entry, annotations)


cdef void work_said(const Work *work) noexcept nogil:
    """Do the same for an outcome whose transaction is committed."""
    if work.annotations != NULL and work.entry.message.stream == NULL and can_change(work.entry):
        annotate(work.entry, work)


cdef bint can_change(const Entry *entry) noexcept nogil:
    return entry.queue != NULL and entry.message.chain == NULL


cdef void annotate_with(Entry *entry, pn_data_t *annotations) noexcept with gil:
    try:
        merge(entry, encoded(annotations))
    except (MemoryError, ValueError):
        # Without memory, or if they are malformed, the message is delivered again unchanged.
        pass


cdef void annotate(Entry *entry, const Work *work) noexcept with gil:
    try:
        merge(entry, work.annotations[:work.annotations_size])
    except (MemoryError, ValueError):
        # As above.
        pass


cdef int merge(Entry *entry, bytes annotations) except -1:
    """Merge annotations into an acquired entry's message, for its next delivery."""
    return replace(entry, merged(content(entry.message), annotations))


cdef bytes content(const Message *message):
    cdef const Chunk *chunk = message.first
    parts = []
    while chunk != NULL:
        parts.append(chunk_bytes(<Chunk *>chunk)[:chunk.size])
        chunk = chunk.next
    return b"".join(parts)


cdef int replace(Entry *entry, bytes new) except -1:
    """Give an entry its own message: other entries may share the present one."""
    cdef Message *before = entry.message
    cdef Message *after = message_new(len(new))
    cdef size_t room
    if after == NULL:
        raise MemoryError
    memcpy(message_space(after, len(new), &room), <char *>new, len(new))
    message_filled(after, len(new))
    message_read_header(after, 0)
    after.complete = True
    after.routed = before.routed
    after.expires = before.expires
    after.index = before.index
    entry.queue.bytes += after.held - before.held
    entry.bytes += after.held - before.held
    entry.message = after
    message_release(before)
    return 0
