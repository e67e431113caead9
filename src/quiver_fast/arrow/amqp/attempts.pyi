import socket
from collections.abc import Callable
from typing import TypeAlias

from quiver_fast.arrow.amqp.connection import Connection

STEPS: tuple[str, ...]

# Host, port, timeout, make_connection and is_stopped: what a subclass passes on.
Common: TypeAlias = tuple[
    str, int, float, Callable[[socket.socket], Connection], Callable[[], bool]
]

class Attempts:
    failed: int
    reasons: dict[str, int]
    @property
    def peer_address(self) -> tuple[str, int]: ...
