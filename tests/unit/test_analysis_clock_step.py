"""Clock steps of several ends, and their report."""

from __future__ import annotations

from typing import Any

import pytest

from quiver_fast.analysis.figures.clock_step import largest_step, step_text


def step(milliseconds: float, after: float = 1.0, *, in_times: bool = False) -> dict[str, Any]:
    return {"milliseconds": milliseconds, "after_seconds": after, "in_times": in_times}


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([], None),
        ([None, {}, {"clock_step": None}], None),
        ([{"clock_step": step(2000.0)}, None], step(2000.0)),
        ([{"clock_step": step(2000.0)}, {"clock_step": step(-60000.0, 3.0)}], step(-60000.0, 3.0)),
        # A pair of ours and of another one: the figures are of both.
        (
            [{"clock_step": step(2000.5)}, {"clock_step": step(2000.4, in_times=True)}],
            step(2000.5, in_times=True),
        ),
    ],
)
def test_the_largest_step_of_all_ends(ends: list[Any], expected: dict[str, Any] | None) -> None:
    assert largest_step(ends) == expected


def test_a_step_in_words() -> None:
    assert step_text(step(2000.123, 1.23)) == (
        "the wall clock was set forward by 2.00 s, 1.2 s after the start: "
        "the times of the arrows do not follow it"
    )
    assert step_text(step(-1.5, 3600.0, in_times=True)) == (
        "the wall clock was set back by 1.50 ms, 3,600.0 s after the start: "
        "it is in the times of an arrow, so that latencies and rates are wrong"
    )
