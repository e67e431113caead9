from quiver_fast.queuefile.cyclefile cimport CycleFile

cdef str foreign_form(const CycleFile *file)
