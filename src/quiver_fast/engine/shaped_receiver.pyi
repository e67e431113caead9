from quiver_fast.engine.connection import Connection
from quiver_fast.engine.receiver import Receiver
from quiver_fast.records.writer import RecordWriter
from quiver_fast.run.control import Control
from quiver_fast.run.course import Limits

class Outcomes:
    def __init__(self, control: Control, release: int, reject: int) -> None: ...

class ShapedReceiver(Receiver):
    released: int
    rejected: int
    def __init__(
        self,
        connection: Connection,
        writer: RecordWriter,
        limits: Limits,
        *,
        delay: int,
        receiving: int,
        pausing: int,
        outcomes: Outcomes | None,
        address: str,
        name: str,
        credit_window: int,
        with_ids: bool = False,
        id_prefix: str = "",
        time_unit: str = "ms",
        transaction_size: int = 0,
        selector: str = "",
    ) -> None: ...
