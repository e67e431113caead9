"""The reason why an attach is refused."""

from __future__ import annotations

from quiver_fast.errors import QuiverError


class Refusal(QuiverError):  # noqa: N818
    """An attach that is refused: the AMQP condition and a description."""

    def __init__(self, condition: bytes, why: str) -> None:
        super().__init__(why)
        self.condition = condition
