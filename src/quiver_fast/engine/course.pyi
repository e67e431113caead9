from quiver_fast.records.writer import RecordWriter

class Limits:
    count: int
    duration_ns: int
    rate: int
    def __init__(self, *, count: int = 0, duration: float = 0, rate: int = 0) -> None: ...

class Course:
    stopping: bool
    interrupted: int
    def __init__(self, writer: RecordWriter, limits: Limits, time_unit: str) -> None: ...
