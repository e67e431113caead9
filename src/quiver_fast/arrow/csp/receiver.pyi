from quiver_fast.arrow.csp.channel import Channel
from quiver_fast.arrow.csp.endpoint import Endpoint
from quiver_fast.arrow.run.course import Limits
from quiver_fast.records.writer import RecordWriter

class Receiver(Endpoint):
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
