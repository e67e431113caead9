from socket import socket

from quiver_fast.remote.store import Store
from quiver_fast.server.reactor import Reactor

class Service:
    reactor: Reactor
    store: Store
    count: int
    def __init__(self, reactor: Reactor, store: Store, *, max_connections: int = ...) -> None: ...
    def listen(self, sock: socket) -> None: ...
    def close(self) -> None: ...
