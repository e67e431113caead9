from quiver_fast.engine.connection import Connection
from quiver_fast.engine.receiver import Receiver
from quiver_fast.records.writer import RecordWriter
from quiver_fast.run.course import Limits

class ShapedReceiver(Receiver):
    def __init__(
        self,
        connection: Connection,
        writer: RecordWriter,
        limits: Limits,
        *,
        delay: int,
        receiving: int,
        pausing: int,
        address: str,
        name: str,
        credit_window: int,
        with_ids: bool = False,
        id_prefix: str = "",
        time_unit: str = "ms",
        transaction_size: int = 0,
        selector: str = "",
    ) -> None: ...
