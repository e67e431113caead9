"""A real cluster, a master and two workers as processes of this machine; and spark-submit."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.peers import why_missing
from support.processes import Finished, run
from support.record_files import Traffic, receiver_lines, write, write_pair
from support.spark_cluster import JAVA, SETTINGS, cluster, program
from support.spark_runs import as_json

from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run

if why_missing("spark") is None:
    from spark_analysis import jobs

LIMIT = 200
# A master, its workers and their executors are Java machines, each of which starts for seconds.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * LIMIT)]


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster with two workers of one core each."""
    with cluster(tmp_path_factory.mktemp("cluster"), 1) as url:
        yield url


def analyse(master: str, folder: Path, *settings: str) -> Finished:
    words = [str(folder), "--engine", "spark", "--master", master, "--json", "--quiet"]
    for setting in (*SETTINGS, *settings):
        words += ["--conf", setting]
    command = [sys.executable, "-m", "quiver_fast.cli.analyze.command", *words]
    return run(command, timeout=LIMIT, env=JAVA)


def test_executors_that_lack_what_they_need(master: str, tmp_path: Path) -> None:
    write_pair(tmp_path / "run", Traffic(1, 100), "v3")
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    python = bare / "bin" / "python"
    finished = analyse(master, tmp_path / "run", f"spark.pyspark.python={python}")
    [line] = [line for line in finished.stderr.splitlines() if line.startswith("quiver-analyze")]
    where = f"executors lack packages of the analysis: on {socket.gethostname()} ({python})"
    lacks = "no quiver-fast, no fsspec, no numpy, no pandas, no pyarrow, no zstandard"
    assert line == f"quiver-analyze: error: {where}: {lacks}"
    assert finished.code == 1
    assert "Traceback" not in finished.stderr


def test_an_environment_travels_as_an_archive(master: str, tmp_path: Path) -> None:
    """As docs/spark.md says: venv-pack, --archives and the Python in it."""
    write_pair(tmp_path / "run", Traffic(1, 2000), "v1")
    archive = tmp_path / "environment.tar.gz"
    words = ["--prefix", sys.prefix, "--output", str(archive), "--compress-level", "1"]
    # Executors have Spark's own PySpark; the rest is for tests.
    for left_out in ("pyspark", "resvg*", "*polars*", "*duckdb*", "mypy*", "scipy*", "grpc*"):
        words += ["--exclude", f"*/site-packages/{left_out}/*"]
    packed = run([sys.executable, "-m", "venv_pack", *words], timeout=LIMIT)
    assert packed.code == 0, packed.stderr
    finished = analyse(
        master,
        tmp_path / "run",
        f"spark.archives={archive}#environment",
        "spark.pyspark.python=./environment/bin/python",
    )
    assert finished.code == 0, finished.stderr
    [files] = find_runs([str(tmp_path / "run")])
    here = load_run(files, lambda _done, _total: None)
    assert json.loads(finished.stdout)["delivery"] == as_json(here.delivery)


def test_spark_submit_on_a_cluster(master: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    lines = receiver_lines(Traffic(1, 2000), "v3")
    write(tmp_path / "run" / "receiver-transfers.csv", lines)
    output = tmp_path / "out"
    options = ["--master", master]
    for setting in SETTINGS:
        options += ["--conf", setting]
    job = [jobs.__file__, str(tmp_path / "run"), "--output", str(output)]
    environment = JAVA | {"PYSPARK_PYTHON": sys.executable}
    finished = run([program("spark-submit"), *options, *job], timeout=LIMIT, env=environment)
    assert finished.code == 0, finished.stderr
    [files] = find_runs([str(tmp_path / "run")])
    here = load_run(files, lambda _done, _total: None).receiver
    there = json.loads((output / "summaries" / "run" / "receiver-summary.json").read_text())
    del there["analysis"]
    assert there == as_json(here)
