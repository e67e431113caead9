from quiver_fast.engine.connection import Connection
from quiver_fast.records.writer import RecordWriter
from quiver_fast.run.course import Limits

class Purger:
    interrupted: int
    purged: int
    queue_empty: bool | None
    def __init__(
        self,
        connection: Connection,
        writer: RecordWriter,
        limits: Limits,
        *,
        address: str,
        name: str,
        credit_window: int,
    ) -> None: ...
    def attach(self, *, passive: bool, timeout: float) -> None: ...
    def run(self) -> None: ...
