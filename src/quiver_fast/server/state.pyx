"""What a queue's file says of a message besides its bytes, and what comes of it after a start.

When its time to live ends is written with the message, that a delivery failed when it does;
both are the same meta-data document (queuefile.live). A delivery by itself is not written down.
"""

from libc.stdint cimport int64_t, uint32_t

from quiver_fast.proton.libsys cimport realtime_ns
from quiver_fast.queuefile.live cimport write_state
from quiver_fast.server.message cimport Message, message_release
from quiver_fast.server.queue cimport queue_append
from quiver_fast.server.store cimport Store, end_of_life
from quiver_fast.server.structures cimport Entry, Queue

# Failures that are all written down; of more, only powers of two: a message that fails for
# ever must not fill the disk.
cdef uint32_t EXACT = 32


cdef int restore_whole(Queue *queue, Message *message, dict states) except -1:
    """Queue a message as it was before: with what is left of its time, and its failures."""
    cdef Entry *entry
    cdef int64_t end
    cdef uint32_t failures
    end, failures = states.get(message.index, (0, 0))
    if end and message.expires:
        # 0 would be never.
        message.expires = max(
            queue.container.now_ms + end - realtime_ns() // 1000000, <int64_t>1)
    entry = queue_append(queue, message)
    if entry == NULL:
        message_release(message)
        raise MemoryError("no memory for a stored message")
    entry.used = failures > 0
    entry.failures = failures
    return 0


cdef void note_failure(const Entry *entry) noexcept nogil:
    """Write down that a delivery of a stored message failed; a full disk forgets it at a start."""
    cdef uint32_t failures = entry.failures
    if failures <= EXACT or failures & (failures - 1) == 0:
        write_state(
            (<Store>entry.queue.store).appender, entry.message.index,
            end_of_life(entry.queue, entry.message), failures)
