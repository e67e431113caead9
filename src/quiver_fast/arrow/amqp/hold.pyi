from typing_extensions import Unpack

from quiver_fast.arrow.amqp.attempts import Attempts, Common
from quiver_fast.arrow.run.delays import DelayHistogram

class Hold(Attempts):
    opened: int
    lost: int
    losses: dict[str, int]
    latency: DelayHistogram
    def __init__(self, *common: Unpack[Common], count: int) -> None: ...
    def open(self) -> None: ...
    def keep(self, seconds: float) -> None: ...
    def close(self) -> None: ...
