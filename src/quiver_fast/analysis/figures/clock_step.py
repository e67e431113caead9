"""What became of the wall clock while a run went on, as the wrappers saw it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quiver_fast.analysis.model.units import latency_text

__all__ = ["largest_step", "step_text"]


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
    """Return in a line what a section ``clock_step`` says."""
    way = "forward" if step["milliseconds"] > 0 else "back"
    by = latency_text(abs(step["milliseconds"]) * 1000, "us")
    text = f"the wall clock was set {way} by {by}, {step['after_seconds']:,.1f} s after the start"
    if step["in_times"]:
        return f"{text}: it is in the times of an arrow, so that latencies and rates are wrong"
    return f"{text}: the times of the arrows do not follow it"
