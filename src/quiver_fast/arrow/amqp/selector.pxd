from quiver_fast.proton.libproton cimport pn_terminus_t

cdef int ask_for_selector(pn_terminus_t *source, bytes selector) except -1
cdef bint has_selector(pn_terminus_t *source) noexcept nogil
