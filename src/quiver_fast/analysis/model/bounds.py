"""What a reckoning needs to know of a run besides its records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["NOTHING_KNOWN", "RunBounds"]


@dataclass(frozen=True)
class RunBounds:
    """What was asked of a run, and how it ended.

    Attributes:
        run_start: epoch milliseconds before which no message of the run was sent; None
            where that is not known.
        duration: seconds after which the sender was to stop; 0 for none.
        count: messages after which it was to stop; 0 for none.
        credit_window: the receiver's, in messages.
        complete: whether both ends ended in order; None where that is not known.
        queue_empty: whether the receiver read the queue to its end; None likewise.
        peer_to_peer: whether no server was between the ends; None likewise.
        warmup: seconds from the first message that are in no figure; 0 for none.
    """

    run_start: int | None = None
    duration: float = 0
    count: int = 0
    credit_window: int = 0
    complete: bool | None = None
    queue_empty: bool | None = None
    peer_to_peer: bool | None = None
    warmup: float = 0

    @classmethod
    def of(cls, sender: dict[str, Any] | None, receiver: dict[str, Any] | None) -> RunBounds:
        """Return what the summaries of a run's ends know.

        Args:
            sender: the sender's summary, or at least its ``config``, ``complete`` and
                ``arrow``; any of them, and the whole, may be None.
            receiver: the receiver's likewise.
        """
        send, receive = _config(sender), _config(receiver)
        flags = [None if end is None else end.get("complete") for end in (sender, receiver)]
        report = (receiver or {}).get("arrow") or {}
        mode = receive.get("connection_mode")
        return cls(
            run_start=receive.get("run_start"),
            duration=send.get("duration") or 0,
            count=send.get("count") or 0,
            credit_window=receive.get("credit_window") or 0,
            complete=False if False in flags else None if None in flags else True,
            queue_empty=report.get("queue_empty"),
            peer_to_peer=None if mode is None else mode == "server",
            warmup=send.get("warmup") or receive.get("warmup") or 0,
        )

    @property
    def read_to_end(self) -> bool:
        """Whether nothing can still come: what was not received then is lost."""
        return self.queue_empty is True or (self.peer_to_peer is True and self.complete is True)


def _config(summary: dict[str, Any] | None) -> dict[str, Any]:
    return (summary or {}).get("config") or {}


NOTHING_KNOWN = RunBounds()
"""The bounds of records without a wrapper's summary."""
