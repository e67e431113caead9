"""The job as users start it: folders in, tables and summaries out; errors are one line."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.peers import why_missing
from support.record_files import Traffic, append, receiver_lines, write_pair
from support.spark_events import patiently
from support.spark_runs import as_json
from support.summaries import config as configured

from quiver_fast.analysis.compare.sets import changes_of, compare_figures, run_figures
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.errors import UsageError

if why_missing("spark") is None:
    from pyspark.testing import assertDataFrameEqual

    from spark_analysis import replacement, schema
    from spark_analysis.batch_job import analyze
    from spark_analysis.jobs import follow, make_parser, start_following
    from spark_analysis.source import QuiverSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

JOBS = [sys.executable, "-m", "spark_analysis.jobs"]
# A job that is killed while it writes.
KILLED_JOB = """
import os, signal, sys
from pathlib import Path
from spark_analysis import batch_job
batch_job.read_records = lambda spark, files: None
batch_job.write_records = lambda records, folder: os.kill(os.getpid(), signal.SIGKILL)
batch_job.analyze(None, [sys.argv[1]], Path(sys.argv[2]))
"""
FORMATS = ("v2", "v3", "v1", "v3", "v3", "v3")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six runs of 15 seconds; one receiver's records end with bad lines and a truncated one."""
    top = tmp_path_factory.mktemp("runs")
    for number, record_format in enumerate(FORMATS):
        write_pair(top / f"run{number}", Traffic(number, 3000, rate=200), record_format)
    with (top / "run1" / "receiver-transfers.csv").open("a") as lines:
        lines.write("not a record\n1,2,3\n17")
    config = {"config": configured("send", rate=200)}
    (top / "run0" / "sender-summary.json").write_text(json.dumps(config))
    return top


@pytest.fixture(scope="module")
def here(runs: Path) -> dict[str, RunData]:
    """The results of the local backend, by the name of the run."""
    found = (load_run(run, lambda _done, _total: None) for run in find_runs([str(runs)]))
    return {Path(run.name).name: run for run in found}


@pytest.fixture(scope="module", autouse=True)
def six_runs_are_a_series() -> Iterator[None]:
    """Both backends look for change points in six runs: twelve take a minute more."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quiver_fast.analysis.compare.sets.MINIMUM_RUNS", len(FORMATS))
        yield


@pytest.fixture(scope="module")
def output(spark: SparkSession, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "out"
    analyze(spark, [str(runs)], folder)
    return folder


def summary(output: Path, *names: str) -> Any:
    run, arrow = "/".join(names[:-1]), names[-1]
    return json.loads((output / "summaries" / run / f"{arrow}-summary.json").read_text())


def test_summaries_are_the_local_ones(output: Path, runs: Path, here: dict[str, RunData]) -> None:
    assert here.keys() == {f"run{number}" for number in range(len(FORMATS))}
    for name, run in here.items():
        sender = summary(output, runs.name, name, "sender")
        del sender["analysis"]
        assert sender == as_json(run.sender)
        receiver = summary(output, runs.name, name, "receiver")
        assert receiver.pop("analysis") == as_json(run_statistics(run))
        assert receiver == as_json(run.receiver)
    assert summary(output, runs.name, "run0", "sender")["config"]["impl"] == "pyfast"


def test_change_points_are_the_local_ones(
    output: Path, runs: Path, here: dict[str, RunData]
) -> None:
    found = json.loads((output / "changes.json").read_text())
    expected = as_json(changes_of([*map(run_figures, here.values())]))
    assert found["figures"] == expected["figures"]
    assert found["runs"] == [f"{runs.name}/{Path(name).name}/receiver" for name in expected["runs"]]


def test_bad_lines_are_a_partition(spark: SparkSession, output: Path, runs: Path) -> None:
    folder = output / "records" / f"run={runs.name}%2Frun1" / "role=receiver"
    bad = spark.read.parquet(str(folder / "kind=bad")).orderBy("position")
    assert [row.text for row in bad.collect()] == ["not a record", "1,2,3"]


def test_the_source_gives_the_same_rows(spark: SparkSession, output: Path, runs: Path) -> None:
    spark.dataSource.register(QuiverSource)
    loaded = spark.read.format("quiver").load(str(runs / "run1"))
    columns = [name for name in schema.RECORDS.fieldNames() if name not in ("file", "run")]
    kept = spark.read.schema(schema.RECORDS).parquet(str(output / "records"))
    kept = kept.where(kept.run == f"{runs.name}/run1")
    assertDataFrameEqual(loaded.select(*columns), kept.select(*columns))


@pytest.mark.slow
def test_again_and_compared(
    spark: SparkSession, output: Path, runs: Path, here: dict[str, RunData], tmp_path: Path
) -> None:
    """The same job again, compared with itself and a copy: it takes the first one's place.

    The folder of a killed job beside it is gone then.
    """
    copy = shutil.copytree(output, tmp_path / "copy")
    killed = subprocess.run(
        [sys.executable, "-c", KILLED_JOB, str(runs), str(output)], timeout=200, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list(output.parent.iterdir())) == 2
    path = output / "summaries" / runs.name / "run1" / "receiver-summary.json"
    before, inode = path.read_text(), path.stat().st_ino
    analyze(spark, [str(runs)], output, bases=[output, copy, output / ".." / output.name])
    assert path.read_text() == before
    assert path.stat().st_ino != inode
    found = json.loads((output / "comparison.json").read_text())
    every = here.values()
    assert len(found["base"]) == 2 * len(every)
    compared = compare_figures([*map(run_figures, every * 2)], [*map(run_figures, every)])
    assert found["figures"] == as_json(compared["figures"])
    assert found["verdict"] == compared["verdict"] not in ("better", "worse")
    assert [entry.name for entry in output.parent.iterdir()] == [output.name]


def test_a_folder_is_there_while_it_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "out"
    seen: list[bool] = []
    with ThreadPoolExecutor(1) as executor:
        for number in range(200):
            new = replacement.new_part(target)
            (new / "number").write_text(str(number))
            replacement.replace(new, target)
            if number == 0:
                looks = executor.submit(lambda: [seen.append(target.exists()) for _ in range(5000)])
            assert (target / "number").read_text() == str(number)
        looks.result()
    assert all(seen)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_was_moved_away_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that cannot exchange names, and a job killed between its two renames."""
    target = tmp_path / "out"
    replacement.new_part(target).rename(target)
    (target / "number").write_text("1")
    replacement.new_part(target)
    monkeypatch.setattr(replacement, "_exchanged", lambda *_: False)

    target.rename(replacement._beside(target, "old"))
    assert not target.exists()
    replacement.recover(target)
    assert (target / "number").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    replacement.replace(replacement.new_part(target), target)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert not list(target.iterdir())


@pytest.mark.parametrize("odd", [0, 1])
def test_each_folder_to_compare_with_is_looked_at(
    spark: SparkSession, output: Path, runs: Path, tmp_path: Path, odd: int
) -> None:
    """Given twice, the last one alone was compared with."""
    folders = [output, output]
    folders[odd] = runs
    words = [str(runs), "--output", str(tmp_path / "out")]
    options = make_parser().parse_args([*words, *(f"--compare={folder}" for folder in folders)])
    with pytest.raises(UsageError, match=f"'{runs}' is not the output of a job"):
        analyze(spark, options.paths, options.output, options.compare)


def test_other_peoples_folders_are_left_alone(spark: SparkSession, runs: Path) -> None:
    with pytest.raises(UsageError, match="not the output of a job"):
        analyze(spark, [str(runs)], runs)


@pytest.mark.slow
def test_growing_files_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    """Each part is written when the one before is processed: nothing depends on time.

    Ids are texts: those of all parts are compared, so that all have one key.
    """
    text = "".join(f"m-{line}" for line in receiver_lines(Traffic(7, 2000), "v1"))
    path, output = tmp_path / "run" / "receiver-transfers.csv", tmp_path / "out"
    append(path, text[:20_001])

    def start() -> StreamingQuery:
        query = start_following(spark, [str(path.parent)], output)
        query.processAllAvailable()
        return query

    query = patiently(start)
    try:
        whole_lines = text[:20_001].count("\n")
        assert summary(output, "run", "receiver")["results"]["message_count"] == whole_lines
        append(path, text[20_001:40_003])
        query.processAllAvailable()
    finally:
        query.stop()
    # From the checkpoint on, until it is quiet.
    append(path, text[40_003:])
    patiently(lambda: follow(spark, [str(path.parent)], output, timeout=1.5))
    [run] = find_runs([str(path)])
    expected = as_json(load_run(run, lambda _done, _total: None).receiver)
    found = summary(output, "run", "receiver")
    del found["analysis"]
    assert found == expected
    assert found["delivery"]["duplicate"] > 0
    assert len(list((output / "records").glob("batch=*"))) == 3


@pytest.mark.parametrize(
    ("java_home", "reason"),
    [("/nowhere", "and none is in JAVA_HOME"), (None, "no files of records")],
)
def test_an_error_is_one_line(
    runs: Path, tmp_path: Path, java_home: str | None, reason: str
) -> None:
    environment, paths = dict(os.environ), tmp_path / "nothing"
    if java_home is not None:
        environment["JAVA_HOME"], paths = java_home, runs
    command = [*JOBS, str(paths), "--output", str(tmp_path / "out")]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert result.returncode in (1, 2)
    [line] = [line for line in result.stderr.splitlines() if line.startswith("quiver-analysis")]
    assert reason in line
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
