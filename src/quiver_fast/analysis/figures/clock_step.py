"""Steps of the wall clock during a run, as the wrappers and the records saw them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quiver_fast.analysis.model.units import latency_text, per_millisecond

# Threads write their records a little out of order. Time synchronisation sets a clock only if
# it is wrong by more than this (ntpd, 128 ms; chronyd, a second); else it slews the clock.
_SET_BACK_MS = 100


def largest_step(ends: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Return the section ``clock_step`` of several ends; None where no clock was set.

    Args:
        ends: their summaries; None for an end that is not there.
    """
    steps = [step for end in ends if end is not None and (step := end.get("clock_step"))]
    if not steps:
        return None
    largest = max(steps, key=lambda step: abs(step["milliseconds"]))
    return {**largest, "in_times": any(step["in_times"] for step in steps)}


def step_text(step: Mapping[str, Any]) -> str:
    """Return a section ``clock_step`` as a line of text."""
    way = "forward" if step["milliseconds"] > 0 else "back"
    by = latency_text(abs(step["milliseconds"]) * 1000, "us")
    text = f"the wall clock was set {way} by {by}, {step['after_seconds']:,.1f} s after the start"
    if step["in_times"]:
        return f"{text}: it is in the times of an arrow, so that latencies and rates are wrong"
    return f"{text}: the times of the arrows do not follow it"


def set_back_ms(ticks: int, unit: str) -> float | None:
    """Return by how many milliseconds the times of records go back; None where they do not.

    Args:
        ticks: the most by which a time is below an earlier one.
        unit: that of the times.
    """
    milliseconds = ticks / per_millisecond(unit)
    return milliseconds if milliseconds > _SET_BACK_MS else None


def set_back_text(records: Mapping[str, Any]) -> str | None:
    """Return in a line that the times of records go back; None where they do not.

    Args:
        records: the section ``records`` of an end's summary.
    """
    back = records["set_back_ms"]
    if back is None:
        return None
    by = latency_text(back * 1000, "us")
    return f"the times go back by {by}: the clock was set, so that rates and latencies are wrong"
