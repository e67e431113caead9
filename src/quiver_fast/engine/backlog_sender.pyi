from quiver_fast.engine.connection import Connection
from quiver_fast.engine.sender import Sender
from quiver_fast.engine.template import MessageTemplate
from quiver_fast.records.writer import RecordWriter
from quiver_fast.run.course import Limits

class BacklogSender(Sender):
    def __init__(
        self,
        connection: Connection,
        writer: RecordWriter,
        limits: Limits,
        *,
        backlog: int,
        address: str,
        name: str,
        template: MessageTemplate,
        with_ids: bool = False,
        settlement: bool = False,
        presettled: bool = False,
        exact: bool = False,
        time_unit: str = "ms",
        transaction_size: int = 0,
        asked_silence: float = 0,
    ) -> None: ...
