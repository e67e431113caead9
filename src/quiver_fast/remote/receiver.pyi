from quiver_fast.engine.course import Course, Limits
from quiver_fast.records.writer import RecordWriter
from quiver_fast.remote.channel import Channel

class Receiver(Course):
    queue: str
    received: int
    foreign: int
    def __init__(
        self,
        channel: Channel,
        writer: RecordWriter,
        limits: Limits,
        *,
        queue: str,
        window: int,
        id_prefix: str = "",
        with_ids: bool = False,
        from_end: bool = False,
        time_unit: str = "ms",
    ) -> None: ...
    def attach(self, timeout: float) -> None: ...
    def run(self) -> None: ...
    def transfer(self, timeout: float) -> None: ...
