"""The judge of costs: it finds what is wrong only.

Its decisions on a process that is imagined, whose clock, CPU and memory are the test's; that
it measures what there is on a small process whose costs are known.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.complexity import MIB, Bench, Cost, Operation, measure, serving
from support.measured import Figure

RATIO, WAIT, IDLE, KEPT, REST = (each.name for each in Cost(1, 4, 0, [], 0, 0, 0).figures())


@dataclass
class Imagined(Bench):
    """A process of which nothing is measured.

    Attributes:
        time: seconds that have passed.
        spent: seconds of CPU.
        held: bytes of memory.
        share: of a core that it always uses.
        lingers: seconds that it works on when its clients have gone.
        returns: whether it gives its memory back, half a second after that.
    """

    time: float = 0.0
    spent: float = 0.0
    held: int = 0
    share: float = 0.0
    lingers: float = 0.0
    returns: bool = False
    busy_until: float = 0.0
    closed_at: float = 0.0

    def now(self) -> float:
        return self.time

    def cpu(self) -> float:
        return self.spent

    def memory(self) -> int:
        if self.returns and self.time >= self.closed_at + 0.5:
            self.held = 0
        return self.held

    def rest(self, seconds: float) -> None:
        busy = min(max(self.busy_until - self.time, 0.0), seconds)
        self.spent += busy + self.share * (seconds - busy)
        self.time += seconds

    def work(self, seconds: float) -> None:
        self.spent += seconds
        self.time += seconds

    def close(self) -> None:
        self.closed_at = self.time
        self.busy_until = self.time + self.lingers


def linear(bench: Imagined, number: int) -> None:
    bench.work(number * 1e-5)


def sorting(bench: Imagined, number: int) -> None:
    bench.work(number * number.bit_length() * 1e-6)


def quadratic(bench: Imagined, number: int) -> None:
    bench.work(number * number * 1e-7)


def one_in_two(bench: Imagined, number: int) -> None:
    """Every other run is three times as dear: somebody else has the caches."""
    bench.work(number * 1e-5 * (3 if bench.runs % 2 else 1))


def cached(bench: Imagined, number: int) -> None:
    """Items beyond the size of the caches cost twice as much."""
    bench.work(number * 1e-5 * (2 if number > 400 else 1))


def keeping(bench: Imagined, number: int) -> None:
    linear(bench, number)
    bench.closed_at = bench.time
    bench.held += number * 60_000


def cost_of(run: Callable[[Imagined, int], None], watch: Any = None, **how: Any) -> Cost:
    """Have the judge measure an operation of an imagined process, 200 times and 800 times."""
    # An operation is given the bench that it is measured on.
    return measure(Imagined(0, watch=watch, **how), Operation(run.__name__, run, 200), 200)  # type: ignore[arg-type]


@pytest.mark.parametrize("run", [linear, sorting, one_in_two, cached])
def test_what_is_good(run: Callable[[Imagined, int], None]) -> None:
    assert cost_of(run).faults() == []


def test_memory_that_is_given_back() -> None:
    """Also what the smaller runs had, which were before."""
    cost = cost_of(keeping, returns=True)
    assert (cost.faults(), cost.peak) == ([], 800 * 60_000)
    assert cost.kept <= 0


@pytest.mark.parametrize(
    ("run", "how", "fault"),
    [
        (quadratic, {}, RATIO),
        (keeping, {}, KEPT),
        (linear, {"share": 0.015}, IDLE),
        (linear, {"lingers": 6.0}, REST),
    ],
    ids=["quadratic", "keeping", "not quite idle", "late to rest"],
)
def test_what_is_not(
    run: Callable[[Imagined, int], None], how: dict[str, float], fault: str
) -> None:
    assert cost_of(run, **how).faults() == [fault]


def test_quadratic() -> None:
    assert cost_of(quadratic).ratio == pytest.approx(16)


def test_never_idle() -> None:
    with pytest.raises(TimeoutError, match="never idle"):
        cost_of(linear, share=0.5)


# -- on a process

# Says `done` after the work of a line: a name and a number.
WORKER = """
import sys, threading

kept = []

def linear(n):
    sum(range(n * 1000))

def sorting(n):
    sum(range(n * 1000 * n.bit_length()))

def quadratic(n):
    sum(range(n * n * 20))

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


def cost_on_a_process(name: str, count: int = 200) -> Cost:
    with worker() as (bench, process):
        assert process.stdin is not None
        assert process.stdout is not None

        def run(_bench: Bench, number: int) -> None:
            process.stdin.write(f"{name} {number}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"

        return measure(bench, Operation(name, run, count), count)


@pytest.mark.measured
@pytest.mark.parametrize("name", ["linear", "sorting"])
def test_a_good_process(name: str, figure: Figure) -> None:
    for each in cost_on_a_process(name).figures():
        figure(each.name, each.value, at_most=each.at_most, unit=each.unit)


@pytest.mark.measured
def test_a_quadratic_process(figure: Figure) -> None:
    figure(RATIO, cost_on_a_process("quadratic").ratio, at_least=9)


@pytest.mark.measured
def test_a_process_that_keeps_memory(figure: Figure) -> None:
    """All of 46 MiB: more than it may."""
    cost = cost_on_a_process("keeping")
    figure(KEPT, cost.kept, at_least=cost.figures()[3].at_most, unit="B")


@pytest.mark.measured
def test_a_process_that_is_never_idle() -> None:
    with worker() as (bench, process):
        assert process.stdin is not None
        process.stdin.write("restless 1\n")
        process.stdin.flush()
        with pytest.raises(TimeoutError, match="never idle"):
            bench.wait_until_quiet(0.3)


# -- the limits

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
    assert cost_of(linear, watch=Watched(*trips)).faults() == [WAIT] * found


def test_a_bystander_watches_even_the_shortest_run(tmp_path: Path) -> None:
    """Nobody waits for a bystander that missed its stop."""
    with serving(tmp_path, None) as bench:
        assert bench.watch is not None
        for _ in range(100):
            bench.watch.start()
            assert isinstance(bench.watch.stop(), list)
