from collections.abc import Sequence

from quiver_fast.arrow.run.control import Control
from quiver_fast.arrow.run.pacer import DelayHistogram, Pacer
from quiver_fast.rate_steps import Piece
from quiver_fast.records.writer import RecordWriter

class Limits:
    count: int
    duration_ns: int
    pacer: Pacer | None
    run_start_ms: int
    clock_base: int
    control: Control
    warnings: list[str]
    def __init__(
        self,
        *,
        count: int,
        duration: float,
        schedule: Sequence[Piece],
        run_start: int,
        clock_base: int,
        control: Control,
    ) -> None: ...
    def share_of_none(self) -> Limits: ...
    def share(self, number: int, ends: int, control: Control) -> Limits: ...

class Course:
    stopping: bool
    interrupted: int
    delays: DelayHistogram | None
    sending_ns: int | None
    def __init__(self, writer: RecordWriter, limits: Limits, time_unit: str) -> None: ...
