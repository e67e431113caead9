from quiver_fast.server.model.structures cimport Outlet, Peer

cdef Outlet *stream_outlet(Outlet *consumer, bint *later) noexcept nogil
cdef void trim_pool(Peer *peer) noexcept nogil
