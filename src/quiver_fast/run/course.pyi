from quiver_fast.records.writer import RecordWriter
from quiver_fast.run.control import Control

class Limits:
    count: int
    duration_ns: int
    rate: int
    run_start_ms: int
    control: Control
    def __init__(
        self,
        *,
        count: int,
        duration: float,
        rate: int,
        run_start: int,
        control: Control,
    ) -> None: ...

class Course:
    stopping: bool
    interrupted: int
    def __init__(self, writer: RecordWriter, limits: Limits, time_unit: str) -> None: ...
