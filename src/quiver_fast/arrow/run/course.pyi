from collections.abc import Sequence

from quiver_fast.arrow.run.control import Control
from quiver_fast.arrow.run.delays import Delays
from quiver_fast.arrow.run.pacer import Pacer
from quiver_fast.rate_steps import Piece

class Limits:
    count: int
    duration_ns: int
    pacer: Pacer | None
    clock_base: int
    control: Control
    warnings: list[str]
    delays: Delays | None
    def __init__(
        self,
        *,
        count: int,
        duration: float,
        schedule: Sequence[Piece],
        run_start: int,
        clock_base: int,
        control: Control,
        reconnects: bool = False,
        arrivals: tuple[int, int] | None = None,
    ) -> None: ...
    def share_of_none(self) -> Limits: ...
    def share(self, number: int, ends: int, control: Control) -> Limits: ...

class Course:
    interrupted: int
