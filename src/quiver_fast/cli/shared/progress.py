"""Progress of long work, on terminals only."""

from __future__ import annotations

import sys
import time

_PATIENCE = 1.0
_INTERVAL = 0.2


class Progress:
    """A line on standard error that appears when work takes more than a second."""

    def __init__(self, label: str, enabled: bool = True) -> None:
        self._label = label
        self._enabled = enabled and sys.stderr.isatty()
        self._next = time.monotonic() + _PATIENCE
        self._shown = False

    def update(self, done: int, total: int) -> None:
        """Show that ``done`` of ``total`` units of work are done, if it is time to."""
        now = time.monotonic()
        if not self._enabled or now < self._next or total <= 0:
            return
        self._next, self._shown = now + _INTERVAL, True
        print(f"\r{self._label}: {100 * done // total:3d} %", end="", file=sys.stderr, flush=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._shown:
            # Erase the line: the next text takes its place.
            print("\r\033[K", end="", file=sys.stderr, flush=True)
