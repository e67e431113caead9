"""The end of a process that this package started, whatever interrupts the wait for it."""

from __future__ import annotations

from quiver_fast.process import Child


def end(child: Child) -> None:
    """End a child in order; a second Ctrl-C kills it, so that none is left behind."""
    try:
        child.end()
    except BaseException:
        child.kill_and_wait()
        raise
