import socket

from quiver_fast.server.addresses.broker import Broker

class Listener:
    def __init__(self, broker: Broker, sock: socket.socket) -> None: ...
    def close(self) -> None: ...
