from libc.stdint cimport uint64_t

from quiver_fast.proton.libproton cimport pn_disposition_t
from quiver_fast.server.model.structures cimport Entry, Work

cdef void outcome_said(
    Entry *entry, uint64_t state, pn_disposition_t *said) noexcept nogil
cdef void work_said(const Work *work) noexcept nogil
