"""`--warmup`: what comes before a whole second is in no figure but the reckoning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.record_files import Traffic, write_pair
from support.summaries import config

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.model.columns import listed
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.cli.arrow.summary_text import pair_summary_text

COUNT, RATE, WARMUP, DURATION = 12_000, 2000, 2, 6


def read(folder: Path, traffic: Traffic, record_format: str, **changes: Any) -> RunData:
    write_pair(folder, traffic, record_format)
    for role, operation in (("sender", "send"), ("receiver", "receive")):
        asked = config(operation, duration=DURATION, rate=RATE, **changes)
        summary = {"config": asked, "complete": True, "exit_code": 0}
        (folder / f"{role}-summary.json").write_text(json.dumps(summary))
    [run] = find_runs([str(folder)])
    return load_run(run, lambda _done, _total: None)


@pytest.mark.parametrize("unit", ["ms", "us"])
@pytest.mark.parametrize("record_format", ["v2", "v3"])
def test_figures_are_those_of_the_messages_after_the_warm_up(
    tmp_path: Path, record_format: str, unit: str
) -> None:
    traffic = Traffic(4, COUNT, rate=RATE, unit=unit)
    whole = read(tmp_path / "whole", traffic, record_format)
    run = read(tmp_path / "measured", traffic, record_format, warmup=WARMUP)
    ticks = PER_SECOND[unit]
    since = -(-(int(traffic.sent[0]) + WARMUP * ticks) // ticks)
    assert run.delivery == whole.delivery
    assert run.sender is not None
    assert run.receiver is not None
    assert run.sender["warmup"] == {
        "seconds": WARMUP,
        "first_time": int(traffic.sent[0]) * 1000 // ticks,
        "measured_since": since,
        "message_count": int((traffic.sent < since * ticks).sum()),
    }
    sent = traffic.sent[traffic.sent >= since * ticks]
    assert run.sender["results"]["message_count"] == len(sent)
    assert run.sender["results"]["first_send_time"] == since * 1000
    rate = len(sent) * ticks / (DURATION * ticks + traffic.sent[0] - since * ticks)
    assert run.sender["results"]["message_rate"] == pytest.approx(rate, rel=0.01)
    own = ~np.isin(traffic.stamps, [-1])
    received, stamps = traffic.received[own], traffic.stamps[own]
    late = (received - stamps)[received >= since * ticks]
    left_out = run.receiver["warmup"]["message_count"]
    results = run.receiver["results"]
    assert left_out + results["message_count"] == whole.receiver["results"]["message_count"]
    assert run.receiver["latency"]["percentiles"]["50"] == np.percentile(late, 50)
    series = json.loads(json.dumps(run.receiver["series"], default=listed))
    assert series["second"][0] == since
    statistics = run_statistics(run, None, 1)
    assert statistics["steady_state"]["message_count"] < len(sent)
    assert statistics["sending_end"] == run_statistics(whole)["sending_end"]


def test_a_run_that_ends_within_the_warm_up_has_no_figures(tmp_path: Path) -> None:
    traffic = Traffic(4, 1000, rate=RATE)
    run = read(tmp_path / "run", traffic, "v3", warmup=3)
    assert run.receiver is not None
    assert run.receiver["results"]["message_count"] == 0
    assert run.receiver["latency"]["percentiles"]["50"] is None
    assert run.receiver["warmup"]["message_count"] > 900
    assert run_statistics(run)["clock"] is None


def test_the_summary_says_how_long_it_warmed_up(tmp_path: Path) -> None:
    run = read(tmp_path / "run", Traffic(4, COUNT, rate=RATE), "v3", warmup=WARMUP)
    document = {
        "sender": run.sender,
        "receiver": run.receiver,
        "complete": True,
        "delivery": run.delivery,
        "peer_to_peer": False,
    }
    text = pair_summary_text(document | run.sections)
    assert f"Warm-up {'.' * 51} {WARMUP} seconds" in text
