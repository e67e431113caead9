"""The table of what operations cost, at the end of a run."""

from __future__ import annotations

import pytest
from support.complexity import Cost, Operation

Rows = list[tuple[Operation, int, Cost]]
ROWS: pytest.StashKey[Rows] = pytest.StashKey()
# How a worker's rows come to the process that prints.
PROPERTY = "complexity"

HEAD = f"{'operation':42} {'N':>7} {'CPU of 4 N':>10} {'ratio':>6} {'worst trip':>17} {'idle':>7}"


@pytest.fixture
def table(request: pytest.FixtureRequest) -> Rows:
    """Rows that are printed at the end."""
    return request.config.stash.setdefault(ROWS, [])


def row(operation: Operation, count: int, cost: Cost) -> str:
    """Return a line of the table."""
    return (
        f"{operation.name:42} {count:7} {cost.large:8.3f} s {cost.ratio:6.1f} "
        f"{cost.worst(0):7.1f}/{cost.worst(1):4.1f} ms {cost.idle:7.2%}"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Have a worker's rows go with its reports."""
    if call.when == "call":
        rows = item.config.stash.get(ROWS, [])
        item.user_properties += [(PROPERTY, row(*each)) for each in rows]
        rows.clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table; the worst round trip is the clock's and the server's CPU in it."""
    lines = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == PROPERTY
    ]
    if lines:
        terminalreporter.section("what operations cost the server, N and 4 N times")
        terminalreporter.line(HEAD)
        for line in sorted(lines):
            terminalreporter.line(str(line))
