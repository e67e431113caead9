from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.amqp.receiver import Receiver
from quiver_fast.arrow.run.course import Limits
from quiver_fast.records.writer import RecordWriter

class Subscriber(Receiver):
    def __init__(
        self,
        connection: Connection,
        writer: RecordWriter,
        limits: Limits,
        *,
        keep: bool,
        **options: object,
    ) -> None: ...
