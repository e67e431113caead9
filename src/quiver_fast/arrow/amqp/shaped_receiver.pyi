from quiver_fast.arrow.amqp.receiver import Receiver
from quiver_fast.arrow.run.control import Control

class Outcomes:
    def __init__(self, control: Control, release: int, reject: int) -> None: ...

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
