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
# Measurements more before a ratio is believed.
AGAIN = 4
# A bystander's longest round trip but for one in a thousand, in ms of the server's CPU.
TRIP = 50.0
# Share of a core that a server uses when it only holds something.
IDLE = 0.01
# Memory that is kept for what comes next, and for the allocator's and Python's own.
KEPT = 24 * MIB
TO_IDLE_SECONDS = 5.0

Rows = list[tuple[Operation, int, Cost]]


def judge(operation: Operation, cost: Cost) -> None:
    assert cost.ratio <= RATIO, f"4 N cost {cost.ratio:.1f} times as much as N"
    assert cost.worst(1) <= TRIP, f"a bystander waited for {cost.worst(1):.1f} ms of work"
    assert cost.idle <= IDLE, f"{cost.idle:.1%} of a core for nothing"
    kept = 0 if operation.stays else cost.kept
    assert kept <= max(KEPT, cost.peak // 4), f"{cost.kept} of {cost.peak} bytes are kept"
    assert cost.to_idle <= TO_IDLE_SECONDS, f"{cost.to_idle:.1f} s until it rests"


def least(directory: Path, operation: Operation, count: int) -> Cost:
    """Measure an operation; again where a ratio is too large, with the least cost of each size.

    Other work takes caches away and so makes single measurements dearer, never cheaper. A cost
    that grows with N is in each of them.
    """
    cost = measure(directory, operation, count)
    for _ in range(AGAIN):
        if cost.ratio <= RATIO:
            break
        more = measure(directory, operation, count)
        cost = more._replace(small=min(cost.small, more.small), large=min(cost.large, more.large))
    return cost


def name_of(operation: Operation) -> str:
    return operation.name.replace(" ", "-").replace(",", "")


@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_few(table: Rows, tmp_path: Path, operation: Operation) -> None:
    cost = least(tmp_path, operation, operation.count)
    table.append((operation, operation.count, cost))
    judge(operation, cost)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("operation", OPERATIONS, ids=name_of)
def test_many(table: Rows, tmp_path: Path, operation: Operation) -> None:
    count = operation.count * operation.scale
    cost = least(tmp_path, operation, count)
    table.append((operation, count, cost))
    judge(operation, cost)


def test_the_table_is_long_enough() -> None:
    """Every performative, outcome, order and event that a client can repeat."""
    assert len({each.name for each in OPERATIONS}) == len(OPERATIONS) >= 40
