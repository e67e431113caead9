"""The Spark side of `quiver-fleet`: arrows on executors, and records read where they are.

Only tables and the figures of the run come to the driver. Records leave an executor's disk as
rows of runs of messages, in the shuffle that joins sends and receipts.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import BarrierTaskContext
from pyspark.sql import DataFrame, SparkSession

from quiver_fast.analysis.figures.run_data import AnalysedRun
from quiver_fast.analysis.read.end_records import EndRecords, known_bounds, of_both_sides
from quiver_fast.analysis.read.sources import Wanted
from quiver_fast.errors import QuiverError
from quiver_fast.records.formats import RECEIVE, SEND
from spark_analysis import schema
from spark_analysis.ends import ends_run, with_sides
from spark_analysis.facts import facts
from spark_analysis.file_systems import check_place, settings_for, write_elsewhere
from spark_analysis.files import SPLIT_SIZE, RecordFile, describe, splits_of
from spark_analysis.fleet_clocks import skew_of
from spark_analysis.fleet_hosts import executors_of, on_every_executor, one_to_each, run_hosts
from spark_analysis.record_rows import as_records
from spark_analysis.run_statistics import analysed, with_statistics
from spark_analysis.session import SPARK_ERRORS, fit_partitions, make_session, reason
from spark_analysis.task_line import folder_name

__all__ = [
    "SPARK_ERRORS", "analyse_hosts", "cancel", "check_place", "driver_host", "keep_records",
    "lost_executor", "make_fleet_session", "reason", "remove_records", "run_hosts",
    "wait_for_executors",
]  # fmt: skip

_RUN = "run"
_PART_SIZE = 32 << 20
_TICK = 0.2
# Below the run's folder on a host.
_RECORDS = "host.*/*-transfers.csv"
_STABLE_SECONDS = 2.0

# A load is never repeated, and a cluster that is too small is an error within a minute.
_SETTINGS = {
    "spark.app.name": "quiver-fleet",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "2s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "15",
}
_LOST = re.compile(r"ExecutorLostFailure \(executor (\S+) [^)]*\)(?: Reason: ([^\n]*))?")
_TASK = re.compile(r"barrier task ResultTask\(\d+, (\d+)\)")


def make_fleet_session(master: str | None, conf: Mapping[str, str]) -> SparkSession:
    """Return a session for a fleet.

    Raises:
        QuiverError: it cannot be, or the master is a Spark Connect server.
        PySparkException: Spark does not start.
    """
    spark = make_session(master, conf={**_SETTINGS, **conf})
    if "connect" in type(spark).__module__:
        raise QuiverError("Spark Connect has no barrier stages: give the master itself")
    return spark


def driver_host(spark: SparkSession) -> str:
    """Return where executors reach the driver."""
    host: str = spark.sparkContext.getConf().get("spark.driver.host", "localhost")
    return host


def wait_for_executors(spark: SparkSession, hosts: int | None, seconds: float) -> int:
    """Return how many hosts the run has, once there are executors for them.

    Args:
        spark: the session.
        hosts: how many are asked for; None for all executors there are.
        seconds: how long to wait for them.

    Raises:
        QuiverError: there are too few.
    """
    if str(spark.sparkContext.master).startswith("local["):
        return hosts or 1
    deadline = time.monotonic() + seconds
    count, since = 0, time.monotonic()
    while True:
        now, found = time.monotonic(), len(executors_of(spark))
        if found != count:
            count, since = found, now
        if count >= (hosts or 1) and (hosts is not None or now - since > _STABLE_SECONDS):
            return hosts or count
        if now > deadline:
            raise QuiverError(
                f"the cluster has {count} of {hosts or 1} executors after {seconds:.0f} seconds"
            )
        time.sleep(_TICK)


def cancel(spark: SparkSession) -> None:
    """End the tasks of the session, and those that wait for room."""
    spark.sparkContext.cancelAllJobs()


def lost_executor(error: Exception) -> tuple[int | None, str] | None:
    """Return the host that was lost with its executor, and Spark's words; None for other errors."""
    text = str(error)
    lost, task = _LOST.search(text), _TASK.search(text)
    if lost is None:
        return None
    said = f"executor {lost[1]} was lost" + (f": {lost[2].strip()}" if lost[2] else "")
    return (None if task is None else int(task[1])), said


def analyse_hosts(
    spark: SparkSession,
    name: str,
    ends: Sequence[EndRecords],
    token: str,
    work_dir: str | None,
    ahead: Mapping[str, int] | None = None,
) -> tuple[AnalysedRun | None, list[str]]:
    """Read the records of all ends on the hosts where they are, and return the run.

    Args:
        spark: the session.
        name: the name of the run.
        ends: the ends, senders first; ``path`` is that on its host.
        token: the run's.
        work_dir: the folder below which its jobs keep records.
        ahead: by end, how far its host's clock is ahead of host 0's, nanoseconds; None where
            latencies are not corrected.

    Returns:
        The run, and the titles of the ends whose records cannot be reached. None where no sender's
        or no receiver's can.

    Raises:
        QuiverError: the records do not fit each other, or have no ids to correct latencies by.
        PySparkException: Spark failed.
    """
    top = _top_name(token, work_dir)
    layouts: dict[str, tuple[Any, ...]] = dict(on_every_executor(spark, _Finder(top)))
    there = [end for end in ends if str(end.path) in layouts]
    missing = [end.title for end in ends if end not in there]
    if {end.role for end in there} != {"sender", "receiver"}:
        return None, missing
    files = [_file(number, end, layouts[str(end.path)]) for number, end in enumerate(there)]
    bounds = known_bounds(*of_both_sides(name, there))
    parts = sum(layouts[file.path][-1] // _PART_SIZE + 1 for file in files)
    fit_partitions(spark, parts)
    rows = _read(spark, files, parts)
    skew = None if ahead is None else skew_of(files, [end.title for end in there], ahead)

    def analyse(table: pa.Table) -> AnalysedRun:
        return with_statistics(ends_run(table, name, there, files, bounds), wanted)

    wanted = Wanted()
    with facts(rows, files, {_RUN: bounds}, skew, ledgers=True) as tables:
        found = with_sides(tables, files, there).coalesce(parts).persist()
        try:
            return analysed(found, analyse, files, wanted, bounds), missing
        finally:
            found.unpersist()


def keep_records(
    spark: SparkSession,
    uri: str,
    summaries: Mapping[str, str],
    token: str,
    work_dir: str | None,
) -> list[str]:
    """Copy all records to a folder elsewhere, each host its own, and a summary beside each.

    Args:
        spark: the session.
        uri: the folder: of S3, HDFS, or by ``file:///`` one that all hosts and the driver see.
        summaries: the text of the summary of each end, by its file's name.
        token: the run's.
        work_dir: the folder below which its jobs keep records.

    Returns:
        The URIs of the copies.

    Raises:
        OSError: a file could not be written.
        PySparkException: Spark failed, or a host could not write.
    """
    settings, top = settings_for(spark, [uri]), _top_name(token, work_dir)

    def keep(context: BarrierTaskContext) -> Iterator[str]:
        mine = [str(path) for path in sorted(_top(top).glob(_RECORDS))]
        for path in _first_to_have(context, mine):
            yield write_elsewhere(uri, Path(path).name, Path(path), settings)

    found = [str(one) for one in on_every_executor(spark, keep)]
    for name, text in summaries.items():
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            write_elsewhere(uri, name, Path(file.name), settings)
    return sorted(found)


def remove_records(spark: SparkSession, token: str, work_dir: str | None) -> None:
    """Remove the run's folder from every host.

    Raises:
        PySparkException: Spark failed.
    """
    top = _top_name(token, work_dir)

    def remove(_context: BarrierTaskContext) -> Iterable[None]:
        shutil.rmtree(_top(top), ignore_errors=True)
        return ()

    on_every_executor(spark, remove)


def _top_name(token: str, work_dir: str | None) -> str:
    """Return the run's folder: whole, or below that of a host's temporary files."""
    return str(Path(work_dir or "", folder_name(token)))


def _top(name: str) -> Path:
    """Return the run's folder on this host."""
    return Path(tempfile.gettempdir(), name)


class _Finder:
    """Finds and describes the records on a host."""

    def __init__(self, top: str) -> None:
        self._top = top

    def __call__(self, context: BarrierTaskContext) -> Iterator[tuple[str, tuple[Any, ...]]]:
        mine = [str(path) for path in sorted(_top(self._top).glob(_RECORDS))]
        for path in _first_to_have(context, mine):
            operation = SEND if Path(path).name.startswith("sender") else RECEIVE
            file = describe(Path(path), 0, _RUN, "0", operation)
            size = Path(path).stat().st_size
            yield path, (file.record_format, file.operation, file.unit, size)


def _first_to_have(context: BarrierTaskContext, mine: Sequence[str]) -> list[str]:
    """Return those of this host's files that no executor before has: two may share a disk."""
    everyone = [text.split("\n") for text in context.allGather("\n".join(mine))]
    taken = {path for paths in everyone[: context.partitionId()] for path in paths}
    return [path for path in mine if path not in taken]


def _file(number: int, end: EndRecords, layout: tuple[Any, ...]) -> RecordFile:
    record_format, operation, unit, _ = layout
    path, members = str(end.path), end.members
    known = (record_format, operation, unit, False)
    name = str(number)
    return RecordFile(number, path, _RUN, name, *known, members=members, first=end.first)


def _read(spark: SparkSession, files: Sequence[RecordFile], parts: int) -> DataFrame:
    """Return the rows of ``RECORDS``, read by a task on each executor.

    The shuffle behind it ends the barrier stage: later stages have tasks of their own.
    """
    count = len(executors_of(spark))

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        context = BarrierTaskContext.get()
        mine = [file.path for file in files if Path(file.path).is_file()]
        chosen = set(_first_to_have(context, mine))
        for file in files:
            if file.path in chosen:
                for split in splits_of(file, SPLIT_SIZE):
                    yield from as_records(split)

    one = spark.range(0, count, 1, count)
    read = one.mapInArrow(rows, schema.RECORDS, True, one_to_each(spark))
    return read.repartition(parts, "file", "split")
