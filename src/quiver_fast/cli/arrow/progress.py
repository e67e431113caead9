"""The progress of a pair's run."""

from __future__ import annotations

import time

from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.shared.progress import Progress


class RunProgress:
    """Shows the progress of a pair's run towards its limit; called with each snapshot."""

    def __init__(self, progress: Progress, count: int, duration: int) -> None:
        """Begin now.

        Args:
            progress: where it is shown.
            count: messages to receive; 0 for no limit.
            duration: seconds to run, where there is no count; 0 for no limit.
        """
        self._progress = progress
        self._count = count
        self._duration = duration
        self._started = time.monotonic()

    def __call__(self, snapshots: dict[str, Snapshot]) -> None:
        """Show it as of ``snapshots``, by role."""
        receiver = snapshots.get("receiver")
        if self._count:
            self._progress.update(receiver.count if receiver else 0, self._count)
        elif self._duration:
            elapsed = min(int(time.monotonic() - self._started), self._duration)
            self._progress.update(elapsed, self._duration)
