from quiver_fast.amqp.data_plane cimport amqp_delivery_t
from quiver_fast.server.messages.message cimport Message
from quiver_fast.server.model.structures cimport Container, Inlet, Queue

cdef bint inlet_must_wait(Inlet *inlet) noexcept nogil
cdef void end_waiting(Inlet *inlet) noexcept nogil
cdef bint must_end_later(Inlet *inlet, const Message *message) noexcept nogil
cdef bint ends_are_left(const Container *container) noexcept nogil
cdef bint endings_begin(Container *container) noexcept nogil
cdef Inlet *admit_ending(Container *container) noexcept nogil
cdef void wait_for_file(Inlet *inlet, Message *message, Queue *queue) noexcept nogil
cdef void refuse_waiting(Inlet *inlet) noexcept nogil
cdef void refuse_for_now(amqp_delivery_t *delivery) noexcept nogil
