import socket
from collections.abc import Callable
from typing import TypeAlias

from quiver_fast.arrow.amqp.connection import Connection

STEPS: tuple[str, ...]

# Arguments that a subclass passes on: host, port, timeout, make_connection, is_stopped.
Common: TypeAlias = tuple[
    str, int, float, Callable[[socket.socket], Connection], Callable[[], bool]
]

class Attempts:
    failed: int
    reasons: dict[str, int]
    @property
    def peer_address(self) -> tuple[str, int]: ...
