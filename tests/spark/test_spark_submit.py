"""Where the analysis runs: a machine that does not know its name, Spark Connect, executors."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from support.peers import why_missing
from support.processes import Running, free_port, run, wait_until
from support.record_files import Traffic, receiver_lines, write, write_pair

from quiver_fast import __version__
from quiver_fast.cli.analyze.command import main as quiver_analyze
from quiver_fast.errors import QuiverError

if why_missing("spark") is None:
    import pyspark
    from pyspark import cloudpickle
    from pyspark.errors import PySparkRuntimeError

    from spark_analysis import executors, session
    from spark_analysis.jobs import main as job

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = 200
JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
COUNT_LOCALLY = """
from spark_analysis.session import make_session
spark = make_session("local[1]")
print(spark.range(7).count())
spark.stop()
"""
COUNT_BY_CONNECT = """
import sys
from pyspark.sql import SparkSession
from spark_analysis.source import QuiverSource
spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
spark.dataSource.register(QuiverSource)
print(spark.read.format("quiver").load(sys.argv[2]).where("kind = 'transfer'").count())
"""


@pytest.mark.slow  # This one and the next start Java machines of their own.
def test_a_machine_that_does_not_know_its_own_name() -> None:
    """As in a container whose name is in no list of hosts: a local master uses the loopback."""
    name = "quiver-fast-test-of-no-such-name"
    with pytest.raises(socket.gaierror):
        socket.gethostbyname(name)
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if subprocess.run(["unshare", *user, "--uts", "true"], check=False).returncode != 0:
        pytest.skip("no namespaces here")
    line = f'hostname {name} && exec "$@"'
    command = ["unshare", *user, "--uts", "sh", "-c", line, "sh", sys.executable]
    finished = run([*command, "-c", COUNT_LOCALLY], timeout=LIMIT, env=JAVA)
    assert (finished.code, finished.lines) == (0, ["7"]), finished.stderr


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The URL of a Spark Connect server, a process of its own."""
    port = free_port()
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": 2,
        "spark.ui.enabled": "false",
    }
    command = [str(submit), "--master", "local[2]"]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    service = "org.apache.spark.sql.connect.service.SparkConnectServer"
    environment = JAVA | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    with Running([*command, "--class", service, "spark-internal"], env=environment) as running:
        wait_until(
            lambda: running.listens_on(port) or running.process.poll() is not None,
            "the Connect server listens",
            LIMIT,
        )
        assert running.process.poll() is None, running.wait().stderr
        yield f"sc://127.0.0.1:{port}"


def document(*words: str) -> Any:
    """Return what the command prints, in a process: one has either Connect or its own Java."""
    command = [sys.executable, "-m", "quiver_fast.cli.analyze.command", *words, "--json", "--quiet"]
    finished = run(command, timeout=LIMIT)
    assert finished.code == 0, finished.stderr
    found = json.loads(finished.stdout)
    del found["engine"]
    return found


def check_by_connect(server: str, folder: Path) -> None:
    there = document(str(folder), "--engine", "spark", "--master", server)
    assert there == document(str(folder), "--engine", "local")


@pytest.mark.slow
@pytest.mark.timeout(3 * LIMIT)
def test_by_spark_connect(server: str, tmp_path: Path) -> None:
    """Relative paths too: the server has another working directory."""
    lines = receiver_lines(Traffic(3, 3000), "v3")
    write(tmp_path / "receiver-transfers.csv", lines)
    summary = {"complete": False, "reason": "as the summary says"}
    (tmp_path / "receiver-summary.json").write_text(json.dumps(summary))
    check_by_connect(server, Path(os.path.relpath(tmp_path)))
    command = [sys.executable, "-c", COUNT_BY_CONNECT, server, str(tmp_path)]
    finished = run(command, timeout=LIMIT)
    assert finished.code == 0, finished.stderr
    assert 0 < int(finished.stdout) <= len(lines)


@pytest.mark.slow
@pytest.mark.timeout(3 * LIMIT)
def test_pairs_and_jobs_by_spark_connect(server: str, tmp_path: Path) -> None:
    write_pair(tmp_path / "run", Traffic(4, 3000), "v1")
    check_by_connect(server, tmp_path / "run")
    found = []
    for extra in ([], ["--follow", "--timeout", "3"]):
        output = tmp_path / f"out{len(extra)}"
        words = [str(tmp_path / "run"), "--output", str(output), "--master", server, *extra]
        finished = run([sys.executable, "-m", "spark_analysis.jobs", *words], timeout=LIMIT)
        assert finished.code == 0, finished.stderr
        found.append((output / "summaries" / "run" / "receiver-summary.json").read_text())
    assert found[0] == found[1]


def test_settings(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A session that there is takes those which may change."""
    name = "spark.sql.files.maxRecordsPerFile"
    before = spark.conf.get(name)
    write(tmp_path / "receiver-transfers.csv", receiver_lines(Traffic(3, 100), "v3"))
    words = [str(tmp_path), "--engine", "spark", "--quiet", "--conf", f"{name}=12345"]
    try:
        assert quiver_analyze(words) == 0
        assert spark.conf.get(name) == "12345"
    finally:
        spark.conf.set(name, before)
    assert quiver_analyze([str(tmp_path), "--engine", "local", "--conf", "a=b"]) == 2
    assert "--conf is for --engine spark" in capsys.readouterr().err


def fail_to_start(said: bytes) -> None:
    with session._quiet(wanted=True):
        os.write(2, said)
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})


def test_java_writes_where_nobody_reads_it(capfd: pytest.CaptureFixture[str]) -> None:
    for wanted, shown in ((True, ""), (False, "26/11/26 WARN\n")):
        with session._quiet(wanted=wanted):
            os.write(2, b"26/11/26 WARN\n")
        assert capfd.readouterr().err == shown
    with pytest.raises(QuiverError, match="Java does not start: Invalid size: 9x"):
        fail_to_start(b"WARNING: a module\nInvalid size: 9x\nError: none\n")
    with pytest.raises(PySparkRuntimeError, match="JAVA_GATEWAY_EXITED"):
        fail_to_start(b"")
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("master", "environment", "told"),
    [
        (None, {}, True),
        ("local[3]", {}, True),
        ("sc://h:1", {}, False),
        (None, {"PYSPARK_GATEWAY_PORT": "1"}, False),
    ],
)
def test_a_start_of_java_is_told(
    master: str | None, environment: dict[str, str], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session.SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(session, "_start", lambda *_: None)
    monkeypatch.setattr(session, "_builder", lambda *_: MagicMock())
    monkeypatch.setattr(session, "check_executors", lambda _: None)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found: list[str] = []
    session.make_session(master, tell=found.append)
    assert found == (["starting Spark; a first result takes about 20 s"] if told else [])


@pytest.mark.slow
def test_a_command_that_starts_java_says_that_alone(tmp_path: Path) -> None:
    write(tmp_path / "receiver-transfers.csv", receiver_lines(Traffic(3, 100), "v3"))
    words = ["-m", "quiver_fast.cli.analyze.command", str(tmp_path), "--engine", "spark"]
    finished = run([sys.executable, *words], LIMIT, env=JAVA)
    assert (finished.code, finished.stderr) == (
        0,
        "starting Spark; a first result takes about 20 s\n",
    )


@pytest.mark.parametrize("setting", ["spark.ui.enabled", "=true", ""])
def test_a_setting_without_name_or_value(setting: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        job(["nothing", "--output", "out", "--conf", setting])
    codes = [caught.value.code, quiver_analyze(["nothing", "--conf", setting])]
    assert codes == [2, 2]
    assert capsys.readouterr().err.count(f"'{setting}' is not NAME=VALUE") == 2


def lacking(python: Path, packages: list[str], path: Path | None = None) -> list[str]:
    """Ask another Python as Spark does: with a function that it gets by value."""
    cloudpickle.register_pickle_by_value(executors)
    try:
        function = cloudpickle.dumps(executors.lacking)
    finally:
        cloudpickle.unregister_pickle_by_value(executors)
    home = Path(pyspark.__file__).parent / "python" / "lib"
    paths = [str(home / "pyspark.zip"), *map(str, home.glob("py4j-*.zip"))]
    paths += [] if path is None else [str(path)]
    ask = (
        "import sys, json; from pyspark import cloudpickle;"
        f"print(json.dumps(cloudpickle.loads({function!r})({__version__!r}, {packages!r})))"
    )
    environment = {"PYTHONPATH": os.pathsep.join(paths)}
    finished = run([str(python), "-c", ask], env=environment)
    assert finished.code == 0, finished.stderr
    found: list[str] = json.loads(finished.stdout)
    return found


def test_what_a_python_lacks(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    python = bare / "bin" / "python"
    assert lacking(python, ["pyarrow"]) == ["no quiver-fast", "no pyarrow"]
    # As spark-submit's --py-files has it.
    archive = tmp_path / "quiver_fast.zip"
    package = Path(sys.modules["quiver_fast"].__file__ or "").parent
    with zipfile.ZipFile(archive, "w") as whole:
        for path in package.rglob("*.py"):
            whole.write(path, path.relative_to(package.parent))
    [problem] = lacking(python, [], archive)
    assert problem == "quiver-fast is in an archive, from which no compiled module loads"
    (tmp_path / "old" / "quiver_fast").mkdir(parents=True)
    (tmp_path / "old" / "quiver_fast" / "__init__.py").write_text('__version__ = "0.0"\n')
    [problem] = lacking(python, [], tmp_path / "old")
    assert problem == f"quiver-fast 0.0 where the driver has {__version__}"
    assert lacking(Path(sys.executable), ["pyarrow"]) == []
