from quiver_fast.proton.libproton cimport pn_delivery_t
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Inlet, Queue

cdef bint inlet_must_wait(Inlet *inlet) noexcept nogil
cdef void end_waiting(Inlet *inlet) noexcept nogil
cdef void wait_for_file(Inlet *inlet, Message *message, Queue *queue) noexcept nogil
cdef void refuse_waiting(Inlet *inlet) noexcept nogil
cdef void refuse_for_now(pn_delivery_t *delivery) noexcept nogil
