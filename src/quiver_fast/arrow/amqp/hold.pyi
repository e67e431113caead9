import socket
from collections.abc import Callable

from quiver_fast.arrow.amqp.attempts import Attempts
from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.run.pacer import DelayHistogram

class Hold(Attempts):
    opened: int
    lost: int
    losses: dict[str, int]
    latency: DelayHistogram
    def __init__(
        self,
        host: str,
        port: int,
        timeout: float,
        make_connection: Callable[[socket.socket], Connection],
        is_stopped: Callable[[], bool],
        *,
        count: int,
    ) -> None: ...
    def open(self) -> None: ...
    def keep(self, seconds: float) -> None: ...
    def close(self) -> None: ...
