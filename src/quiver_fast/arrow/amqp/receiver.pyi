from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.amqp.link import Endpoint
from quiver_fast.arrow.amqp.source_filters import SourceFilters
from quiver_fast.arrow.run.course import Limits
from quiver_fast.records.writer import RecordWriter

class Receiver(Endpoint):
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
        filters: SourceFilters | None = None,
    ) -> None: ...
    def run(self) -> None: ...
