"""How a backlog drains: the section of a run that was made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quiver_fast.analysis.figures.schedule import send_schedule
from quiver_fast.analysis.figures.sender_rate import sender_rate
from quiver_fast.analysis.model.bounds import RunBounds, Sending
from quiver_fast.analysis.read.local import PairAnalysis, analyze_file, analyze_receiver
from quiver_fast.rate_steps import schedule_of

# A whole second, in milliseconds.
START = 1_700_000_000_000
BACKLOG, RATE, BURST = 10_000, 1000, 5
# Milliseconds after the start: when the schedule begins, and when the receiver does.
FILLED, READY = 1000, 2000


def analysed(folder: Path, seconds: int, **changes: Any) -> PairAnalysis:
    """Return a run whose sender goes on for so long, and whose receiver takes 5 messages a ms."""
    sent = [START + n // 10 for n in range(BACKLOG)]
    sent += [START + FILLED + n for n in range(RATE * seconds)]
    received: list[int] = []
    free = START + READY
    for number, time in enumerate(sent):
        free = max(free, time + 1)
        received.append(free)
        # One of five takes the rest of the millisecond.
        free += number % BURST == BURST - 1
    (folder / "s.csv").write_text("".join(f"{time},0\n" for time in sent))
    lines = (f"{pair[0]},{pair[1]}\n" for pair in zip(sent, received, strict=True))
    (folder / "r.csv").write_text("".join(lines))
    passed = seconds * 10**9
    known = {
        "duration": seconds, "complete": True, "backlog": BACKLOG, "credit_window": 100,
        "sending": Sending(tuple(schedule_of(RATE)), reported_ns=passed), **changes,
    }  # fmt: skip
    run = RunBounds(**known)
    sender = analyze_file(folder / "s.csv", operation="send", reconcilable=True)
    schedule = send_schedule(sender, run)
    assert (schedule["due"], schedule["sent"]) == (RATE * seconds, RATE * seconds)
    assert (schedule["achieved"], schedule["missed"]) == (RATE, False)
    assert sender_rate(sender, run) == RATE
    return analyze_receiver(folder / "r.csv", sender, run=run)


def test_it_drains_and_latency_comes_back(tmp_path: Path) -> None:
    backlog = analysed(tmp_path, 20).sections["backlog"]
    assert backlog == {
        "messages": BACKLOG,
        "seconds": pytest.approx(2, abs=0.01),
        "rate": pytest.approx(5000, rel=0.01),
        "steady_p50_us": 1000,
        # The queue is empty 4.75 seconds after the start: the next second has all of its
        # latencies as they were.
        "recovered_seconds": 3.0,
    }


@pytest.mark.parametrize(
    ("seconds", "changes"),
    [
        # The queue holds more at the end than a wave.
        (2, {}),
        # Too few seconds show how latency is without a backlog.
        (5, {}),
        # Nobody knows when the sending ended.
        (20, {"complete": False}),
    ],
)
def test_what_is_not_seen_is_not_said(
    tmp_path: Path, seconds: int, changes: dict[str, Any]
) -> None:
    backlog = analysed(tmp_path, seconds, **changes).sections["backlog"]
    assert backlog is not None
    assert (backlog["steady_p50_us"], backlog["recovered_seconds"]) == (None, None)
    assert backlog["seconds"] == pytest.approx(2, abs=0.01)


def test_a_run_without_one_has_no_section(tmp_path: Path) -> None:
    sender = tmp_path / "s.csv"
    sender.write_text(f"{START},0\n")
    (tmp_path / "r.csv").write_text(f"{START},{START + 1}\n")
    found = analyze_file(sender, operation="send", reconcilable=True)
    for run, expected in ((RunBounds(), None), (RunBounds(backlog=7), 7)):
        sections = analyze_receiver(tmp_path / "r.csv", found, run=run).sections
        backlog = sections.get("backlog") or {"messages": None, "seconds": None}
        assert (backlog["messages"], backlog["seconds"]) == (expected, None)
