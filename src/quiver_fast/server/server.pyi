import socket
from typing import Any

from quiver_fast.loop.opener import Opener
from quiver_fast.loop.reactor import Reactor
from quiver_fast.loop.syncer import Syncer
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.security.security import Security
from quiver_fast.selectors.selector import Step
from quiver_fast.server.config import ServerConfig, Target

def merged(message: bytes, annotations: bytes) -> bytes: ...

class Selector:
    def __init__(self, steps: list[Step]) -> None: ...
    def matches(self, encoded: bytes) -> bool: ...

class Broker:
    config: ServerConfig
    def __init__(
        self,
        reactor: Reactor,
        config: ServerConfig,
        security: Security,
        files: QueueDirectory | None,
        syncer: Syncer | None,
        opener: Opener | None,
    ) -> None: ...
    def complete(self) -> None: ...
    def close(self) -> None: ...

def restore_subscriptions(broker: Broker) -> None: ...

class Connector:
    def __init__(self, broker: Broker, target: Target, security: Security) -> None: ...
    def close(self) -> None: ...

class Listener:
    def __init__(self, broker: Broker, sock: socket.socket) -> None: ...
    def close(self) -> None: ...

class Turn:
    def __init__(self, broker: Broker) -> None: ...
    def drain(self) -> None: ...

class QueueFigures:
    name: str
    topic: bool
    came: int
    depth: int
    unsettled: int
    bytes: int
    age: float | None
    consumers: int
    producers: int

class Figures:
    amqp: dict[str, Any] | None
    queues: list[QueueFigures]
    held: int
    held_limit: int
    syncs: dict[str, Any] | None
    readings: int
    spent: float
    visits: int
    all_visited: bool

class Readings:
    def __init__(self, reactor: Reactor, broker: Broker | None, syncer: Syncer | None) -> None: ...
    def close(self) -> None: ...
    def take(self) -> Figures: ...
