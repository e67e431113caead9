"""The progress of a pair's run towards its limit."""

from __future__ import annotations

import time
from dataclasses import dataclass

from quiver_fast.analysis.model.units import short_text
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.shared.progress import Progress


@dataclass(frozen=True)
class Limits:
    """The limits of a run: messages to receive, or else seconds; 0 for none."""

    count: int
    duration: int

    def done(self, received: int, elapsed: float) -> tuple[float, int]:
        """Return how much is done, and of how much; without a limit nothing of 0."""
        if self.count:
            return min(received, self.count), self.count
        return min(elapsed, self.duration), self.duration

    def progress(self, received: int, elapsed: float) -> tuple[float, str]:
        """Return the part that is done, from 0 to 1, and the words for it.

        Args:
            received: messages so far.
            elapsed: seconds so far.
        """
        done, total = self.done(received, elapsed)
        if not total:
            return 0, f"{elapsed:.0f} s"
        words = f"{done:.0f} s of {total} s"
        if self.count:
            noun = "message" if total == 1 else "messages"
            words = f"{short_text(received)} of {short_text(total)} {noun}"
        return done / total, words


class RunProgress:
    """Shows the progress of a pair's run; called with each snapshot."""

    def __init__(self, progress: Progress, limits: Limits) -> None:
        """Begin now; ``progress`` is where it is shown."""
        self._progress, self._limits = progress, limits
        self._started = time.monotonic()

    def __call__(self, snapshots: dict[str, Snapshot]) -> None:
        """Show it as of ``snapshots``, by role."""
        receiver = snapshots.get("receiver")
        received = receiver.count if receiver else 0
        done, total = self._limits.done(received, time.monotonic() - self._started)
        self._progress.update(int(done), total)
