from socket import socket

from quiver_fast.loop.reactor import Reactor
from quiver_fast.remote.serve.store import Store

class Service:
    reactor: Reactor
    store: Store
    count: int
    def __init__(
        self, reactor: Reactor, store: Store, *, max_connections: int = ..., idle_timeout: int = ...
    ) -> None: ...
    def listen(self, sock: socket) -> None: ...
    def close(self) -> None: ...
