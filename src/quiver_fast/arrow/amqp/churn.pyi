import socket
from collections.abc import Callable

from quiver_fast.arrow.amqp.attempts import Attempts
from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.run.pacer import DelayHistogram

MOST_FLYING: int

class Churn(Attempts):
    due: int
    begun: int
    succeeded: int
    latency: DelayHistogram
    steps: list[DelayHistogram]
    def __init__(
        self,
        host: str,
        port: int,
        timeout: float,
        make_connection: Callable[[socket.socket], Connection],
        is_stopped: Callable[[], bool],
        *,
        kind: str,
        rate: int,
        duration: int,
        address_at: Callable[[Connection], str],
        make_message: Callable[[], bytes],
        name: str,
    ) -> None: ...
    @property
    def elapsed_ns(self) -> int: ...
    def run(self) -> None: ...
