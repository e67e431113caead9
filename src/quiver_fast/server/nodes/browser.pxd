from quiver_fast.server.model.structures cimport Consumer, Entry, Queue

cdef Entry *consumer_browse(Consumer *consumer) noexcept nogil
cdef void show_entry(Queue *queue, Entry *entry) noexcept nogil
cdef void hide_entry(Queue *queue, Entry *entry) noexcept nogil
