"""Latency of single appends by a schedule: do the files cause a tail of round trips?

    python -m bench.append_latency [DIRECTORY]

Prints percentiles, in microseconds, of single appends of 160 bytes at 50,000 per second,
and of copies of as many bytes in memory by the same schedule: the machine causes the tail
of the copies.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.comparison import Figures
from quiver_fast.queuefile.appender import Appender

RATE = 50_000
SIZE = 160
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9}


def paced(action: Callable[[int], object], count: int) -> Figures:
    """Call ``action`` with 0, 1, ... by the schedule; return percentiles of a call."""
    spent = np.zeros(count, dtype=np.int64)
    clock = time.perf_counter_ns
    gc.disable()
    try:
        start = clock()
        for i in range(count):
            while clock() < start + i * 1_000_000_000 // RATE:
                pass
            before = clock()
            action(i)
            spent[i] = clock() - before
    finally:
        gc.enable()
    return {name: float(np.percentile(spent, p)) / 1e3 for name, p in PERCENTILES.items()}


def appends(directory: Path, count: int) -> Figures:
    """Append to a new queue."""
    text = "x" * SIZE
    with tempfile.TemporaryDirectory(dir=directory) as place, Appender(place) as appender:
        return paced(lambda _: appender.append_text(text), count)


def copies(count: int) -> Figures:
    """Copy into memory that is mapped."""
    target = bytearray(SIZE * count)
    value = b"x" * SIZE

    def copy(i: int) -> None:
        target[i * SIZE : (i + 1) * SIZE] = value

    return paced(copy, count)


def main(directory: Path) -> None:
    """Measure both, alternately, and print them."""
    for _ in range(3):
        for name, figures in (("append", appends(directory, RATE)), ("copy", copies(RATE))):
            listed = "  ".join(f"{key} {value:>8.2f}" for key, value in figures.items())
            print(f"{name:<8} {listed}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as scratch:
        main(Path(scratch))
