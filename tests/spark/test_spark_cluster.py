"""A real cluster, a master and two workers as processes of this machine; and spark-submit."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.peers import why_missing
from support.processes import Running, free_port, run
from support.record_files import Traffic, write_pair

from quiver_fast.analysis.discovery import find_runs
from quiver_fast.analysis.sources import load_run

if why_missing("spark") is None:
    import pyspark

    from spark_analysis import jobs

LIMIT = 100
# Small Java machines on a small computer.
JAVA = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "SPARK_DAEMON_MEMORY": "256m",
}
SETTINGS = [
    "spark.driver.host=127.0.0.1",
    "spark.executor.memory=512m",
    "spark.sql.shuffle.partitions=2",
    # As in conftest.py: nothing here pays the compiling of a query back.
    "spark.sql.codegen.wholeStage=false",
    "spark.sql.adaptive.enabled=false",
]


def program(name: str) -> str:
    return str(Path(pyspark.__file__).parent / "bin" / name)


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The URL of a cluster with two workers of one core each."""
    port = free_port()
    where = ["--host", "127.0.0.1", "--webui-port", "0"]
    environment = JAVA | {"PYSPARK_PYTHON": sys.executable}
    deploy = [program("spark-class"), "org.apache.spark.deploy"]
    with ExitStack() as stack:

        def start(kind: str, *words: str) -> Running:
            command = [deploy[0], f"{deploy[1]}.{kind}", *where, *words]
            return stack.enter_context(Running(command, env=environment))

        url = f"spark://127.0.0.1:{port}"
        start("master.Master", "--port", str(port)).wait_until_listening(port)
        for number in range(2):
            room = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / f"{number}")]
            start("worker.Worker", *room, url)
        yield url


def test_spark_submit_on_a_cluster(master: str, tmp_path: Path) -> None:
    write_pair(tmp_path / "run", Traffic(1, 2000), "v3")
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
    assert there == json.loads(json.dumps(here))
