from libc.stdint cimport uint64_t

from quiver_fast.server.model.structures cimport Transaction

cdef bint transaction_write(Transaction *transaction) noexcept nogil
cdef bint ends_message(uint64_t outcome) noexcept nogil
