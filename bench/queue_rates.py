"""Rates of queue files in this process: append, read, seek, open after a crash.

    python -m bench.queue_rates [DIRECTORY]

The directory, on a local file system, takes up to 1.2 GB; by default it is a temporary
one. bench/test_queues.py gates the same figures.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records
from quiver_fast.queuefile.tailer import Tailer

BLOCK = 50_000  # entries of one call
ROUNDS = 3
SEEKS = 100_000
LARGE_BYTES = 1 << 30


def seconds(action: Callable[[], object]) -> float:
    """Return how long an action takes."""
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def fill(appender: Appender, size: int, count: int) -> None:
    """Append ``count`` entries of ``size`` bytes."""
    block = b"x" * size * min(count, BLOCK)
    for _ in range(count // BLOCK or 1):
        append_records(appender, block, size)


def append_rate(directory: Path, size: int, count: int) -> float:
    """Return entries per second into a new queue."""
    with tempfile.TemporaryDirectory(dir=directory) as place, Appender(place) as appender:
        return count / seconds(lambda: fill(appender, size, count))


def read_rate(directory: Path, count: int) -> float:
    """Return entries per second of a tailer that reads only headers."""
    return count / seconds(lambda: Tailer(directory).skip(count))


def seek_seconds(tailer: Tailer, first: int, count: int) -> float:
    """Return the mean of random seeks in a file that is in memory and mapped."""
    places = [first + random.randrange(count) for _ in range(SEEKS)]

    def seek() -> None:
        for place in places:
            tailer.move_to(place)

    return seconds(seek) / SEEKS


def leave_killed(directory: Path, size: int, count: int) -> None:
    """Leave a queue in the state after a kill of its writer."""
    child = os.fork()
    if child == 0:
        fill(Appender(directory), size, count)
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def open_seconds(directory: Path) -> tuple[float, float]:
    """Return how long opening takes after a kill, and then after an orderly stop."""
    times = []
    for _ in range(2):
        started = time.perf_counter()
        appender = Appender(directory)
        times.append(time.perf_counter() - started)
        appender.close()
    return times[0], times[1]


def best(measure: Callable[[], float]) -> float:
    """Return the highest of some rounds."""
    return max(measure() for _ in range(ROUNDS))


def main(directory: Path) -> None:
    """Measure and print everything."""
    for size, count in ((40, 5_000_000), (96, 3_000_000), (1000, 500_000)):
        rate = best(lambda size=size, count=count: append_rate(directory, size, count))
        print(f"append {size:>5} bytes  {rate / 1e6:>8.2f} M/s")
    count = 10_000_000
    with tempfile.TemporaryDirectory(dir=directory) as place, Appender(place) as appender:
        fill(appender, 40, count)
        print(f"read headers        {best(lambda: read_rate(Path(place), count)) / 1e6:>8.2f} M/s")
        tailer = Tailer(place)
        tailer.skip(count)
        spent = min(seek_seconds(tailer, appender.bounds[0], count) for _ in range(ROUNDS))
        print(f"seek in {count // 1_000_000} M entries {spent * 1e6:>8.2f} us")
    with tempfile.TemporaryDirectory(dir=directory) as place:
        leave_killed(Path(place), 1000, LARGE_BYTES // 1000)
        killed, stopped = open_seconds(Path(place))
        print(f"open 1 GB, killed   {killed * 1e3:>8.1f} ms")
        print(f"open 1 GB, stopped  {stopped * 1e3:>8.1f} ms")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else None) as scratch:
        main(Path(scratch))
