"""`quiver --abort-if`: which periods end a run."""

from __future__ import annotations

from typing import Any

import pytest

from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.pair.abort import Abort, period_condition
from quiver_fast.cli.pair.command import main

FIGURES = "p50, p99, mean, rate, sender-rate"


def snapshot(seconds: float, count: int, covered: float = 2000, **more: Any) -> Snapshot:
    """Return the snapshot of a period of two seconds in which all messages came."""
    return Snapshot(round(seconds * 1000), 2000, count, count,
                    covered_ms=covered, **more)  # fmt: skip


def looked(*conditions: str, warmup: int = 0, sending: bool = True, **figures: Any) -> str | None:
    """Return why a run was stopped that had two periods with the same figures."""
    found = Abort([period_condition(text) for text in conditions], warmup)
    for seconds, covered in ((12, 500), (14, 2000)):
        receiver = snapshot(seconds, 1000, covered, **figures)
        found.look({"receiver": receiver, "sender": snapshot(seconds, 3000)}, sending=sending)
    return found.reason


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("p50>4ms", "at 0.5 s p50 was 5 ms"),
        ("P99 >= 40", "at 0.5 s p99 was 40 ms"),
        ("mean>1us", "at 0.5 s mean was 6 ms"),
        ("rate>1k/s", "at 0.5 s rate was 2,000 messages/s"),
        ("rate<1k", "at 2.5 s rate was 500 messages/s"),
        ("sender-rate>1k", "at 0.5 s sender-rate was 1,500 messages/s"),
    ],
)
def test_each_figure_of_a_period(condition: str, reason: str) -> None:
    """Seconds count from the first message, which came half a second before the first snapshot."""
    figures = {"latency_p50_us": 5000.0, "latency_p99_us": 40000.0, "latency_us": 6000.0}
    told = f"stopped by --abort-if {condition}: {reason}"
    # The first period begins with the first message; its length is not that of the others.
    assert looked("p99>1s", condition, **figures) == told


def test_a_condition_that_does_not_hold() -> None:
    assert looked("rate>5k", "p99>1s", "rate<=1") is None


def test_a_figure_that_the_period_does_not_have() -> None:
    assert looked("p50<1s", "p99>=0") is None


def test_the_end_of_the_sending_is_passed_over() -> None:
    assert looked("rate<1m", sending=False) is None


def test_the_warm_up_is_passed_over() -> None:
    assert looked("rate>0", warmup=1) is None
    assert looked("rate>0", warmup=0) is not None


def test_periods_before_the_first_message_are_passed_over() -> None:
    found = Abort([period_condition("rate<1k")], 0)
    found.look({"receiver": snapshot(2, 0), "sender": snapshot(2, 0)}, sending=True)
    found.look({"receiver": snapshot(2, 5)}, sending=True)
    assert found.reason is None


@pytest.mark.parametrize("figure", ["p99.9", "max", "lost", "worse", "foo"])
def test_other_figures(figure: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--abort-if", f"{figure}>1"]) == 2
    assert capsys.readouterr().err == (
        f"quiver: error: argument --abort-if: '{figure}' in '{figure}>1' is no figure of a "
        f"period: those are {FIGURES} (see quiver --help)\n"
    )
