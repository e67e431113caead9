from libc.stdint cimport int64_t, uint64_t

from quiver_fast.amqp.data_plane cimport amqp_arrival_t, amqp_delivery_t
from quiver_fast.server.model.structures cimport (
    Container, Entry, Inlet, Outlet, Peer, Queue, Timer, Work,
)

cdef void work_said(const Work *work) noexcept nogil

cdef void return_entry(Entry *entry) noexcept nogil
cdef void apply_outcome(
    Entry *entry, uint64_t outcome, uint64_t serial, bint failed,
    bint undeliverable) noexcept nogil

cdef void declare_dead(Peer *peer) noexcept nogil
cdef void peer_ring(Timer *timer, int64_t now) noexcept nogil

cdef bint take_whole(Inlet *inlet, const amqp_arrival_t *arrival) noexcept nogil
cdef bint end_accepted(Outlet *outlet, amqp_delivery_t *delivery) noexcept nogil

cdef void peer_holds(Peer *peer) noexcept nogil

cdef void outlet_flow(Outlet *outlet) noexcept nogil
cdef bint outlet_updated(Outlet *outlet, amqp_delivery_t *delivery) noexcept nogil
cdef void outlets_drained(Peer *peer) noexcept nogil
cdef void outlet_refused(Outlet *outlet) noexcept nogil
cdef void outlet_detached(Outlet *outlet) noexcept nogil

cdef void queue_dispatch(Queue *queue) noexcept nogil

cdef void inlet_arrived(Inlet *inlet) noexcept nogil
cdef void inlet_receive(Inlet *inlet) noexcept nogil
cdef void inlet_detached(Inlet *inlet) noexcept nogil
cdef void inlets_awake(Container *container) noexcept nogil
cdef void queue_resume(Queue *queue) noexcept nogil

cdef void queue_left(Queue *queue) noexcept nogil
cdef void queue_retire(Queue *queue) noexcept nogil
