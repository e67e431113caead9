from quiver_fast.server.model.structures cimport Container, Inlet, Queue

cdef void inlet_arrived(Inlet *inlet) noexcept nogil
cdef void inlet_receive(Inlet *inlet) noexcept nogil
cdef void inlet_detached(Inlet *inlet) noexcept nogil
cdef void inlets_awake(Container *container) noexcept nogil
cdef void queue_resume(Queue *queue) noexcept nogil
cdef void resume(Inlet *inlet) noexcept nogil
