"""A run of many ends: Spark says of its folder what the local backend does."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.ends_records import Ends
from support.failing_runs import FailingRun
from support.peers import why_missing
from support.spark_runs import as_json, comparable, ignore, the_run
from support.summaries import config as configured

from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.read.sources import Wanted
from quiver_fast.analysis.read.sources import load_run as load_here
from quiver_fast.cli.analyze.command import main as quiver_analyze
from quiver_fast.errors import RecordError

if why_missing("spark") is None:
    from spark_analysis import digests
    from spark_analysis.backend import load_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# A minute each on an idle machine; a busy one takes ten.
pytestmark = pytest.mark.timeout(1800)

# Two splits to a file: each is a task of many stages.
SPLIT = 20_000


def write_summaries(folder: Path, senders: int, receivers: int, queues: int) -> None:
    """Say of each end which queue it had, and that its queue was read to its end."""
    drained = {"boot": "b", "ns": 2, "senders_ended": False}
    for role, count in (("sender", senders), ("receiver", receivers)):
        for number in range(count):
            ends = {
                "number": number, "queue": number % queues, "senders": senders,
                "receivers": receivers, "queues": queues, "url": "//localhost/q", "path": "q",
                "count": 0, "rate": 0, "rate_steps": None,
            }  # fmt: skip
            document = {
                "config": configured(credit_window=10, duration=60, count=0)
                | {"ends": ends, "modify": "5%:undeliverable"},
                "complete": False,
                "reason": "stopped" if number else None,
                "exit_code": 0,
                "arrow": {"drained_at": drained, "released": 2, "rejected": 1, "modified": 3}
                if role == "receiver"
                else {"settled_at": {"boot": "b", "ns": 1}},
                "dead_letters": {"queue": "d", "due": 1, "count": 5},
            }
            (folder / f"{role}.{number}-summary.json").write_text(json.dumps(document))


def check(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Hold equal all that users of a run find in it; return the local backend's."""
    run = the_run(folder)
    here = load_here(run, ignore)
    there = load_run(spark, run, ignore, Wanted(0.001, 2, histogram=True), SPLIT)
    fields = [name for name in comparable(here) if name not in ("settlement", "histogram")]
    for name in fields:
        assert comparable(getattr(there, name)) == comparable(getattr(here, name)), name
    assert comparable(there.statistics) == comparable(run_statistics(here, 0.001, 2))
    assert comparable(there.figures) == comparable(run_figures(here))
    mine, other = (
        [row.tolist() for part in run.histogram.parts() for row in
         (part.seconds, part.latencies, part.counts)]
        for run in (there, here) if run.histogram is not None
    )  # fmt: skip
    assert mine == other
    return {name: comparable(getattr(here, name)) for name in fields}


def test_ends_with_ids(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends of three queues, one without records; what is large is looked at by many tasks."""
    monkeypatch.setattr(digests, "MOST_ROWS", 0)
    Ends(5, 2, 2).write(tmp_path / "run")
    (tmp_path / "run" / "receiver.2-transfers.csv").write_text("")
    write_summaries(tmp_path / "run", 2, 3, 3)
    found = check(spark, tmp_path / "run")
    assert found["ends"][4]["results"]["message_count"] == 0
    delivery = found["delivery"]
    assert min(delivery[name] for name in ("unreceived", "duplicate", "reordered", "lost")) > 0
    assert sum(end["delivery"]["received"] or 0 for end in found["ends"][:2]) == (
        delivery["sent"] - delivery["unreceived"] - delivery["dead_lettered"]
    )
    assert found["sender"]["settlement"]["all"]["count"] > 0


@pytest.mark.parametrize(
    ("members", "ids", "rows"),
    [
        (2, True, 0),
        pytest.param(2, False, 0, marks=pytest.mark.slow),
        pytest.param(3, True, 1 << 18, marks=pytest.mark.slow),
        pytest.param(1, True, 0, marks=pytest.mark.slow),
    ],
)
def test_ends_that_share_processes(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, members: int, ids: bool,
    rows: int,
) -> None:  # fmt: skip
    """Four senders in two processes; the three receivers of two queues, one without a message."""
    monkeypatch.setattr(digests, "MOST_ROWS", rows)
    made = Ends(9, 4, 3)
    made.received[1] += made.received[2]
    made.received[2] = []
    made.write_processes(tmp_path / "run", 2, members, ids=ids, queues=2)
    for path in (tmp_path / "run").glob("*-summary.json"):
        # The sending ends at the last send: what came later is in no rate.
        document = json.loads(path.read_text()) | {"complete": True}
        document["config"]["duration"] = 0.001
        path.write_text(json.dumps(document))
    found = check(spark, tmp_path / "run")
    senders, receivers = (
        [row for end in found["ends"] if end["role"] == role for row in end["members"]]
        for role in ("sender", "receiver")
    )
    assert [row["latency"]["count"] for row in receivers] == [*map(len, made.received)]
    assert sum(queue["latency"]["count"] for queue in found["queues"]) == sum(
        map(len, made.received)
    )
    if ids:
        delivery = found["delivery"]
        assert min(row["delivery"]["received"] for row in senders) > 0
        assert sum(row["delivery"]["unreceived"] for row in senders) == delivery["unreceived"]
        for key in ("reordered", "duplicate"):
            assert sum(row["delivery"][key] for row in receivers) == delivery[key] > 0


@pytest.mark.parametrize("members", [(2, 2), pytest.param((1, 1), marks=pytest.mark.slow)])
def test_receivers_that_each_get_every_message(
    spark: SparkSession, tmp_path: Path, members: tuple[int, int]
) -> None:
    made = Ends(10, 3, 3, fan_out=True)
    made.received[1][:9] = made.received[1][8::-1]
    made.write_processes(tmp_path / "run", *members)
    found = check(spark, tmp_path / "run")
    delivery = found["delivery"]
    assert delivery["copies"] == 3 * delivery["sent"]
    assert min(delivery[name] for name in ("unreceived", "duplicate", "reordered")) > 0
    assert found["fan_out"]["lacking"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("senders", "receivers", "ids"), [(3, 2, False), (1, 3, False), (2, 3, True)]
)
def test_ends_without_summaries(
    spark: SparkSession, tmp_path: Path, senders: int, receivers: int, ids: bool
) -> None:
    Ends(6, senders, receivers).write(tmp_path / "run", ids)
    found = check(spark, tmp_path / "run")
    assert (found["delivery"]["reordered"] is None) == (senders > 1 and not ids)


@pytest.mark.slow
def test_an_end_without_records(spark: SparkSession, tmp_path: Path) -> None:
    """A receiver that got nothing: others of its queue took all."""
    Ends(7, 1, 1).write(tmp_path / "run")
    (tmp_path / "run" / "receiver.1-transfers.csv").write_text("")
    found = check(spark, tmp_path / "run")
    assert [end["results"]["message_count"] for end in found["ends"]][2] == 0


@pytest.mark.parametrize(
    ("shape", "unit", "hashed"),
    [
        pytest.param((1, 1), "ms", False, marks=pytest.mark.slow),
        pytest.param((3, 1), "us", True, marks=pytest.mark.slow),
        ((2, 3), "ns", False),
    ],
)
def test_the_ledger_of_a_run_with_failures(
    spark: SparkSession, tmp_path: Path, shape: tuple[int, int], unit: str, hashed: bool
) -> None:
    run = FailingRun(random.Random(1), *shape, unit=unit, hashed=hashed, messages=400)
    run.write(tmp_path / "run")
    ledger = check(spark, tmp_path / "run")["sections"]["ledger"]
    assert ledger["redelivered"] > 0
    assert any(one["receiver_gap"] for one in ledger["failures"])


def test_a_ledger_without_receipts(spark: SparkSession, tmp_path: Path) -> None:
    run = FailingRun(random.Random(1), 3, 1)
    for lines in run.lines["receiver"]:
        lines.clear()
    run.write(tmp_path / "run")
    ledger = check(spark, tmp_path / "run")["sections"]["ledger"]
    assert ledger["acknowledged_unreceived"] > 0


def test_one_side_alone_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "sender.0-transfers.csv").write_text("1,1700000000000\n")
    with pytest.raises(RecordError, match="has no receivers"):
        load_run(spark, the_run(tmp_path), ignore, Wanted())


@pytest.mark.slow
def test_the_command(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Ends(8, 2, 2).write(tmp_path / "run")
    documents = []
    for engine in ("local", "spark"):
        words = [str(tmp_path / "run"), "--json", "--quiet", "--engine", engine]
        assert quiver_analyze(words) == 0
        documents.append(json.loads(capsys.readouterr().out))
    here, there = documents
    assert (here.pop("engine"), there.pop("engine")) == ("local", "spark")
    assert there == as_json(here)
