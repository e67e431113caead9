"""The Spark session of a job."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quiver_fast.errors import QuiverError
from spark_analysis.executors import check_executors
from spark_analysis.java import why_java_is_missing

SPARK_ERRORS = (PySparkException, Py4JError)
"""The errors of Spark: of its own client, and of the connection to its Java."""

# A short job ends before the second compiler pays off, which slows the start on few cores.
_LIGHT_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_CONNECT = "sc://"
_STARTING = "starting Spark; a first result takes about 20 s"
# `spark-submit` sets it: its Java runs already.
_GATEWAY = "PYSPARK_GATEWAY_PORT"
_NO_JAVA = "JAVA_GATEWAY_EXITED"
_LEVEL = "spark.log.level"
_LOOPBACK = "127.0.0.1"
_STDERR = 2
# Users choose Spark's address by these.
_ADDRESS_VARIABLES = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME")
_ADDRESS_SETTINGS = ("spark.driver.host", "spark.driver.bindAddress")

_PARTITIONS = "spark.sql.shuffle.partitions"
_SPARKS_PARTITIONS = "200"
_OUR_PARTITIONS = "spark.quiver.partitions"
_MOST_PARTITIONS = 20_000

_CALL_FAILED = "An error occurred while calling"
_CAUSE = "Caused by: "
_OWN_ERROR = re.compile(r"\s*(quiver_fast\.errors\.\w+|\w*Error): ")
_NO_MODULE = re.compile(r"ModuleNotFoundError: (No module named '[\w.]+')")
_LOST_TASK = re.compile(r"\(TID \d+\) \((\S+ executor \S+)\)")


def make_session(
    master: str | None = None,
    shuffle_partitions: int | None = None,
    *,
    light: bool = False,
    conf: Mapping[str, str] | None = None,
    tell: Callable[[str], None] | None = None,
) -> SparkSession:
    """Return the session that there is, ``spark-submit``'s for one, or a new one.

    Args:
        master: a Spark master, or ``sc://HOST:PORT`` of a Spark Connect server; None for
            ``spark-submit``'s, else ``$SPARK_REMOTE``, else ``local[*]``.
        shuffle_partitions: the most partitions after a shuffle; None for as many as the
            data asks for (:func:`fit_partitions`).
        light: on this machine, Java starts sooner and runs slower: for jobs whose work is
            in Python alone.
        conf: Spark's settings, which win over ours. A session that there is takes those
            that can change while it runs.
        tell: is called before Java starts, with a line about the time that it takes.

    Raises:
        QuiverError: Java is missing or too old, or executors lack a package.
        PySparkException: Spark does not start.
    """
    conf = conf or {}
    active = SparkSession.getActiveSession()
    if active is not None:
        return SparkSession.builder.config(map=dict(conf)).getOrCreate() if conf else active
    master = _master(master or conf.get("spark.master"))
    if master is not None and master.startswith(_CONNECT):
        spark = _builder(conf, shuffle_partitions).remote(master).getOrCreate()
    else:
        if tell is not None and _GATEWAY not in os.environ:
            tell(_STARTING)
        spark = _start(master, _settings(master, light=light), conf, shuffle_partitions)
    check_executors(spark)
    return spark


def _master(asked: str | None) -> str | None:
    """Return the master; None where ``spark-submit`` has one."""
    if asked is None and _GATEWAY not in os.environ:
        return os.environ.get("SPARK_REMOTE", "local[*]")
    return asked


def _settings(master: str | None, *, light: bool) -> dict[str, str]:
    """Return the settings for a session with its own Java alone."""
    found = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        _LEVEL: "ERROR",
    }
    if master is not None:
        found["spark.master"] = master
        if light and master.startswith("local"):
            found["spark.driver.extraJavaOptions"] = _LIGHT_JAVA
    return found


def _start(
    master: str | None,
    settings: Mapping[str, str],
    conf: Mapping[str, str],
    shuffle_partitions: int | None,
) -> SparkSession:
    missing = why_java_is_missing()
    if missing is not None:
        raise QuiverError(missing)
    # PySpark takes the executors' Python from the environment alone. They must have the
    # compiled parser: the driver's Python has it.
    python = conf.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = python or sys.executable
    local = master is not None and master.startswith("local")
    with _loopback(conf, wanted=local), _quiet(wanted=_LEVEL not in conf):
        return _builder({**settings, **conf}, shuffle_partitions).getOrCreate()


def _builder(conf: Mapping[str, str], shuffle_partitions: int | None) -> SparkSession.Builder:
    builder = SparkSession.builder.appName("quiver-analysis")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    if shuffle_partitions is not None:
        builder = builder.config(_PARTITIONS, shuffle_partitions)
    return builder.config(map=dict(conf))


@contextmanager
def _loopback(conf: Mapping[str, str], *, wanted: bool) -> Iterator[None]:
    """Have a Java that starts meanwhile use the loopback, unless the user chose an address.

    Otherwise Java looks up the machine's own name, which many containers do not know.
    """
    chosen = [name for name in _ADDRESS_VARIABLES if name in os.environ]
    chosen += [name for name in _ADDRESS_SETTINGS if name in conf]
    if not wanted or chosen:
        yield
        return
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    try:
        yield
    finally:
        del os.environ["SPARK_LOCAL_IP"]


@contextmanager
def _quiet(*, wanted: bool) -> Iterator[None]:
    """Have a Java that starts meanwhile write its log where nobody reads it.

    Its errors come to us as exceptions; its log would be pages of stack traces beside our one line.

    Raises:
        QuiverError: Java does not start; why not, in its words.
    """
    if not wanted:
        yield
        return
    with tempfile.TemporaryFile() as log:
        ours = os.dup(_STDERR)
        os.dup2(log.fileno(), _STDERR)
        try:
            yield
        except PySparkException as error:
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
            said = [line for line in lines if not line.startswith("WARNING:")]
            if error.getCondition() != _NO_JAVA or not said:
                raise
            raise QuiverError(f"Java does not start: {said[0]}") from None
        finally:
            os.dup2(ours, _STDERR)
            os.close(ours)


def fit_partitions(spark: SparkSession, parts: int) -> None:
    """Let later shuffles have as many partitions as the data asks for.

    Each costs a task in Python. Where the user chose a number it stays. Spark's adaptive
    execution joins those that turn out to be small.

    Args:
        spark: the session.
        parts: into how many tasks' work the data can be cut.
    """
    now = spark.conf.get(_PARTITIONS)
    if now in (_SPARKS_PARTITIONS, spark.conf.get(_OUR_PARTITIONS, "")):
        wanted = str(min(max(parts, 1), _MOST_PARTITIONS))
        spark.conf.set(_PARTITIONS, wanted)
        spark.conf.set(_OUR_PARTITIONS, wanted)


def reason(error: Exception) -> str:
    """Return our own error's line from an executor's traceback, or Spark's first line."""
    text = str(error).strip()
    lines = text.splitlines()
    missing, task = _NO_MODULE.search(text), _LOST_TASK.search(text)
    if missing is not None and task is not None:
        return f"{missing[1]} on {task[1]}: executors need all that quiver-fast[spark] installs"
    own = [line for line in lines if _OWN_ERROR.match(line)]
    if own:
        return own[-1].split(": ", 1)[1].strip()
    # py4j's own line only names the call that failed, and Java's often only its place.
    causes = [line for line in lines if line.startswith(_CAUSE)] or lines
    said = causes[-1] if lines[0].startswith(_CALL_FAILED) else lines[0]
    return said.removeprefix(_CAUSE).strip()
