from quiver_fast.proton.libproton cimport pn_data_t

cdef bint has_capability(pn_data_t *data, const char *wanted) noexcept nogil
