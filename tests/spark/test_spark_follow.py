"""Following: each batch costs what is new, counts once, and the end is what a job gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest
from support.peers import why_missing
from support.record_files import Traffic, append, receiver_lines, sender_lines, with_streams
from support.spark_events import await_events, patiently
from support.spark_runs import as_json

from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run

if why_missing("spark") is None:
    from spark_analysis import incremental, range_facts
    from spark_analysis.jobs import finish_following, start_following

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

# Minutes of work: the gate has `test_spark_jobs.py::test_growing_files_are_followed`.
pytestmark = pytest.mark.slow

BATCHES = 10
LINES = 4000


def nothing() -> None:
    """Judge nothing."""


class Growing:
    """Files of records that grow part by part, and the query that follows them."""

    def __init__(self, spark: SparkSession, folder: Path, files: dict[str, list[str]]) -> None:
        self._spark, self._folder, self._files = spark, folder, files
        self.output = folder / "out"
        self.paths = [str(folder / "live")]
        # Rows of the tables after each batch.
        self.tables: list[int] = []

    def take(self, *parts: tuple[float, float], judge: Callable[[], None] = nothing) -> list[int]:
        """Append parts of all files, a batch for each; return the rows that each batch read.

        Those of the text, and those of the Parquet that earlier batches left.

        Args:
            parts: which part of the lines comes in each batch.
            judge: called after every batch.
        """
        query, rows, batch = None, [], -1
        try:
            for begin, end in parts:
                _, last = rows_read(self._spark)
                for name, lines in self._files.items():
                    part = lines[int(begin * len(lines)) : int(end * len(lines))]
                    append(self._folder / "live" / name, "".join(part))
                if query is None:
                    query = patiently(self._start)
                query.processAllAvailable()
                of_files, _ = rows_read(self._spark, last)
                # A look at the files while some of them have grown makes two batches of a part.
                new = [each for each in query.recentProgress if each["batchId"] > batch]
                rows.append(sum(each["numInputRows"] for each in new) + of_files)
                batch = max(each["batchId"] for each in new if each["numInputRows"])
                self.tables.append(rows_of_tables(self.output))
                judge()
        finally:
            if query is not None:
                query.stop()
        return rows

    def _start(self) -> StreamingQuery:
        query = start_following(self._spark, self.paths, self.output)
        query.processAllAvailable()
        return query

    def finish(self) -> None:
        finish_following(self._spark, self.paths, self.output)

    def check(self, run: str) -> None:
        """Hold every summary of a run equal to the local backend's."""
        [files] = find_runs([f"{self.paths[0]}/{run}"])
        here = load_run(files, lambda _done, _total: None)
        for role, expected in (("sender", here.sender), ("receiver", here.receiver)):
            if expected is None:
                continue
            found = self.summary(f"live/{run}/{role}")
            analysis = found.pop("analysis")
            assert found == as_json(expected)
            if role == "receiver":
                assert analysis == as_json(run_statistics(here))

    def summary(self, name: str) -> Any:
        return json.loads((self.output / "summaries" / f"{name}-summary.json").read_text())


def rows_of_tables(output: Path) -> int:
    """Return how many rows the facts and what is said of ranges have."""
    files = (output / "facts").rglob("*.parquet")
    return sum(pyarrow.parquet.read_metadata(file).num_rows for file in files)


def rows_read(spark: SparkSession, after: int = -1) -> tuple[int, int]:
    """Return how many rows the tasks read from files, and the last stage.

    Args:
        spark: the session.
        after: only the stages after this one.
    """
    await_events(spark)
    context = spark.sparkContext
    gateway = context._gateway
    quantiles = gateway.new_array(gateway.jvm.double, 0)
    states = gateway.jvm.java.util.ArrayList()
    stages = context._jsc.sc().statusStore().stageList(None, False, False, quantiles, states)
    found = {}
    each = stages.iterator()
    while each.hasNext():
        stage = each.next()
        found[stage.stageId()] = stage.inputRecords()
    return sum(rows for number, rows in found.items() if number > after), max(found, default=-1)


def parts(count: int) -> list[tuple[float, float]]:
    return [(n / count, (n + 1) / count) for n in range(count)]


def cost_of(spark: SparkSession, folder: Path, batches: int) -> list[int]:
    lines = receiver_lines(Traffic(11, batches * LINES, rate=LINES), "v3")
    followed = Growing(spark, folder, {"run/receiver-transfers.csv": lines})
    rows = followed.take(*parts(batches))
    followed.check("run")
    return rows


def pairs(count: int, *formats: str, **how: Any) -> dict[str, list[str]]:
    """Return the lines of a pair of each format: with ids, with settlements too, without.

    Those of v3 have lines of streaming mode too.
    """
    files = {}
    for number, record_format in enumerate(formats):
        traffic = Traffic(number, count, **how)
        for role, lines in (("sender", sender_lines), ("receiver", receiver_lines)):
            found = lines(traffic, record_format)
            if record_format == "v3":
                found = with_streams(found, traffic, apart=100)
            files[f"{record_format}/{role}-transfers.csv"] = found
    return files


def with_one_end(count: int, **how: Any) -> dict[str, list[str]]:
    """Return the lines of runs with one end and ids: a receiver, and a sender with settlements."""
    traffic = Traffic(14, count, **how)
    return {
        "receives/receiver-transfers.csv": receiver_lines(traffic, "v1"),
        "sends/sender-transfers.csv": sender_lines(traffic, "v2"),
    }


def test_a_batch_costs_what_is_new(spark: SparkSession, tmp_path: Path) -> None:
    """A second of messages is a batch. Eight folders of batches become one."""
    rows = cost_of(spark, tmp_path, BATCHES)
    # The eighth reads all of the eight once more.
    assert sum(rows[-2:]) <= 1.5 * sum(rows[1:3]), rows
    assert rows[7] <= rows[1] + 10 * LINES, rows
    folders = {path.name for path in (tmp_path / "out" / "records").glob("batch=*")}
    assert folders == {"batch=7", "batch=8", "batch=9"}
    records = spark.read.parquet(str(tmp_path / "out" / "records")).where("kind = 'transfer'")
    [[lines]] = records.selectExpr("sum(n)").collect()
    assert lines == len(receiver_lines(Traffic(11, BATCHES * LINES, rate=LINES), "v3"))


@pytest.mark.timeout(1800)
def test_fifty_batches_cost_the_same(spark: SparkSession, tmp_path: Path) -> None:
    rows = cost_of(spark, tmp_path, 50)
    print(rows)
    assert sum(rows[-10:]) <= 1.5 * sum(rows[1:11]), rows


def check_every_batch(spark: SparkSession, folder: Path, *formats: str) -> None:
    """Follow pairs and single ends; a job that is killed has its last batch again."""
    files = pairs(2 * LINES, *formats, rate=1500) | with_one_end(2 * LINES, rate=1500)
    files["alone/receiver-transfers.csv"] = receiver_lines(Traffic(12, LINES), "v3")
    followed = Growing(spark, folder, files)

    def judge() -> None:
        for run in ("alone", "receives", "sends", *formats):
            followed.check(run)

    rows = followed.take((0, 0.5), (0.5, 0.51), judge=judge)
    # Earlier records are read only in the same range of ids or ticks, and no text.
    assert rows[1] < rows[0] / 2, rows
    commits = folder / "out" / "checkpoint" / "commits"
    newest = max(int(commit.name) for commit in commits.iterdir() if commit.name.isdigit())
    for commit in (commits / f"{newest}", commits / f".{newest}.crc"):
        commit.unlink(missing_ok=True)
    followed.take((0.51, 1), judge=judge)
    before = {path: path.read_text() for path in (folder / "out" / "summaries").rglob("*.json")}
    followed.finish()
    assert {path: path.read_text() for path in before} == before


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a range of ids be as long as one of ticks here."""
    monkeypatch.setattr(range_facts, "_ID_BITS", 10)


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("small_ranges")
def test_results_are_whole_after_every_batch(spark: SparkSession, tmp_path: Path) -> None:
    check_every_batch(spark, tmp_path, "v2", "v3")


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("unit", ["us", "ns"])
def test_pairs_of_other_clocks(spark: SparkSession, tmp_path: Path, unit: str) -> None:
    followed = Growing(spark, tmp_path, pairs(LINES, "v1", "v3", rate=1500, unit=unit))

    def judge() -> None:
        for run in ("v1", "v3"):
            followed.check(run)

    followed.take(*parts(4), judge=judge)


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("record_format", ["v2", "v3"])
def test_fifty_batches_of_a_pair_cost_the_same(
    spark: SparkSession, tmp_path: Path, record_format: str
) -> None:
    followed = Growing(spark, tmp_path, pairs(50 * LINES, record_format, rate=LINES))
    rows = followed.take(*parts(50))
    followed.check(record_format)
    print(record_format, rows, followed.tables)
    # A batch reads the tables, at most five times, whose rows are those of the results.
    growth = (followed.tables[-1] - followed.tables[0]) / 49
    assert growth <= 250, followed.tables
    before = [0, *followed.tables[:-1]]
    records = [count - 5 * tables for count, tables in zip(rows, before, strict=True)]
    # Batches 8, 16, ... read what they compact besides.
    plain = [count for number, count in enumerate(records, 1) if number % 8]
    assert sum(plain[-10:]) <= 1.5 * sum(plain[1:11]), rows


@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("small_ranges")
def test_fifty_batches_of_one_end_with_ids_cost_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    followed = Growing(spark, tmp_path, with_one_end(50 * LINES, rate=LINES))
    rows = followed.take(*parts(50))
    for run in ("receives", "sends"):
        followed.check(run)
    print(rows)
    plain = [count for number, count in enumerate(rows, 1) if number % 8]
    assert sum(plain[-10:]) <= 1.5 * sum(plain[1:11]), rows


@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("small_ranges")
def test_a_batch_in_many_ranges_is_made_up_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of such a batch is in no later batch, but in the next whole analysis."""
    followed = Growing(spark, tmp_path, pairs(2 * LINES, "v1") | with_one_end(2 * LINES))
    followed.take((0, 0.8))
    with monkeypatch.context() as few:
        few.setattr(incremental, "MOST_RANGES", 0)
        followed.take((0.8, 0.81))
    followed.take((0.81, 0.82))
    followed.finish()
    for run in ("v1", "receives", "sends"):
        followed.check(run)


def named(lines: list[str]) -> list[str]:
    """Return records with ids that are no numbers."""
    return [f"m-{line}" for line in lines]


@pytest.mark.timeout(3600)
def test_ids_that_are_hashes_are_read_nine_times_at_most(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A batch adds a seventh to what is there."""
    traffic = Traffic(13, 10 * LINES, rate=LINES)
    files = {
        f"named/{role}-transfers.csv": named(lines(traffic, "v1"))
        for role, lines in (("sender", sender_lines), ("receiver", receiver_lines))
    }
    followed = Growing(spark, tmp_path, files)
    shares = [0.2 * 1.15**n for n in range(12)]
    rows = followed.take(*pairwise([0.0, *shares]))
    followed.finish()
    followed.check("named")
    records = spark.read.parquet(str(tmp_path / "out" / "records")).count()
    print(records, rows)
    assert sum(rows) <= 10 * records, (records, rows)
