"""Whether a finished run succeeded, and what about its summary deserves a warning."""

from __future__ import annotations

from typing import Any

from quiver_fast.cli.common import report_warning
from quiver_fast.cli.run import ArrowRun

__all__ = ["check_summary", "failure"]


def failure(run: ArrowRun, summary: dict[str, Any]) -> str | None:
    """Return in one line which arrow failed and why, or None if it did what was asked."""
    ending = run.ending()
    who = f"{run.plan.role} ({run.plan.implementation.name})"
    if not ending.complete:
        return f"{who} failed: {ending.reason}"
    if summary["results"]["message_count"] == 0:
        return f"{who} failed: no transfers"
    return None


def check_summary(command: str, summary: dict[str, Any]) -> None:
    """Warn on standard error of what makes the figures of ``summary`` doubtful."""
    role = {"send": "sender", "receive": "receiver"}[summary["config"]["operation"]]
    records = summary["records"]
    if records["malformed"]:
        first = records["first_malformed"]
        report_warning(
            command,
            f"{role}: {records['malformed']} lines are not records; "
            f"the first is line {first['line']}: {first['text']}",
        )
    delivery = summary.get("delivery")
    if delivery is not None and delivery["negative_latency"]:
        report_warning(
            command,
            f"{delivery['negative_latency']} messages were received before they were sent: "
            "the clocks of sender and receiver differ",
        )
    if delivery is not None and delivery["foreign"]:
        report_warning(command, f"{delivery['foreign']} received messages are not of this run")
    schedule = summary.get("schedule")
    if schedule is not None and schedule["missed"]:
        report_warning(command, f"the sender missed the rate of {schedule['rate']} messages/s")
