"""Figures of measured tests: seconds, CPU, memory, and ratios of them.

A test marked `measured` gives each of its figures to the fixture `figure`, which judges them
when the test has ended. Under `--measure` (`make measure`) a test that fails is run twice more:
then the median of each figure decides, and a table shows all figures beside their limits.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from _pytest.runner import runtestprotocol

# The number of further runs of a failed test.
REPEATS = 2
BINARY = ["B", "KiB", "MiB", "GiB"]


class BeyondLimitError(AssertionError):
    """A figure is beyond its limit."""


class Taken(NamedTuple):
    """A figure that a test took, and the limits that it has to keep."""

    name: str
    value: float
    at_most: float
    at_least: float
    unit: str

    def is_kept(self) -> bool:
        """Tell whether the value is within the limits."""
        return self.at_least <= self.value <= self.at_most


class Figure:
    """The fixture `figure`: it gathers the figures of one run of a test."""

    def __init__(self) -> None:
        self.taken: list[Taken] = []

    def __call__(
        self,
        name: str,
        value: float,
        *,
        at_most: float = math.inf,
        at_least: float = -math.inf,
        unit: str = "",
    ) -> None:
        """Take a figure. The test fails at its end if the value is beyond a limit."""
        assert at_most < math.inf or at_least > -math.inf, f"{name}: a figure needs a limit"
        self.taken.append(Taken(name, value, at_most, at_least, unit))

    def judge(self) -> None:
        """Raise an error that names each figure beyond its limits."""
        beyond = [show(taken) for taken in self.taken if not taken.is_kept()]
        if beyond:
            raise BeyondLimitError("; ".join(beyond))


# The figures of a test, a `Figure` for each time that it ran.
RUNS = pytest.StashKey[list[Figure]]()
# The figures of a whole session: the test's name, and the figure's value of each run.
TABLE = pytest.StashKey[list[tuple[str, Taken, list[float]]]]()


def is_measuring(config: pytest.Config) -> bool:
    """Tell whether this session is one of `make measure`."""
    return bool(config.getoption("measure"))


def show(taken: Taken) -> str:
    """Return a figure beside its limits, in words."""
    limits = [
        f"at {word} {amount(limit, taken.unit)}"
        for word, limit in (("least", taken.at_least), ("most", taken.at_most))
        if math.isfinite(limit)
    ]
    return f"{taken.name}: {amount(taken.value, taken.unit)} ({', '.join(limits)})"


def amount(value: float, unit: str) -> str:
    """Return a value with its unit; bytes in the unit that people read."""
    power = 0
    if unit == "B" and value:
        power = min(max(int(math.log2(abs(value))) // 10, 0), len(BINARY) - 1)
        unit = BINARY[power]
    return f"{value / 1024**power:,.4g} {unit}".rstrip()


def median(runs: list[Figure]) -> list[tuple[Taken, list[float]]]:
    """Return each figure with the median of its runs as its value, and the values themselves."""
    found: dict[str, list[Taken]] = {}
    for run in runs:
        for taken in run.taken:
            found.setdefault(taken.name, []).append(taken)
    result = []
    for each in found.values():
        values = [taken.value for taken in each]
        result.append((each[-1]._replace(value=statistics.median(values)), values))
    return result


def verdict(runs: list[Figure], broken: int) -> str | None:
    """Return the reason of a test's failure, or None if it has passed.

    Args:
        runs: its figures.
        broken: number of runs that failed by something else than a figure.
    """
    if 2 * broken > len(runs):
        return f"{broken} of {len(runs)} runs failed otherwise than by a figure"
    beyond = [show(taken) for taken, _ in median(runs) if not taken.is_kept()]
    return "; ".join(beyond) or None


# -- hooks and the fixture; tests/conftest.py makes them known


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    """Take figures of a measured test."""
    assert request.node.get_closest_marker("measured"), "only a measured test has figures"
    made = Figure()
    request.node.stash.setdefault(RUNS, []).append(made)
    return made


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """Judge a test's figures when it has ended."""
    result = yield
    if runs := pyfuncitem.stash.get(RUNS, None):
        runs[-1].judge()
    return result


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a measured test; run it again if it failed, and let the medians decide."""
    if not is_measuring(item.config) or item.get_closest_marker("measured") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    if any(report.failed for report in reports):
        reports = run_again(item, nextitem, reports)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    table = item.config.stash.setdefault(TABLE, [])
    table.extend((item.nodeid, *row) for row in median(item.stash.get(RUNS, [])))
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def run_again(
    item: pytest.Item, nextitem: pytest.Item | None, first: list[pytest.TestReport]
) -> list[pytest.TestReport]:
    """Run a test that failed twice more; return the reports of one run with the outcome of all."""
    every = [first]
    for _ in range(REPEATS):
        # As pytest itself does before the first run.
        item._initrequest()  # type: ignore[attr-defined]
        every.append(runtestprotocol(item, nextitem=nextitem, log=False))
    broken = [reports for reports in every if is_broken(reports)]
    runs = item.stash.get(RUNS, []) or [Figure() for _ in every]
    reason = verdict(runs, len(broken))
    chosen = broken[-1] if broken and reason else first
    for report in chosen:
        if report.when == "call" and reason is not None and not broken:
            report.outcome, report.longrepr = "failed", f"the median of {len(runs)} runs: {reason}"
        elif reason is None:
            report.outcome, report.longrepr = "passed", None
    return chosen


def is_broken(reports: list[pytest.TestReport]) -> bool:
    """Tell whether a run failed by something that is not a figure."""
    return any(report.failed and BeyondLimitError.__name__ not in report.longreprtext
               for report in reports)  # fmt: skip


def write_table(reporter: pytest.TerminalReporter) -> None:
    """Write each figure beside its limit."""
    table = reporter.config.stash.get(TABLE, [])
    if not table:
        return
    reporter.section("figures")
    name = ""
    for test, taken, values in table:
        if test != name:
            name = test
            reporter.line(name)
        runs = f"   median of {len(values)}" if len(values) > 1 else ""
        reporter.line(f"    {show(taken)}{runs}")
