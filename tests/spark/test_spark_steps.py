"""The figures of each step of a rate that changed: those of Spark are the local backend's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.peers import why_missing
from support.record_files import Traffic, write_pair
from support.spark_runs import comparable, ignore, the_run
from support.summaries import config as configured

from quiver_fast.analysis.read.sources import Wanted
from quiver_fast.analysis.read.sources import load_run as load_here

if why_missing("spark") is None:
    from spark_analysis import digests
    from spark_analysis.backend import load_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A minute each on an idle machine; a busy one takes ten.
pytestmark = pytest.mark.timeout(1800)

COUNT, RATE, SPLIT = 16_000, 4000, 80_000


@pytest.mark.parametrize(
    ("record_format", "unit", "many"),
    [("v2", "us", True), pytest.param("v3", "ms", False, marks=pytest.mark.slow)],
)
def test_steps_are_those_of_the_local_engine(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_format: str,
    unit: str,
    many: bool,
) -> None:
    """With a warm-up, messages of others, and perhaps many tasks that look at the latencies."""
    if many:
        monkeypatch.setattr(digests, "MOST_ROWS", 0)
    write_pair(tmp_path / "run", Traffic(12, COUNT, rate=RATE, unit=unit), record_format)
    asked = configured(duration=5, count=0, warmup=1, rate_steps="4k:1s,4k..3999:2s,9:1s,9:9s")
    for role in ("sender", "receiver"):
        document = {"config": asked, "complete": True, "arrow": {}}
        (tmp_path / "run" / f"{role}-summary.json").write_text(json.dumps(document))
    run = the_run(tmp_path / "run")
    here = load_here(run, ignore)
    there = load_run(spark, run, ignore, Wanted(None, 2, histogram=True), SPLIT)
    assert comparable(there.sections) == comparable(here.sections)
    assert comparable(there.receiver) == comparable(here.receiver)
    steps = here.sections["steps"]
    assert here.sender is not None
    left_out = here.sender["warmup"]["message_count"]
    assert sum(step["sent"] for step in steps) == COUNT - left_out
    assert [step["last_rate"] for step in steps] == [3999, 9, 9]
    assert 0 < steps[0]["received"] < steps[0]["sent"] * 1.01
