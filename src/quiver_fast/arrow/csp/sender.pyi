from quiver_fast.arrow.csp.channel import Channel
from quiver_fast.arrow.csp.endpoint import Endpoint
from quiver_fast.arrow.run.course import Limits
from quiver_fast.arrow.run.sizes import Sizes
from quiver_fast.records.writer import RecordWriter

class Sender(Endpoint):
    def __init__(
        self,
        channel: Channel,
        writer: RecordWriter,
        limits: Limits,
        *,
        queue: str,
        body: bytes,
        window: int,
        id_prefix: str = "",
        with_ids: bool = False,
        settlement: bool = False,
        time_unit: str = "ms",
    ) -> None: ...

class MixedSender(Sender):
    def __init__(self, *args: object, sizes: Sizes, **words: object) -> None: ...
