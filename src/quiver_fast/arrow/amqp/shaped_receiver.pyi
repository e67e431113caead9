from quiver_fast.arrow.amqp.receiver import Receiver
from quiver_fast.arrow.run.control import Control
from quiver_fast.receiving import Modify

class Outcomes:
    def __init__(
        self, control: Control, release: int, reject: int, modify: Modify, *, alone: bool
    ) -> None: ...

class ShapedReceiver(Receiver):
    def __init__(
        self,
        *arguments: object,
        delay: int,
        receiving: int,
        pausing: int,
        outcomes: Outcomes | None,
        **options: object,
    ) -> None: ...
