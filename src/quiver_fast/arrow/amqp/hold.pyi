from collections.abc import Callable

from typing_extensions import Unpack

from quiver_fast.arrow.amqp.attempts import Attempts, Common
from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.run.delays import DelayHistogram

class Hold(Attempts):
    opened: int
    lost: int
    losses: dict[str, int]
    latency: DelayHistogram
    def __init__(
        self,
        *common: Unpack[Common],
        count: int,
        address_at: Callable[[Connection], str],
        name: str,
    ) -> None: ...
    def open(self) -> None: ...
    def open_parts(self, part: str, each: int) -> int: ...
    def keep(self, seconds: float) -> None: ...
    def close(self) -> None: ...
