import socket
from collections.abc import Callable

from quiver_fast.arrow.amqp.connection import Connection

STEPS: tuple[str, ...]

class Attempts:
    failed: int
    reasons: dict[str, int]
    def __init__(
        self,
        host: str,
        port: int,
        timeout: float,
        make_connection: Callable[[socket.socket], Connection],
        is_stopped: Callable[[], bool],
    ) -> None: ...
    @property
    def peer_address(self) -> tuple[str, int]: ...
