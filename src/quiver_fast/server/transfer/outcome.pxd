from libc.stdint cimport uint64_t

from quiver_fast.server.model.structures cimport Entry

cdef void entry_done(Entry *entry) noexcept nogil
cdef void return_entry(Entry *entry) noexcept nogil
cdef void apply_outcome(
    Entry *entry, uint64_t outcome, uint64_t serial, bint failed,
    bint undeliverable) noexcept nogil
