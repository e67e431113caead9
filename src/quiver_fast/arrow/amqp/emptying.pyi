from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.amqp.receiver import Receiver
from quiver_fast.arrow.run.course import Limits
from quiver_fast.records.writer import RecordWriter

class EmptyingReceiver(Receiver): ...

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
