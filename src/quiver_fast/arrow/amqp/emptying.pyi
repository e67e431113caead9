from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.amqp.link import Endpoint
from quiver_fast.arrow.amqp.receiver import Receiver
from quiver_fast.arrow.run.course import Limits
from quiver_fast.records.writer import RecordWriter

class EmptyingReceiver(Receiver): ...

class Purger(Endpoint):
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
    def run(self) -> None: ...
