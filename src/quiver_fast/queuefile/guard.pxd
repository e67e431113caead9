# A guarded mapping; only this module knows its fields.
ctypedef void Guard

cdef Guard *guard_new(void *base, size_t size) noexcept nogil
cdef void guard_move(Guard *guard, void *base, size_t size) noexcept nogil
cdef void guard_end(Guard *guard) noexcept nogil
cdef bint guard_cut(const Guard *guard) noexcept nogil
