from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.run.course import Course, Limits
from quiver_fast.records.writer import RecordWriter

class Endpoint(Course):
    address: str
    name: str
    transactions: int
    number: int
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
    def begin_attach(self, *, passive: bool) -> None: ...
    def check_end(self) -> None: ...
    def be_one_of_many(self, number: int) -> None: ...
    def try_attach(self, *, passive: bool) -> bool: ...
