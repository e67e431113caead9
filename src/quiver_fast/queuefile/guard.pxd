# A file in memory that is guarded; what it is made of is this module's.
ctypedef void Guard

cdef Guard *guard_new(void *base, size_t size) noexcept nogil
cdef void guard_move(Guard *guard, void *base, size_t size) noexcept nogil
cdef void guard_end(Guard *guard) noexcept nogil
cdef bint guard_cut(const Guard *guard) noexcept nogil
