"""Messages of any size through the server; the reference is the same pair without one."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cases import STREAMS
from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.fragments import beside_streams, first_fragment
from bench.runner import Case, Command, Measured, await_ready, free_port, run_pair
from bench.through import our_server, run_through

pytestmark = [pytest.mark.timeout(900), pytest.mark.benchmark(timer=RATIO_CLOCK)]

FRAGMENTS = 2000
SMALL = 500
# Python clients take most of both: 88 and 5118 were measured on two busy cores.
FIRST_FRAGMENT_US = 150.0
BESIDE_US = 10000.0
# MB/s of bodies of 100 MB and more; skrouterd: 704. 4024 was measured, 1006 beside two busy loops.
LEAST_RATE = 800.0


@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=name, marks=[pytest.mark.full] * (name == "stream-10g"))
        for name, case in STREAMS.items()
    ],
)
def test_through_the_server(bench: Bench, arrow: Command, name: str, case: Case) -> None:
    megabyte = case.body_size / 1e6
    rates: list[float] = []

    def through() -> Figures:
        found = run_through(our_server, arrow, case)
        rates.append(found["rate"] * 1e3 * megabyte)
        return {
            "throughput": rates[-1],
            "stream_cpu": found["server_cpu"] / 1e6 / megabyte,
            "rss": found["server_rss"],
        }

    def direct() -> Figures:
        run = run_pair(arrow, arrow, case)
        return {"throughput": run.count * megabyte / run.elapsed, "stream_cpu": 0.0, "rss": 0.0}

    bench.interleave(name, "throughput", through, direct)
    if name != "stream-1m":
        assert statistics.median(rates) >= LEAST_RATE


def test_first_fragment() -> None:
    """From the sender's first bytes to the receiver, the clients' own work included."""
    assert on_a_server(first_fragment, FRAGMENTS) <= FIRST_FRAGMENT_US


def test_small_messages_beside_streams() -> None:
    """Eight streams run on other connections of the same server; none is waited for."""
    assert on_a_server(beside_streams, SMALL) <= BESIDE_US


def on_a_server(measure: Callable[[int, int], float], count: int) -> float:
    """Measure on a server of its own."""
    port = free_port()
    server = Measured(our_server(port), Path("/dev/null"))
    try:
        await_ready(server, port)
        return measure(port, count)
    finally:
        server.close()
