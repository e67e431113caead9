"""Measure messaging from Python: :func:`measure`, and :class:`Server` to measure against.

Both run the programs of the commands in processes of their own, so Python and the commands
measure the same figures. ``docs/api.md`` has examples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quiver_fast.errors import QuiverError, UsageError

__all__ = [
    "QuiverError", "Result", "Runs", "Server", "UsageError", "measure", "measure_async",
]  # fmt: skip

if TYPE_CHECKING:
    from quiver_fast.api.measuring import measure, measure_async
    from quiver_fast.api.results import Result, Runs
    from quiver_fast.api.server import Server
else:

    def __getattr__(name: str) -> object:
        """Import a name at its first use, because pytest imports this package at each start."""
        import importlib

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        part = {"Server": "server"}.get(name, "measuring")
        return getattr(importlib.import_module(f"{__name__}.{part}"), name)
