from typing import Any

from quiver_fast.loop.reactor import Reactor
from quiver_fast.loop.syncer import Syncer
from quiver_fast.server.addresses.addresses import Broker

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
