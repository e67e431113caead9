from typing import Any

from quiver_fast.arrow.amqp.message_fields import MessageFields
from quiver_fast.arrow.run.sizes import Sizes
from quiver_fast.property_mix import PropertyMix

MAX_BODY_SIZE: int
MAX_STREAM_SIZE: int

class MessageTemplate:
    body_size: int
    streaming: bool
    size: int
    def __init__(
        self,
        body_size: int,
        *,
        with_id: bool = False,
        id_prefix: str = "",
        first_id: int = 1,
        streaming: bool = False,
        fields: MessageFields = ...,
        content: bytes | None = None,
        sizes: Sizes | None = None,
    ) -> None: ...
    def encode(self, send_time: int) -> bytes: ...

class MixedTemplate(MessageTemplate): ...

class ClassTemplate(MessageTemplate):
    def __init__(
        self,
        body_size: int,
        *,
        mix: PropertyMix,
        stream_values: list[str] | None = None,
        fields: MessageFields = ...,
        **words: Any,
    ) -> None: ...
