from quiver_fast.proton.libproton cimport pn_condition_t

cdef str condition_text(pn_condition_t *condition)
