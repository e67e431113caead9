"""Measure messaging from Python: :func:`measure`, and :class:`Server` to measure against.

Both run the programs of the commands in processes of their own, so Python and the commands
measure the same figures. ``docs/api.md`` has examples.
"""

from __future__ import annotations

from quiver_fast.api.measuring import Result, measure
from quiver_fast.api.server import Server
from quiver_fast.errors import QuiverError, UsageError

__all__ = ["QuiverError", "Result", "Server", "UsageError", "measure"]
