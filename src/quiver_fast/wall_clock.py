"""A wall clock that no step of the system's clock reaches.

It is the wall clock of one moment, and the monotonic clock since. Time synchronisation may set the
system's wall clock at any moment; the difference of two times by this clock stays a duration.
"""

from __future__ import annotations

import time

__all__ = ["WallClock", "wall_base"]

# A reader of two clocks may lose its CPU between them.
_READINGS = 3


class WallClock:
    """The wall clock of the moment of its creation, and the monotonic clock since.

    Attributes:
        base: what is added to a time of the monotonic clock to get epoch time, nanoseconds.
    """

    def __init__(self, base: int | None = None) -> None:
        """Begin at the present time, or go on with the ``base`` of another clock of this host."""
        self.base = wall_base() if base is None else base

    def now_ns(self) -> int:
        """Return epoch nanoseconds."""
        return time.monotonic_ns() + self.base

    def now_ms(self) -> int:
        """Return epoch milliseconds."""
        return self.now_ns() // 1_000_000


def wall_base() -> int:
    """Return by how much the system's wall clock is ahead of the monotonic one, nanoseconds."""
    return min(_read_clocks() for _ in range(_READINGS))[1]


def _read_clocks() -> tuple[int, int]:
    """Return how long the reading of both clocks took, and by how much they differ."""
    before, epoch, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return after - before, epoch - (before + after) // 2
