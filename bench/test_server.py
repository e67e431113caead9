"""Our server against the Proton C example broker, the same arrows on both."""

from __future__ import annotations

import pytest

from bench import connections
from bench.cases import THROUGH_SERVER
from bench.conftest import RATIO_CLOCK, Bench, case_parameters, sized
from bench.durable import Result, run
from bench.reference import build
from bench.runner import Case, Command
from bench.through import example_broker, our_server, run_through

pytestmark = [pytest.mark.timeout(900), pytest.mark.benchmark(timer=RATIO_CLOCK)]


@pytest.fixture(scope="module")
def _broker() -> None:
    """Build the reference before anything is measured."""
    try:
        build.broker()
    except build.BuildError as error:
        pytest.skip(f"no Proton C example broker to compare with: {error}")


@pytest.mark.usefixtures("_broker")
@pytest.mark.parametrize(("name", "case"), case_parameters(THROUGH_SERVER))
def test_through_server(bench: Bench, arrow: Command, name: str, case: Case) -> None:
    full = sized(bench, case)
    bench.interleave(
        name,
        "rate",
        lambda: run_through(our_server, arrow, full),
        lambda: run_through(example_broker, arrow, full),
    )


@pytest.mark.reach
def test_selective_consumer(bench: Bench, arrow: Command) -> None:
    """Through a selector that is true of every message, against no selector at all."""
    case = sized(bench, Case(2_000_000))
    bench.interleave(
        "selector",
        "rate",
        lambda: run_through(our_server, arrow, case, ["filter=SendTime > 0"]),
        lambda: run_through(our_server, arrow, case),
    )


@pytest.mark.full
def test_idle_connections() -> None:
    """At most 200 MB for 10,000 of them."""
    connections.allow_descriptors()
    idle = connections.measure(10_000)
    assert idle.count == 10_000
    assert idle.held <= 200e6, str(idle)


@pytest.mark.full
def test_idle_connections_within_tls() -> None:
    """At most 600 MB for 10,000 of them, of which OpenSSL takes 16 kB for each."""
    connections.allow_descriptors()
    idle = connections.measure_secure(10_000)
    assert idle.count == 10_000
    assert idle.held <= 600e6, str(idle)


def _figures(case: Case, result: Result) -> dict[str, float]:
    per_sync = {"per_sync": case.count / result.syncs} if result.syncs else {"per_sync": 1.0}
    return {"rate": result.rate / 1e3, "server_cpu": result.cpu * 1e9} | per_sync


@pytest.mark.reach
@pytest.mark.parametrize("durability", ["none", "group"])
def test_durable(bench: Bench, durability: str) -> None:
    """Stored against not stored, by the same server; `per_sync` is a count of messages."""
    case = sized(bench, Case(2_000_000))
    bench.interleave(
        f"durable-{durability}",
        "rate",
        lambda: _figures(case, run(case, None, durability, durable=True)),
        lambda: _figures(case, run(case, None, durability, durable=False)),
    )
