"""Figures of each step of a rate that changed: of the messages that were due in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.record_files import Traffic, write_pair
from support.summaries import config

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.analysis.sections.run import steps_grid
from quiver_fast.analysis.show.text import grid_lines

COUNT, RATE, DURATION = 12_000, 2000, 6


def read(folder: Path, traffic: Traffic, record_format: str, **changes: Any) -> RunData:
    write_pair(folder, traffic, record_format)
    for role, operation in (("sender", "send"), ("receiver", "receive")):
        asked = config(operation, duration=DURATION, count=0, **changes)
        summary = {"config": asked, "complete": True, "exit_code": 0}
        (folder / f"{role}-summary.json").write_text(json.dumps(summary))
    [run] = find_runs([str(folder)])
    return load_run(run, lambda _done, _total: None)


# Begin and end of each step in seconds, as the sender has them.
CASES = [
    ("2k:6s", 0, [(0, 6)]),
    ("2k:1s,2k..1999:3s", 0, [(0, 1), (1, 4), (4, 6)]),
    ("2k:1s,0.5..2k:3s,2k:100s", 2, [(1, 4), (4, 6)]),
    ("2k:1s,1:100s", 0, [(0, 1), (1, 6)]),
]


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("record_format", ["v2", "v3"])
@pytest.mark.parametrize(("text", "warmup", "expected"), CASES)
def test_a_message_is_of_the_step_in_which_it_was_due(
    tmp_path: Path, unit: str, record_format: str, text: str, warmup: int, expected: Any
) -> None:
    traffic = Traffic(5, COUNT, rate=RATE, unit=unit)
    run = read(tmp_path / "run", traffic, record_format, rate_steps=text, warmup=warmup)
    steps, ticks, first = run.sections["steps"], PER_SECOND[unit], int(traffic.sent[0])
    since = -(-(first + warmup * ticks) // ticks) * ticks if warmup else first
    assert [step["end"] for step in steps] == [end for _, end in expected]
    for step, (planned, end) in zip(steps, expected, strict=True):
        begin = max(first + planned * ticks, since)
        assert step["begin"] == (begin - first) / ticks
        last = first + end * ticks if end < DURATION else 2**62
        sent = (traffic.sent >= begin) & (traffic.sent < last)
        own = (traffic.stamps >= begin) & (traffic.stamps < last)
        assert step["sent"] == sent.sum()
        assert step["received"] == own.sum() == step["latency"]["count"]
        assert step["achieved"] == pytest.approx(sent.sum() * ticks / (end * ticks + first - begin))
        latencies = (traffic.received - traffic.stamps)[own]
        for rank in ("50", "99", "99.9", "100"):
            value = np.percentile(latencies, float(rank))
            assert step["latency"]["percentiles"][rank] == pytest.approx(value)
    [grid] = steps_grid(steps)
    assert len(grid.rows) == len(expected)


def test_a_run_of_one_rate_has_no_steps(tmp_path: Path) -> None:
    assert read(tmp_path / "run", Traffic(5, 500), "v3", rate=RATE).sections["steps"] is None


def test_what_was_asked_of_a_step_is_told(tmp_path: Path) -> None:
    traffic = Traffic(5, 3000, rate=1000)
    steps = read(tmp_path / "run", traffic, "v3", rate_steps="0.5:1s,3..1k:9s").sections["steps"]
    assert [(step["first_rate"], step["last_rate"]) for step in steps] == [(0.5, 0.5), (3, 1000)]
    [grid] = steps_grid(steps)
    head, one, two = grid_lines(grid)
    assert head.split()[:5] == ["seconds", "asked", "sent", "received", "sent/s"]
    assert one.split()[:3] == ["0-1", "0.5", "1,000"]
    assert two.split()[:2] == ["1-6", "3..1000"]
