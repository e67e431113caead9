"""How the ends of a run are spread over processes: each process has a part of one side's ends."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from quiver_fast.cli.arrow.plan import EndsPart


def usable_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def share_of(total: int, part: EndsPart, ends: int) -> int:
    """Return the share of ``total`` of a part of all ends; all shares add up to ``total``."""
    return total * (part.first + part.count) // ends - total * part.first // ends


def halves_of(processes: int, senders: int, receivers: int, *, alike: bool) -> tuple[int, int]:
    """Return how many processes senders and receivers get: half each, at least one.

    Args:
        processes: for both together.
        senders: how many there are; more processes than that are of no use.
        receivers: likewise.
        alike: each side gets as many as the other.
    """
    half = max(1, processes // 2)
    if alike:
        return half, half
    # One side gets the processes that the other side cannot use.
    for_senders = min(senders, half)
    for_receivers = min(receivers, max(1, processes - for_senders))
    return min(senders, max(1, processes - for_receivers)), for_receivers


def parts_of(ends: int, processes: int, queues: int) -> list[EndsPart]:
    """Spread ends over processes: neighbours stay together, and parts differ by one at most."""
    processes = min(ends, processes)
    firsts = [number * ends // processes for number in range(processes + 1)]
    return [EndsPart(first, following - first, queues) for first, following in pairwise(firsts)]


@dataclass(frozen=True)
class Processes:
    """The processes of both sides.

    Attributes:
        senders: each one's part of the senders; None where each sender is a process.
        receivers: likewise.
    """

    senders: Sequence[EndsPart] | None = None
    receivers: Sequence[EndsPart] | None = None

    def side(self, operation: str) -> Sequence[EndsPart] | None:
        """Return the parts of the senders, or of the receivers."""
        return self.senders if operation == "send" else self.receivers

    @property
    def any(self) -> bool:
        """Whether some process has several ends."""
        return self.senders is not None or self.receivers is not None
