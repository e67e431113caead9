MAX_BODY_SIZE: int
MAX_STREAM_SIZE: int

class MessageTemplate:
    body_size: int
    durable: bool
    with_id: bool
    streaming: bool
    size: int
    def __init__(
        self,
        body_size: int,
        *,
        durable: bool = False,
        with_id: bool = False,
        id_prefix: str = "",
        streaming: bool = False,
    ) -> None: ...
    def encode(self, send_time: int) -> bytes: ...
