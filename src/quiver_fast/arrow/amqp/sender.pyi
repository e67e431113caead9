from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.amqp.link import Endpoint
from quiver_fast.arrow.amqp.template import MessageTemplate
from quiver_fast.arrow.run.course import Limits
from quiver_fast.records.writer import RecordWriter

class Sender(Endpoint):
    def __init__(
        self,
        connection: Connection,
        writer: RecordWriter,
        limits: Limits,
        *,
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
    def run(self) -> None: ...
    def conclude(self) -> None: ...

class BacklogSender(Sender):
    def __init__(self, *arguments: object, backlog: int, **options: object) -> None: ...
