"""A wall clock that no step of the system's clock reaches.

It is the wall clock of one moment, and the monotonic clock since. Time synchronisation may set the
system's wall clock at any moment; the difference of two times by this clock stays a duration.
"""

from __future__ import annotations

import time

# A reader of two clocks may lose its CPU between them.
_READINGS = 3
# Both clocks run alike: the system slews them together.
_NO_STEP = 1_000_000


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


class StepWatch:
    """Watches how far the system's wall clock goes from that of a run."""

    def __init__(self, base: int | None = None) -> None:
        """Begin to watch; ``base`` is that of the run's clock, None for the present one."""
        self._base = wall_base() if base is None else base
        self._begin = time.monotonic_ns()
        self._largest = 0
        self._after = 0

    def look(self) -> None:
        """Read the system's clock."""
        step = wall_base() - self._base
        if abs(step) > max(abs(self._largest), _NO_STEP):
            self._after = self._after or time.monotonic_ns() - self._begin
            self._largest = step

    def section(self) -> dict[str, float] | None:
        """Return what was seen; None of a clock that kept to a millisecond.

        Its keys: ``milliseconds``, the largest difference that was seen, negative of a clock that
        was set back; and ``after_seconds``, when the first difference was seen.
        """
        if not self._largest:
            return None
        return {
            "milliseconds": round(self._largest / 1e6, 3),
            "after_seconds": round(self._after / 1e9, 3),
        }


def wall_base() -> int:
    """Return by how much the system's wall clock is ahead of the monotonic one, nanoseconds."""
    return min(_read_clocks() for _ in range(_READINGS))[1]


def _read_clocks() -> tuple[int, int]:
    """Return how long the reading of both clocks took, and by how much they differ."""
    before, epoch, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return after - before, epoch - (before + after) // 2
