from quiver_fast.engine.connection import Connection
from quiver_fast.engine.course import Limits
from quiver_fast.engine.link import Endpoint
from quiver_fast.records.writer import RecordWriter

class Receiver(Endpoint):
    received: int
    aborted: int
    def __init__(
        self,
        connection: Connection,
        writer: RecordWriter,
        limits: Limits,
        *,
        address: str,
        name: str,
        credit_window: int,
        with_ids: bool = False,
        id_prefix: str = "",
        time_unit: str = "ms",
        transaction_size: int = 0,
    ) -> None: ...
    def run(self) -> None: ...
