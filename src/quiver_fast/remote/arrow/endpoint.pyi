from typing import Any

from quiver_fast.records.writer import RecordWriter
from quiver_fast.remote.arrow.channel import Channel
from quiver_fast.run.course import Course, Limits

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
