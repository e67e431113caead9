"""The views of a peer that are in use, so that all of them can be ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from quiver_fast.conform.case import Unobservable


class Views:
    """Views, each of which has ``abort``.

    Attributes:
        over: whether they were ended; a view that is added later is ended at once.
    """

    def __init__(self) -> None:
        self.over = False
        self._used = set[Any]()
        self._lock = threading.Lock()

    def add(self, view: Any) -> None:
        """Add a view that begins."""
        with self._lock:
            self._used.add(view)
        if self.over:
            view.abort()

    def remove(self, view: Any) -> None:
        """Forget a view that was closed."""
        with self._lock:
            self._used.discard(view)

    def abort(self) -> None:
        """End all views."""
        self.over = True
        with self._lock:
            used = list(self._used)
        for view in used:
            view.abort()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """End all views when the time is over.

        Raises:
            Unobservable: it was.
        """
        limit = threading.Timer(seconds, self.abort)
        limit.start()
        try:
            yield
        finally:
            limit.cancel()
            if self.over:
                raise Unobservable(f"the first questions took more than {seconds:g} s")
