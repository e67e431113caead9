from collections.abc import Callable

from typing_extensions import Unpack

from quiver_fast.arrow.amqp.attempts import Attempts, Common
from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.run.delays import DelayHistogram

MOST_PENDING: int

class Churn(Attempts):
    due: int
    begun: int
    succeeded: int
    latency: DelayHistogram
    steps: list[DelayHistogram]
    def __init__(
        self,
        *common: Unpack[Common],
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
