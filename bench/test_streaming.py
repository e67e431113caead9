"""Messages of any size through the server; the reference is the same pair without one."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from bench.cases import REACH, STREAMS
from bench.comparison import Figures
from bench.conftest import RATIO_CLOCK, Bench
from bench.fragments import (
    beside_streams,
    death_of_receivers,
    death_of_senders,
    first_fragment,
    later_fragments,
)
from bench.reference.build import References
from bench.runner import Case, Command, Measured, await_ready, free_port, run_pair
from bench.tcp import copy_of
from bench.through import our_server, run_through, run_trunk

T = TypeVar("T")

pytestmark = [pytest.mark.timeout(900), pytest.mark.benchmark(timer=RATIO_CLOCK)]

FRAGMENTS = 2000
LATER_FRAGMENTS = 200
DEATHS = 100
SMALL = 3000
# The Python clients take most of these times: 37 to 62, 33 to 53 and 26 to 71 were measured.
FIRST_FRAGMENT_US = 150.0
LATER_FRAGMENT_US = 150.0
DEATH_US = 5000.0
# Arrows: 822 to 2694 were measured, beside streams of 3.4 to 6.5 GB/s.
BESIDE_US = 5000.0
# MB/s of all eight streams, to show that they run.
BESIDE_RATE = 100.0
# MB/s of bodies of 100 MB and more; skrouterd: 704. 6400 was measured.
LEAST_RATE = 800.0
# Through two servers: four processes have two cores.
LEAST_TRUNK_RATE = 400.0


def streamed(found: Figures, case: Case) -> Figures:
    """Return the figures of a run through servers in MB of bodies."""
    megabyte = case.body_size / 1e6
    return {
        "throughput": found["rate"] * 1e3 * megabyte,
        "stream_cpu": found["server_cpu"] / 1e6 / megabyte,
        "rss": found["server_rss"],
    }


@pytest.mark.reach
@pytest.mark.parametrize(
    ("name", "case"),
    [
        pytest.param(name, case, id=name, marks=[pytest.mark.full] * (name == "stream-10g"))
        for name, case in STREAMS.items()
    ],
)
def test_through_the_server(bench: Bench, arrow: Command, name: str, case: Case) -> None:
    rates: list[float] = []

    def through() -> Figures:
        figures = streamed(run_through(our_server, arrow, case), case)
        rates.append(figures["throughput"])
        return figures

    def direct() -> Figures:
        rate = run_pair(arrow, arrow, case).throughput
        return {"throughput": rate, "stream_cpu": 0.0, "rss": 0.0}

    bench.interleave(name, "throughput", through, direct)
    if name != "stream-1m":
        assert statistics.median(rates) >= LEAST_RATE


@pytest.mark.reach
@pytest.mark.parametrize(
    ("name", "case", "by"),
    [
        ("stream-relay", STREAMS["stream-100m"], ["relay"]),
        ("stream-copy", STREAMS["stream-100m"], []),
        ("body-relay-1m", REACH["old-body-1m"], ["relay"]),
        pytest.param("stream-relay-10g", STREAMS["stream-10g"], ["relay"], marks=pytest.mark.full),
    ],
)
def test_beside_raw_tcp(
    bench: Bench, arrow: Command, references: References, name: str, case: Case, by: list[str]
) -> None:
    """The reference is a raw copy: through a relaying process, or from end to end.

    Unlike the share of the direct rate, neither depends on the speed of an arrow.
    """

    def through() -> Figures:
        return {"throughput": streamed(run_through(our_server, arrow, case), case)["throughput"]}

    bench.interleave(name, "throughput", through, copy_of(references, case, *by))


def test_through_a_trunk(bench: Bench, arrow: Command) -> None:
    """Two servers, a producer at one and a consumer at the other."""
    case = STREAMS["stream-100m"]
    rates: list[float] = []

    def through() -> Figures:
        figures = streamed(run_trunk(arrow, case), case)
        rates.append(figures["throughput"])
        return figures

    def one_server() -> Figures:
        figures = streamed(run_through(our_server, arrow, case), case)
        return figures | {"stream_cpu": 0.0, "rss": 0.0}

    bench.interleave("stream-trunk", "throughput", through, one_server)
    assert statistics.median(rates) >= LEAST_TRUNK_RATE


def test_first_fragment() -> None:
    """From the sender's first bytes to the receiver, the clients' own work included."""
    assert on_a_server(first_fragment, FRAGMENTS) <= FIRST_FRAGMENT_US


def test_later_fragments() -> None:
    """Later fragments of a running stream come as soon as the first one."""
    assert on_a_server(later_fragments, LATER_FRAGMENTS) <= LATER_FRAGMENT_US


@pytest.mark.parametrize("measure", [death_of_receivers, death_of_senders])
def test_deaths(measure: Callable[[int, int], dict[str, float]]) -> None:
    """The other end knows at once, after any kind of death."""
    for way, median in on_a_server(measure, DEATHS).items():
        assert median <= DEATH_US, way


def test_small_messages_beside_streams() -> None:
    """Eight streams run on other connections of the same server; messages do not wait for them."""
    latency, rate = on_a_server(beside_streams, SMALL)
    assert rate >= BESIDE_RATE
    assert latency <= BESIDE_US


def on_a_server(measure: Callable[[int, int], T], count: int) -> T:
    """Measure on a new server."""
    port = free_port()
    server = Measured(our_server(port), Path("/dev/null"))
    try:
        await_ready(server, port)
        return measure(port, count)
    finally:
        server.close()
