"""Measure messaging from Python: :func:`measure`, and :class:`Server` to measure against.

Both run the same programs as the commands, in processes of their own, so that a figure is the
same wherever it was asked for. ``docs/api.md`` has examples.
"""

from __future__ import annotations

from quiver_fast.api.measuring import Result, measure
from quiver_fast.api.server import Server
from quiver_fast.errors import QuiverError, UsageError

__all__ = ["QuiverError", "Result", "Server", "UsageError", "measure"]
