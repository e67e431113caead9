from quiver_fast.amqp.data_plane cimport amqp_delivery_t
from quiver_fast.server.addresses.broker cimport Absence
from quiver_fast.server.messages.message cimport HeaderResult, Message
from quiver_fast.server.model.structures cimport Inlet, Queue

cdef bint publish(Queue *queue, Message *message) noexcept nogil
cdef Queue *queue_of_message(
    Inlet *inlet, amqp_delivery_t *delivery, Message *message) noexcept nogil
cdef HeaderResult queue_of_stream(
    Inlet *inlet, const Message *message, Queue **queue, Absence *absence) noexcept nogil
cdef Queue *last_queue(Inlet *inlet) noexcept nogil
cdef Queue *named_queue(
    Inlet *inlet, const char *address, size_t size, Absence *absence) noexcept nogil
cdef bint can_pass(const Queue *queue) noexcept nogil
