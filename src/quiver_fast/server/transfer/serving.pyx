"""The streams that run to a consumer, on its own link or on links that the server attached."""

from quiver_fast.server.model.lists cimport list_push, list_remove
from quiver_fast.server.model.structures cimport Outlet


cdef void serve_consumer(Outlet *outlet, Outlet *consumer) noexcept nogil:
    """Note which consumer a stream runs to, on its own link or on one of ours."""
    consumer.streams += 1
    outlet.consumer_link = consumer
    list_push(&consumer.served, outlet, &outlet.prev_served, &outlet.next_served)


cdef void leave_consumer(Outlet *outlet) noexcept nogil:
    list_remove(&outlet.consumer_link.served, outlet, &outlet.prev_served, &outlet.next_served)
    outlet.consumer_link = NULL


cdef void forget_consumer(Outlet *consumer) noexcept nogil:
    """Continue the streams on links of ours without the consumer's own link."""
    while consumer.served != NULL:
        leave_consumer(consumer.served)
