from libc.stdint cimport int64_t, uint64_t

from quiver_fast.server.messages.messages cimport Message
from quiver_fast.server.model.structures cimport Consumer, Container, Entry, Lane, Queue

cdef void entry_bar(Entry *entry, uint64_t serial) noexcept nogil
cdef bint lane_barred(const Lane *lane, uint64_t serial) noexcept nogil

cdef void lane_remove(Lane *lane, Entry *entry) noexcept nogil

cdef Entry *consumer_browse(Consumer *consumer) noexcept nogil

cdef Entry *selective_next(Consumer *consumer) noexcept nogil
cdef bint all_judged(Queue *queue, const Entry *entry) noexcept nogil
cdef bint wants(const Consumer *consumer) noexcept nogil
cdef bint is_unwanted(const Queue *queue) noexcept nogil
cdef void select_later(Queue *queue) noexcept nogil
cdef Queue *take_later(Container *container) noexcept nogil
cdef void later_forget(Queue *queue) noexcept nogil

# Bits of a sequence that count entries. A queue by priority has the priority above them.
cdef enum:
    COUNT_BITS = 48

cdef Queue *queue_new(Container *container, const char *address, size_t size) noexcept nogil
cdef void queue_free(Queue *queue) noexcept nogil
cdef bint queue_clear(Queue *queue, size_t *left) noexcept nogil
cdef Entry *queue_append(Queue *queue, Message *message) noexcept nogil
cdef Entry *entry_copy(const Entry *entry) noexcept nogil
cdef void queue_acquire(Queue *queue, Entry *entry) noexcept nogil
cdef void queue_restore(Entry *entry) noexcept nogil
cdef void entry_drop(Entry *entry) noexcept nogil
cdef void spare_entries_free() noexcept nogil
cdef void consumer_join(Queue *queue, Consumer *consumer) noexcept nogil
cdef void consumer_leave(Consumer *consumer) noexcept nogil
cdef void add_consumers(Queue *node, int by) noexcept nogil
cdef void consumer_drain(Consumer *consumer) noexcept nogil
cdef void consumer_ready(Consumer *consumer) noexcept nogil
cdef void consumer_unready(Consumer *consumer) noexcept nogil
cdef void put_new(Queue *queue, Entry *entry) noexcept nogil
cdef void show_new(Queue *queue, Entry *entry) noexcept nogil
