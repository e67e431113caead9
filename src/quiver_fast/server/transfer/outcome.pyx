"""The outcome of an acquired entry: it ends, or is available again."""

from libc.stdint cimport uint64_t

from quiver_fast.proton.libproton cimport PN_MODIFIED, PN_RELEASED
from quiver_fast.server.durable.store cimport note_failure, store_remove
from quiver_fast.server.model.structures cimport Entry, Queue, queue_dirty
from quiver_fast.server.nodes.barring cimport entry_bar
from quiver_fast.server.nodes.queue cimport entry_drop, queue_restore
from quiver_fast.server.streams.stream cimport stream_decide, stream_of


cdef void entry_done(Entry *entry) noexcept nogil:
    """End an acquired entry or a copy, and resume producers that waited for its room."""
    cdef Queue *queue = entry.queue
    if queue != NULL and entry.message.index >= 0:
        store_remove(queue, entry.message)
    entry_drop(entry)
    if queue != NULL and (queue.waiting != NULL or queue.links == 0 or queue.orphaned):
        queue_dirty(queue)


cdef void return_entry(Entry *entry) noexcept nogil:
    """Make an entry available again; a browser's copy just ends.

    A stream was sent, perhaps to its consumer too, and is not kept: modified.
    """
    if entry.queue == NULL:
        entry_drop(entry)
        return
    if entry.message.stream != NULL:
        stream_decide(stream_of(entry.message), PN_MODIFIED, True, False)
        entry_done(entry)
        return
    if entry.message.aborted:
        # Its sender aborted it while a transaction had it.
        entry_done(entry)
        return
    queue_restore(entry)
    queue_dirty(entry.queue)


cdef void apply_outcome(
        Entry *entry, uint64_t outcome, uint64_t serial, bint failed,
        bint undeliverable) noexcept nogil:
    """Apply an outcome to an acquired entry; a settlement without one means accepted.

    ``serial`` is that of the consumer's link. A stream's outcome is passed to its sender.
    """
    if entry.message.stream != NULL and entry.queue != NULL:
        stream_decide(stream_of(entry.message), outcome, failed, undeliverable)
        entry_done(entry)
        return
    if outcome == PN_MODIFIED:
        if failed:
            entry.failures += 1
            if entry.queue != NULL and entry.message.index >= 0:
                note_failure(entry)
        if undeliverable and entry.queue != NULL:
            entry_bar(entry, serial)
    if outcome == PN_MODIFIED or outcome == PN_RELEASED:
        return_entry(entry)
    else:
        entry_done(entry)
