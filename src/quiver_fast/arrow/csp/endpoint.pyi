from typing import Any

from quiver_fast.arrow.csp.channel import Channel
from quiver_fast.arrow.run.course import Course, Limits
from quiver_fast.records.writer import RecordWriter

class Endpoint(Course):
    queue: str
    def __init__(
        self,
        channel: Channel,
        writer: RecordWriter,
        limits: Limits,
        *,
        queue: str,
        id_prefix: str,
        with_ids: bool,
        time_unit: str,
    ) -> None: ...
    def attach(self, timeout: float) -> None: ...
    def run(self) -> None: ...
    def transfer(self, timeout: float) -> None: ...
    def identity(self) -> dict[str, Any]: ...
