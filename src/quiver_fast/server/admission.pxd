from quiver_fast.engine.security cimport SaslExchange
from quiver_fast.server.broker cimport Broker
from quiver_fast.server.structures cimport Peer

cdef Peer *admit(Broker broker, int fd, SaslExchange exchange, bytes hostname) noexcept
