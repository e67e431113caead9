"""The entry points of the commands. Each imports its command when it is called."""

from __future__ import annotations

import os
import signal
from importlib import import_module
from types import FrameType

from quiver_fast.errors import EXIT_INTERRUPTED

__all__ = ["analyze", "arrow", "bench", "fleet", "pair", "queue", "server"]


def analyze() -> int:
    """Run `quiver-analyze` and return its exit code."""
    return _run("analyze")


def arrow() -> int:
    """Run `quiver-arrow`."""
    return _run("arrow")


def bench() -> int:
    """Run `quiver-bench`."""
    return _run("bench")


def fleet() -> int:
    """Run `quiver-fleet`."""
    return _run("fleet")


def pair() -> int:
    """Run `quiver`."""
    return _run("pair")


def queue() -> int:
    """Run `quiver-queue`."""
    return _run("queue")


def server() -> int:
    """Run `quiver-server`."""
    return _run("server")


def _run(module: str) -> int:
    # A command that is interrupted during its imports has nothing to save or report. A signal that
    # is ignored, as in a shell's background, stays ignored.
    watched = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if watched:
        signal.signal(signal.SIGINT, _leave)
    main = import_module(f"quiver_fast.cli.{module}.command").main
    try:
        if watched:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code: int = main()
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return code


def _leave(_signal: int, _frame: FrameType | None) -> None:
    os._exit(EXIT_INTERRUPTED)
