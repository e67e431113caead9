"""Runs with a filter: Spark says of them what the local backend does."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.ends_records import Ends
from support.failing_runs import FailingRun
from support.peers import why_missing
from support.record_files import Traffic, write_pair
from support.spark_runs import comparable, ignore, the_run
from support.summaries import config as configured

from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.read.sources import Wanted
from quiver_fast.analysis.read.sources import load_run as load_here

if why_missing("spark") is None:
    from spark_analysis.backend import load_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1800)

SPLIT = 100_000
COUNT = 10_000
FILTER = {
    "properties": {"color": "red:20%,green:80%", "n": "%n"},
    "filter": "color = 'red' OR n < 500",
}
MOMENT = {"boot": "b", "ns": 2, "senders_ended": True}
REPORTS = {"sender": {"settled_at": MOMENT}, "receiver": {"drained_at": MOMENT}}


def check(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Hold equal all that users of a run find in it; return the local backend's."""
    run = the_run(folder)
    here = load_here(run, ignore)
    there = load_run(spark, run, ignore, Wanted(0.001, 2, histogram=True), SPLIT)
    found = {name: comparable(getattr(here, name)) for name in comparable(here)}
    for name in found:
        if name not in ("settlement", "histogram"):
            assert comparable(getattr(there, name)) == found[name], name
    assert comparable(there.statistics) == comparable(run_statistics(here, 0.001, 2))
    return found


def write_summary(folder: Path, name: str, **config: Any) -> None:
    report = REPORTS[name.partition(".")[0]]
    document = {"config": configured(**FILTER, **config), "complete": True, "arrow": report}
    (folder / f"{name}-summary.json").write_text(json.dumps(document))


@pytest.mark.parametrize("record_format", ["v1", "v3"])
def test_a_pair(spark: SparkSession, tmp_path: Path, record_format: str) -> None:
    folder = tmp_path / "run"
    write_pair(folder, Traffic(3, COUNT), record_format)
    for role in REPORTS:
        write_summary(folder, role)
    delivery = check(spark, folder)["delivery"]
    assert delivery["filtered"] == pytest.approx(0.8 * (COUNT - 499), abs=20)
    if record_format == "v1":
        wanted = COUNT - delivery["filtered"] - delivery["unreceived"]
        assert delivery["received"] == wanted + delivery["unmatched"] + delivery["duplicate"]
        assert delivery["unreceived"] > 0
        assert delivery["lost"] is None
        assert delivery["unmatched"] > 0


def test_ends(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    ends = Ends(5, 2, 2)
    # What the filter lets through, and messages of others whose ids are hashes.
    for lines in ends.received:
        lines[:] = [one for one in lines if one.id % 10**13 < 500]
    ends.write(folder)
    with (folder / "receiver.1-transfers.csv").open("a") as file:
        file.writelines(f"x-{number},{ends.sent[0][9][1]},{ends.sent[0][9][1]}\n"
                        for number in range(9))  # fmt: skip
    for role in REPORTS:
        for number in range(2):
            of = {"number": number, "queue": 0, "senders": 2, "receivers": 2, "queues": 1,
                  "url": "//localhost/q", "path": "q", "count": 0, "rate": 0,
                  "rate_steps": None}  # fmt: skip
            write_summary(folder, f"{role}.{number}", ends=of)
    found = check(spark, folder)
    delivery = found["delivery"]
    assert (delivery["unmatched"], delivery["foreign"]) == (0, 9)
    assert (
        sum(end["members"][0]["delivery"]["unreceived"] for end in found["ends"][:2])
        == (delivery["unreceived"])
    )


def test_a_ledger(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    FailingRun(random.Random(1), 2, 2, messages=400).write(folder)
    for path in folder.glob("*-summary.json"):
        document = json.loads(path.read_text())
        document["config"] |= FILTER | {"filter": "color = 'red'"}
        path.write_text(json.dumps(document))
    found = check(spark, folder)
    ledger, delivery = found["sections"]["ledger"], found["delivery"]
    known = ("acknowledged_received", "acknowledged_unreceived", "in_doubt", "refused")
    assert sum(ledger[key] for key in known) == delivery["sent"] - delivery["filtered"]
