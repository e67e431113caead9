"""A wall clock without the steps of the system's clock.

It reads the wall clock once, and the monotonic clock from then on. Time synchronisation may set
the system's wall clock at any moment. The difference of two times of this clock is a duration.
"""

from __future__ import annotations

import time

# Read both clocks so often, and take the closest pair: the process may lose its CPU in between.
_READINGS = 3
# A smaller difference is no step. The system slews both clocks together.
_NO_STEP = 1_000_000


class WallClock:
    """The wall clock at its creation, and the monotonic clock from then on.

    Attributes:
        base: epoch time minus monotonic time, nanoseconds.
    """

    def __init__(self, base: int | None = None) -> None:
        """Begin at the present time, or with the ``base`` of another clock of this host."""
        self.base = wall_base() if base is None else base

    def now_ns(self) -> int:
        """Return epoch nanoseconds."""
        return time.monotonic_ns() + self.base

    def now_ms(self) -> int:
        """Return epoch milliseconds."""
        return self.now_ns() // 1_000_000


class StepWatch:
    """Watches how far the system's wall clock moves away from the clock of a run."""

    def __init__(self, base: int | None = None) -> None:
        """Begin to watch; ``base`` is the base of the run's clock, None for the present one."""
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
        """Return the differences that were seen; None if none was more than a millisecond.

        Keys: ``milliseconds``, the largest difference, negative if the clock was set back; and
        ``after_seconds``, the time of the first difference since the start of the watch.
        """
        if not self._largest:
            return None
        return {
            "milliseconds": round(self._largest / 1e6, 3),
            "after_seconds": round(self._after / 1e9, 3),
        }


def wall_base() -> int:
    """Return epoch time minus monotonic time, nanoseconds."""
    return min(_read_clocks() for _ in range(_READINGS))[1]


def _read_clocks() -> tuple[int, int]:
    """Return the time that it took to read both clocks, and their difference."""
    before, epoch, after = time.monotonic_ns(), time.time_ns(), time.monotonic_ns()
    return after - before, epoch - (before + after) // 2
