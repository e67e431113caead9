from collections.abc import Sequence

from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.amqp.link import Endpoint
from quiver_fast.arrow.run.control import Control
from quiver_fast.arrow.run.course import Limits
from quiver_fast.records.writer import RecordWriter

class EndsLoop:
    line_count: int
    live: int
    transferred: int
    def __init__(
        self,
        writer: RecordWriter,
        limits: Limits,
        inner: Control,
        *,
        connections: int,
        links: int,
        sends: bool,
        first_number: int = 0,
        goal: int = 0,
        exact: bool = False,
        counts_turns: bool = False,
    ) -> None: ...
    def fileno(self) -> int: ...
    def add(self, connection: Connection, endpoints: Sequence[Endpoint]) -> None: ...
    def serve(self) -> None: ...
    def run(self) -> None: ...
    def close(self, *, ended: bool = False) -> None: ...
