"""Nothing that a client can repeat costs more the more often it was done.

Costs are those of the server's CPU, so other work on the machine does not change them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.complexity import MIB, Cost, Operation, measure
from support.operations import OPERATIONS

# Four times as many cost four times as much, and a half more for caches and noise.
RATIO = 6.0
# A bystander's longest round trip but for one in a thousand, in ms of the server's CPU.
TRIP = 50.0
# Share of a core that a server uses when it only holds something.
IDLE = 0.01
# Memory that is kept for what comes next, and for the allocator's and Python's own.
KEPT = 24 * MIB
TO_IDLE_SECONDS = 5.0

Rows = list[tuple[Operation, int, Cost]]


def judge(cost: Cost) -> None:
    assert cost.ratio <= RATIO, f"4 N cost {cost.ratio:.1f} times as much as N"
    assert cost.worst(1) <= TRIP, f"a bystander waited for {cost.worst(1):.1f} ms of work"
    assert cost.idle <= IDLE, f"{cost.idle:.1%} of a core for nothing"
    assert cost.kept <= max(KEPT, cost.peak // 4), f"{cost.kept} of {cost.peak} bytes are kept"
    assert cost.to_idle <= TO_IDLE_SECONDS, f"{cost.to_idle:.1f} s until it rests"


def name_of(operation: Operation) -> str:
    return operation.name.replace(" ", "-").replace(",", "")


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_few(table: Rows, tmp_path: Path, operation: Operation) -> None:
    cost = measure(tmp_path, operation, operation.count)
    if cost.ratio > RATIO:
        # So few cost little, and other work may have had the caches. What grows does so twice.
        cost = measure(tmp_path, operation, operation.count)
    table.append((operation, operation.count, cost))
    judge(cost)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_many(table: Rows, tmp_path: Path, operation: Operation) -> None:
    count = operation.count * operation.scale
    cost = measure(tmp_path, operation, count)
    table.append((operation, count, cost))
    judge(cost)


def test_the_table_is_long_enough() -> None:
    """Every performative, outcome, order and event that a client can repeat."""
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS) >= 40
