from quiver_fast.engine.connection import Connection
from quiver_fast.records.writer import RecordWriter

class Limits:
    count: int
    duration_ns: int
    rate: int
    def __init__(self, *, count: int = 0, duration: float = 0, rate: int = 0) -> None: ...

class Endpoint:
    address: str
    name: str
    stopping: bool
    interrupted: int
    transactions: int
    def __init__(
        self,
        connection: Connection,
        writer: RecordWriter,
        limits: Limits,
        *,
        address: str,
        name: str,
        time_unit: str,
        transaction_size: int,
    ) -> None: ...
    def attach(self, *, passive: bool, timeout: float) -> None: ...
