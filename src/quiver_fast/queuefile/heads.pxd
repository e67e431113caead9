from quiver_fast.queuefile.cyclefile cimport CycleFile

cdef bint rebuild_head(CycleFile *file, object roll) except -1
cdef bint mend_length(CycleFile *file) except -1
cdef bint mend_pages(CycleFile *file) except -1
