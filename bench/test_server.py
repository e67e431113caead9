"""Our server against the Proton C example broker, the same arrows on both."""

from __future__ import annotations

import pytest

from bench.cases import THROUGH_SERVER
from bench.conftest import RATIO_CLOCK, Bench, case_parameters, sized
from bench.reference import build
from bench.runner import Case, Command
from bench.through import example_broker, our_server, run_through

pytestmark = [pytest.mark.timeout(900), pytest.mark.benchmark(timer=RATIO_CLOCK)]


@pytest.fixture(scope="module", autouse=True)
def _broker() -> None:
    """Build the reference before anything is measured."""
    try:
        build.broker()
    except build.BuildError as error:
        pytest.skip(f"no Proton C example broker to compare with: {error}")


@pytest.mark.parametrize(("name", "case"), case_parameters(THROUGH_SERVER))
def test_through_server(bench: Bench, arrow: Command, name: str, case: Case) -> None:
    full = sized(bench, case)
    bench.interleave(
        name,
        "rate",
        lambda: run_through(our_server, arrow, full),
        lambda: run_through(example_broker, arrow, full),
    )
