"""The judge of costs, on a small process whose costs are known: it finds what is wrong only."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.complexity import MIB, Bench, Cost, Operation, measure, serving

# Says `done` after the work of a line: a name and a number.
WORKER = """
import sys, threading

kept, runs = [], 0

def linear(n):
    sum(range(n * 1000))

def sorting(n):
    sum(range(n * 1000 * n.bit_length()))

def quadratic(n):
    sum(range(n * n * 20))

def one_in_two(n):
    # Every other run is three times as dear: somebody else has the caches.
    global runs
    runs += 1
    sum(range(n * 1000 * (3 if runs % 2 else 1)))

def cached(n):
    # What is more than the caches hold costs twice as much.
    sum(range(n * 1000 * (2 if n > 400 else 1)))

def keeping(n):
    linear(n)
    kept.append(bytearray(n * 60_000))

def restless(n):
    linear(n)
    threading.Thread(target=lambda: [linear(100) for _ in iter(int, 1)], daemon=True).start()

for line in sys.stdin:
    name, number = line.split()
    globals()[name](int(number))
    print("done", flush=True)
"""


@contextlib.contextmanager
def worker() -> Iterator[tuple[Bench, subprocess.Popen[str]]]:
    words = [sys.executable, "-c", WORKER]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Bench(process.pid), process
        process.kill()


def faults(name: str, count: int = 200, watch: Any = None) -> list[str]:
    with worker() as (bench, process):
        bench.watch = watch
        assert process.stdin is not None
        assert process.stdout is not None

        def run(_bench: Bench, number: int) -> None:
            process.stdin.write(f"{name} {number}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"

        return measure(bench, Operation(name, run, count), count).faults()


@pytest.mark.parametrize("name", ["linear", "sorting", "one_in_two", "cached"])
def test_what_is_good(name: str) -> None:
    assert faults(name) == []


def test_quadratic() -> None:
    (fault,) = faults("quadratic")
    assert "times as much as N" in fault
    assert float(fault.split()[3]) > 9


def test_memory_that_is_kept() -> None:
    (fault,) = faults("keeping")
    assert fault.endswith("bytes are kept")


def test_never_idle() -> None:
    with worker() as (bench, process):
        assert process.stdin is not None
        process.stdin.write("restless 1\n")
        process.stdin.flush()
        with pytest.raises(TimeoutError, match="never idle"):
            bench.wait_until_quiet(0.3)


GOOD = Cost(0.02, 0.08, 0.0, [(1.0, 1.0)], 0, 0, 0.1)


def test_each_limit() -> None:
    assert GOOD.faults() == []
    assert len(GOOD._replace(large=0.13).faults()) == 1
    assert len(GOOD._replace(large=0.13, larger=1.3).faults()) == 1
    assert GOOD._replace(large=0.13, larger=0.6).faults() == []
    assert len(GOOD._replace(idle=0.02).faults()) == 1
    assert len(GOOD._replace(trips=[(60.0, 51.0)]).faults()) == 1
    # Of the clock alone: others had the cores.
    assert GOOD._replace(trips=[(600.0, 1.0)]).faults() == []
    assert len(GOOD._replace(kept=40 * MIB, peak=80 * MIB).faults()) == 1
    assert GOOD._replace(kept=40 * MIB, peak=200 * MIB).faults() == []
    assert len(GOOD._replace(to_idle=6.0).faults()) == 1


class Watched:
    """A bystander whose round trips are known."""

    def __init__(self, *trips: float) -> None:
        self.trips = list(trips)

    def start(self) -> None:
        pass

    def stop(self) -> list[tuple[float, float]]:
        milliseconds = self.trips.pop(0)
        return [(milliseconds, milliseconds)]


@pytest.mark.parametrize(
    ("trips", "found"), [((60, 1), 0), ((60, 70, 80, 1), 0), ((60, 70, 80, 90), 1)]
)
def test_a_bystander_that_waits_each_time(trips: tuple[float, ...], found: int) -> None:
    assert len(faults("linear", watch=Watched(*trips))) == found


def test_a_bystander_watches_even_the_shortest_run(tmp_path: Path) -> None:
    """Nobody waits for a bystander that missed its stop."""
    with serving(tmp_path, None) as bench:
        assert bench.watch is not None
        for _ in range(100):
            bench.watch.start()
            assert isinstance(bench.watch.stop(), list)
