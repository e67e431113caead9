from quiver_fast.engine.course import Course, Limits
from quiver_fast.engine.pacer import DelayHistogram
from quiver_fast.records.writer import RecordWriter
from quiver_fast.remote.channel import Channel

class Sender(Course):
    delays: DelayHistogram | None
    queue: str
    sent: int
    settled: int
    unsettled: int
    accepted: int
    rejected: int
    first_refusal: str
    def __init__(
        self,
        channel: Channel,
        writer: RecordWriter,
        limits: Limits,
        *,
        queue: str,
        body_size: int,
        window: int,
        id_prefix: str = "",
        with_ids: bool = False,
        settlement: bool = False,
        time_unit: str = "ms",
    ) -> None: ...
    def attach(self, timeout: float) -> None: ...
    def run(self) -> None: ...
    def transfer(self, timeout: float) -> None: ...

def cid_of(reply: bytes, peer: str) -> int: ...
