"""Which streams run to a consumer, on its own link or on links that the server attached for it."""

from quiver_fast.server.model.structures cimport Outlet


cdef void serve_consumer(Outlet *outlet, Outlet *consumer) noexcept nogil:
    """Note which consumer a stream runs to, on its own link or on one of ours."""
    consumer.streams += 1
    outlet.consumer_link = consumer
    outlet.prev_served = NULL
    outlet.next_served = consumer.served
    if consumer.served != NULL:
        consumer.served.prev_served = outlet
    consumer.served = outlet


cdef void leave_consumer(Outlet *outlet) noexcept nogil:
    if outlet.next_served != NULL:
        outlet.next_served.prev_served = outlet.prev_served
    if outlet.prev_served != NULL:
        outlet.prev_served.next_served = outlet.next_served
    else:
        outlet.consumer_link.served = outlet.next_served
    outlet.consumer_link = NULL


cdef void forget_consumer(Outlet *consumer) noexcept nogil:
    """Let streams that run on links of ours go on without the consumer's own link."""
    while consumer.served != NULL:
        leave_consumer(consumer.served)
