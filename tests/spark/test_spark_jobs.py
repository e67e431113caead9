"""The job as users start it: folders in, tables and summaries out; errors are one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from support.peers import why_missing
from support.record_files import Traffic, receiver_lines, write, write_pair

from quiver_fast.analysis.delivery import reconcile
from quiver_fast.analysis.settlement import settlement_latency
from quiver_fast.analysis.summary import receiver_sections, sender_sections
from quiver_fast.errors import UsageError
from quiver_fast.records.parser import read_transfers

if why_missing("spark") is None:
    from pyspark.testing import assertDataFrameEqual

    from spark_analysis import schema
    from spark_analysis.jobs import analyze, follow, second_histogram
    from spark_analysis.source import QuiverSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOBS = [sys.executable, "-m", "spark_analysis.jobs"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; a receiver's records end with bad lines and a truncated one."""
    top = tmp_path_factory.mktemp("runs")
    write_pair(top / "a", Traffic(5, 3000), "v2")
    write_pair(top / "b", Traffic(6, 3000), "v3")
    with (top / "b" / "receiver-transfers.csv").open("a") as lines:
        lines.write("not a record\n1,2,3\n17")
    (top / "a" / "sender-summary.json").write_text(json.dumps({"config": {"impl": "pyfast"}}))
    return top


@pytest.fixture(scope="module")
def output(spark: SparkSession, runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("job") / "out"
    analyze(spark, [str(runs)], folder)
    return folder


def summary(output: Path, runs: Path, run: str, arrow: str) -> Any:
    path = output / "summaries" / runs.name / run / f"{arrow}-summary.json"
    return json.loads(path.read_text())


@pytest.mark.parametrize("run", ["a", "b"])
def test_summaries_are_the_local_ones(output: Path, runs: Path, run: str) -> None:
    sender = read_transfers(runs / run / "sender-transfers.csv")
    receiver = read_transfers(runs / run / "receiver-transfers.csv")
    sending, receiving = sender_sections(sender), receiver_sections(receiver)
    found = summary(output, runs, run, "sender")
    assert found["results"] == sending["results"]
    assert found.get("settlement") == approximately(settlement_latency(sender))
    found = summary(output, runs, run, "receiver")
    assert found["results"] == approximately(receiving["results"])
    assert found["latency"] == approximately(receiving["latency"])
    assert found["delivery"] == reconcile(sender, receiver)
    for name in ("format", "time_unit", "malformed", "truncated"):
        assert found["records"][name] in (receiving["records"][name], "v1")


def approximately(value: Any) -> Any:
    """Integers and percentiles as they are; means to 1e-9."""
    if isinstance(value, dict):
        return {name: approximately(item) for name, item in value.items()}
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


def test_config_is_the_summarys_beside_the_records(output: Path, runs: Path) -> None:
    assert summary(output, runs, "a", "sender")["config"] == {"impl": "pyfast"}
    assert summary(output, runs, "a", "receiver")["config"]["operation"] == "receive"


def test_bad_lines_are_a_partition(spark: SparkSession, output: Path, runs: Path) -> None:
    folder = output / "records" / f"run={runs.name}%2Fb" / "role=receiver"
    bad = spark.read.parquet(str(folder / "kind=bad")).orderBy("position")
    assert [row.text for row in bad.collect()] == ["not a record", "1,2,3"]


def test_histogram_is_the_shared_model(spark: SparkSession, output: Path, runs: Path) -> None:
    receiver = read_transfers(runs / "a" / "receiver-transfers.csv")
    assert receiver.received is not None
    histogram = second_histogram(spark, output, f"{runs.name}/a", "receiver")
    values, counts = np.unique(receiver.received - receiver.sent, return_counts=True)
    assert histogram.overall()[0].tolist() == values.tolist()
    assert histogram.overall()[1].tolist() == counts.tolist()


def test_the_source_gives_the_same_rows(spark: SparkSession, output: Path, runs: Path) -> None:
    spark.dataSource.register(QuiverSource)
    loaded = spark.read.format("quiver").load(str(runs))
    columns = [name for name in schema.RECORDS.fieldNames() if name != "file"]
    kept = spark.read.schema(schema.RECORDS).parquet(str(output / "records"))
    assertDataFrameEqual(loaded.select(*columns), kept.select(*columns))


def test_again_and_compared(spark: SparkSession, output: Path, runs: Path) -> None:
    """The same job again, compared with itself: it takes the first one's place."""
    path = output / "summaries" / runs.name / "b" / "receiver-summary.json"
    before, inode = path.read_text(), path.stat().st_ino
    analyze(spark, [str(runs)], output, base=output)
    assert path.read_text() == before
    assert path.stat().st_ino != inode
    rows = spark.read.parquet(str(output / "comparison")).collect()
    assert len(rows) == 4
    assert {row.messages_change for row in rows} == {0.0}
    assert [entry.name for entry in output.parent.iterdir()] == [output.name]


def test_other_peoples_folders_are_left_alone(spark: SparkSession, runs: Path) -> None:
    with pytest.raises(UsageError, match="not the output of a job"):
        analyze(spark, [str(runs)], runs)


def test_growing_files_are_followed(spark: SparkSession, tmp_path: Path) -> None:
    lines = receiver_lines(Traffic(7, 2000), "v3")
    path = tmp_path / "run" / "receiver-transfers.csv"
    path.parent.mkdir()
    write(path, lines[:700])

    first = tmp_path / "out" / "records" / "batch=0"

    def grow() -> None:
        while not first.exists():
            time.sleep(0.1)
        text = "".join(lines[700:])
        with path.open("a") as file:
            for part in (text[:9001], text[9001:]):
                file.write(part)
                file.flush()
                time.sleep(0.5)

    writer = threading.Thread(target=grow, daemon=True)
    writer.start()
    follow(spark, [str(path.parent)], tmp_path / "out", timeout=8)
    writer.join(timeout=1)
    assert not writer.is_alive()
    found = json.loads((tmp_path / "out/summaries/run/receiver-summary.json").read_text())
    expected = receiver_sections(read_transfers(path))
    assert found["results"] == approximately(expected["results"])
    assert len(list((tmp_path / "out" / "records").glob("batch=*"))) > 1


@pytest.mark.parametrize(
    ("java_home", "reason"),
    [("/nowhere", "and none is in JAVA_HOME"), (None, "no files of records")],
)
def test_an_error_is_one_line(tmp_path: Path, java_home: str | None, reason: str) -> None:
    environment = dict(os.environ)
    if java_home is not None:
        environment["JAVA_HOME"] = java_home
    command = [*JOBS, str(tmp_path / "nothing"), "--output", str(tmp_path / "out")]
    result = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode in (1, 2)
    [line] = [line for line in result.stderr.splitlines() if line.startswith("quiver-analysis")]
    assert reason in line
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "out").exists()
