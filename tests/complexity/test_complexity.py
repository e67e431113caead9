"""Nothing that a client can repeat costs more the more often it was done.

Costs are those of the server's CPU, so other work on the machine hardly changes them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.complexity import Cost, Operation, Servers, measure, serving
from support.measured import Figure
from support.operations import OPERATIONS

Rows = list[tuple[Operation, int, Cost]]


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The server and the clients of the operations."""
    with contextlib.closing(Servers(lambda: tmp_path_factory.mktemp("server"))) as found:
        yield found


def name_of(operation: Operation) -> str:
    return operation.name.replace(" ", "-").replace(",", "")


@pytest.mark.measured
@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_few(table: Rows, servers: Servers, operation: Operation, figure: Figure) -> None:
    with servers.use(operation) as bench:
        cost = measure(bench, operation, operation.count)
    judge(table, operation, operation.count, cost, figure)


@pytest.mark.measured
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_many(table: Rows, tmp_path: Path, operation: Operation, figure: Figure) -> None:
    count = operation.count * operation.scale
    with serving(tmp_path, operation.keys) as bench:
        cost = measure(bench, operation, count)
    judge(table, operation, count, cost, figure)


def judge(table: Rows, operation: Operation, count: int, cost: Cost, figure: Figure) -> None:
    table.append((operation, count, cost))
    for each in cost.figures():
        figure(each.name, each.value, at_most=each.at_most, unit=each.unit)


def test_the_table_is_long_enough() -> None:
    """Every performative, outcome, order and event that a client can repeat."""
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS) >= 40
