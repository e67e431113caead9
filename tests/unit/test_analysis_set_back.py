"""Records of arrows whose wall clock was set during the run: counts are right, and it is said."""

from __future__ import annotations

import json
from itertools import accumulate, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.summaries import config

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.model.columns import listed
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.analysis.sections.headline import run_verdict
from quiver_fast.analysis.tables.order import ClockTimes
from quiver_fast.cli.arrow.verdict import pair_warnings

START = 1_790_000_000_000
COUNT, RATE = 400, 100
LATENCY = 3
ASKED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "duration": {"duration": COUNT // RATE},
    "rate": {"duration": COUNT // RATE, "rate": RATE},
    "warmup": {"duration": COUNT // RATE, "warmup": 1},
    "little credit": {"duration": COUNT // RATE, "credit_window": 1},
}
FORMATS = ("v1", "v2", "v3")
ENDS = (("sender", "receiver"), ("sender",), ("receiver",))
STEPS = (-60, -2, 2, 60)


def shown(time: int, stepped: bool, step: int) -> int:
    """Return what a clock shows that is set in the midst of the run."""
    return time + 1000 * step * (stepped and time >= START + COUNT * 1000 // RATE // 2)


def write_run(folder: Path, form: str, ends: tuple[str, ...], step: int, asked: str) -> None:
    lines: dict[str, list[str]] = {"sender": [], "receiver": []}
    for number in range(COUNT):
        time = START + number * 1000 // RATE
        sent = shown(time, "sender" in ends, step)
        received = shown(time + LATENCY, "receiver" in ends, step)
        name = "" if form == "v3" else f"{number + 1},"
        lines["sender"].append(f"{name}{sent}" + (",0" if form == "v3" else ""))
        lines["receiver"].append(f"{name}{sent},{received}")
        if form == "v2":
            settled = shown(time + 2 * LATENCY, "sender" in ends, step)
            lines["sender"].append(f"S{number + 1},{settled}")
    for role, operation in (("sender", "send"), ("receiver", "receive")):
        (folder / f"{role}-transfers.csv").write_text("\n".join(lines[role]) + "\n")
        asked_of = config(operation, run_start=START - 5, settlement=False, **ASKED[asked])
        document = {"config": asked_of, "complete": True, "reason": None, "exit_code": 0}
        (folder / f"{role}-summary.json").write_text(json.dumps(document))


def document_of(run: RunData) -> dict[str, Any]:
    """Return the document of a run as far as warnings and the page take it."""
    ends = {"sender": run.sender, "receiver": run.receiver}
    found = {**ends, "delivery": run.delivery, **run.sections, "clock_step": None}
    return found | {"complete": True, "analysis": run_statistics(run)}


def loaded(folder: Path) -> RunData:
    [files] = find_runs([str(folder)])
    return load_run(files, lambda _done, _total: None)


@pytest.mark.parametrize(
    ("form", "ends", "step", "asked"), list(product(FORMATS, ENDS, STEPS, ASKED)), ids=str
)
def test_every_message_is_counted_once(
    tmp_path: Path, form: str, ends: tuple[str, ...], step: int, asked: str
) -> None:
    write_run(tmp_path, form, ends, step, asked)
    document = document_of(loaded(tmp_path))
    faults = ("older", "foreign", "unreceived", "lost", "duplicate")
    assert {key: document["delivery"][key] for key in faults} == dict.fromkeys(faults, 0)
    assert document["delivery"]["sent"] == document["delivery"]["received"] == COUNT
    duration = document["results"]["duration"]
    assert duration is None or duration >= 0
    json.dumps(document, default=listed, allow_nan=False)
    said = [line for line in pair_warnings(document) if "the times go back by" in line]
    assert len(said) == (len(ends) if step < 0 else 0)
    _, verdict = run_verdict(document)
    for role in ("sender", "receiver"):
        told = document[role]["records"]["set_back_ms"]
        between = 2 * 1000 // RATE
        if step < 0 and role in ends:
            assert 0 < -1000 * step - told <= between
            assert f"{role}: the times go back by" in verdict
        else:
            assert told is None


@pytest.mark.parametrize("number", ["", ".0"], ids=["one of its kind", "one of several"])
def test_a_schedule_in_another_order_is_no_clock(tmp_path: Path, number: str) -> None:
    """The ends of a process that is late record when messages were due, each its own."""
    write_run(tmp_path, "v3", ("sender",), -2, "rate")
    for path in tmp_path.iterdir():
        role, what = path.name.split("-")
        path.rename(path.with_name(f"{role}{number}-{what}"))
    place = tmp_path / f"sender{number}-summary.json"
    document = json.loads(place.read_text())
    late = {"p50": 1.0, "p99": 1e6, "p99.9": 2e6, "max": 2e6}
    document["arrow"] = {"schedule": {"rate": RATE, "late_us": late, "sending_ns": 4 * 10**9}}
    place.write_text(json.dumps(document))
    sender = loaded(tmp_path).sender
    assert sender is not None
    assert sender["records"]["set_back_ms"] is None


def test_what_threads_write_out_of_order_is_no_clock(tmp_path: Path) -> None:
    times = [START + 10 * n - 90 * (n % 7 == 6) for n in range(50)]
    (tmp_path / "sender-transfers.csv").write_text("".join(f"{time},0\n" for time in times))
    sender = loaded(tmp_path).sender
    assert sender is not None
    assert sender["records"]["set_back_ms"] is None


@given(
    # Differences fit into int64.
    st.lists(st.integers(-(2**62), 2**62 - 1), min_size=1),
    st.lists(st.integers(0, 100), max_size=5),
)
def test_times_in_pieces_are_as_one_piece(times: list[int], cuts: list[int]) -> None:
    highest = list(accumulate(times, max))
    expected = (min(times), max(times), max(h - t for h, t in zip(highest, times, strict=True)))
    edges = sorted({0, len(times), *(cut for cut in cuts if cut < len(times))})
    added, followed = ClockTimes(), ClockTimes()
    for begin, end in pairwise(edges):
        piece = np.array(times[begin:end], np.int64)
        alone = ClockTimes()
        for clock in (added, alone):
            clock.add(piece)
        assert alone.lowest is not None
        assert alone.highest is not None
        followed.follow(alone.lowest, alone.highest, alone.set_back)
    for clock in (added, followed):
        assert (clock.lowest, clock.highest, clock.set_back) == expected
