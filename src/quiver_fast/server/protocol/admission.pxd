from quiver_fast.security.security cimport SaslExchange
from quiver_fast.server.addresses.broker cimport Broker
from quiver_fast.server.model.structures cimport Peer

cdef Peer *admit(Broker broker, int fd, SaslExchange exchange, bytes hostname) noexcept
cdef void take_input(Peer *peer) noexcept nogil
