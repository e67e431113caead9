"""The backend ``spark`` of ``quiver-analyze``: runs as the local backend hands them over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.figures.run_data import AnalysedRun, RunData
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.read.completeness import check_ends
from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.end_records import EndRecords
from quiver_fast.analysis.read.sources import Progress, Wanted, checked, run_bounds, run_data
from quiver_fast.analysis.tables.latencies import Histogram
from quiver_fast.errors import QuiverError
from quiver_fast.records.formats import RECEIVE, SEND
from spark_analysis import fact_names
from spark_analysis.ends import ends_and_bounds, ends_run, of_all, with_sides
from spark_analysis.facts import facts
from spark_analysis.file_systems import hadoop_settings
from spark_analysis.files import (
    SPLIT_SIZE,
    RecordFile,
    can_be_folded,
    describe,
    find,
    parts_of,
    splits_of,
)
from spark_analysis.fold import folded_facts
from spark_analysis.record_rows import read_records
from spark_analysis.results import (
    alone,
    delivery_of,
    file_analysis,
    histogram_of,
    ledger_of,
    steps_found,
)
from spark_analysis.run_statistics import analysed, shallow, with_statistics
from spark_analysis.schema import RECEIVER
from spark_analysis.session import SPARK_ERRORS, fit_partitions, make_session, reason

_RUN = "run"


def run_loader(
    master: str | None,
    runs: Sequence[RunFiles],
    wanted: Wanted,
    conf: Mapping[str, str],
    tell: Callable[[str], None] | None = None,
) -> Callable[[RunFiles, Progress], RunData]:
    """Return a function that reads a run on Spark; the session starts with the first one.

    Args:
        master: a Spark master; None for ``local[*]``.
        runs: all that will be read.
        wanted: the outputs that are wanted of them.
        conf: Spark's settings.
        tell: is called before Java starts, with a line about the time that it takes.

    Raises:
        QuiverError: by the loader: Java or a package is missing, records are damaged, or
            Spark failed.
    """

    @cache
    def session() -> SparkSession:
        light = all(can_be_folded(_described(run)) for run in runs)
        return make_session(master, light=light, conf=conf, tell=tell)

    def load(files: RunFiles, progress: Progress) -> RunData:
        try:
            return load_run(session(), files, progress, wanted)
        except SPARK_ERRORS as error:
            raise QuiverError(reason(error)) from None

    return load


def files_elsewhere(
    master: str | None, conf: Mapping[str, str], tell: Callable[[str], None] | None = None
) -> Callable[[str], list[Path]]:
    """Return a function that finds the files of a URL (:func:`.discovery.find_runs`). Spark starts.

    Raises:
        QuiverError: Java is missing or too old, or Spark failed.
    """
    try:
        settings = hadoop_settings(make_session(master, conf=conf, tell=tell))
    except SPARK_ERRORS as error:
        raise QuiverError(reason(error)) from None
    # A remote path has the methods of a path that are used.
    return lambda word: [cast(Path, path) for _, path in find([word], settings)]


def load_run(
    spark: SparkSession,
    files: RunFiles,
    progress: Progress,
    wanted: Wanted,
    split_size: int = SPLIT_SIZE,
) -> AnalysedRun:
    """Analyse a run on Spark, as :func:`.sources.load_run` does in this process.

    A task makes the statistics; they alone come to the driver, and the histogram if it
    is wanted.

    Args:
        spark: the session; its executors see the files by the same paths.
        files: the files of the run.
        progress: called at the beginning and the end with the bytes of all files.
        wanted: the outputs that are wanted of the run.
        split_size: bytes of text that a task reads, about.

    Raises:
        RecordError: a file holds no records, or those of the other end; a summary file
            beside the records is damaged.
        OSError: a file cannot be read.
        PySparkException: Spark failed.
    """
    size = sum(path.stat().st_size for path in files.paths)
    progress(0, size)
    described = _described(files)
    ends, bounds = ends_and_bounds(files) if files.many else ([], run_bounds(files))
    if ends:
        described = [
            replace(file, members=end.members, first=end.first)
            for file, end in zip(described, ends, strict=True)
        ]
    places = _absolute(files)

    def analyse(table: pa.Table) -> AnalysedRun:
        if ends:
            run = ends_run(table, files.name, ends, described, bounds)
            check_ends(files.paths, run.ends or ())
            return with_statistics(run, wanted)
        return _statistics(table, places, described, wanted, bounds)

    with _facts(spark, described, ends, split_size, bounds) as found:
        answer = analysed(found, analyse, described, wanted, bounds)
        histogram = _histogram(found, described, answer) if wanted.histogram else None
    progress(size, size)
    for end, path in ((answer.sender, files.sender), (answer.receiver, files.receiver)):
        if end is not None and not ends:
            end["file"] = str(path or files.other)
    return AnalysedRun(**(shallow(answer) | {"histogram": histogram}))


@contextmanager
def _facts(
    spark: SparkSession,
    files: Sequence[RecordFile],
    ends: Sequence[EndRecords],
    split_size: int,
    bounds: RunBounds,
) -> Iterator[DataFrame]:
    runs = {_RUN: bounds}
    if can_be_folded(files):
        splits = [split for file in files for split in splits_of(file, split_size)]
        with folded_facts(spark, splits, runs) as found:
            yield found
    else:
        parts = parts_of(files)
        fit_partitions(spark, parts)
        with facts(read_records(spark, files, split_size), files, runs, ledgers=True) as tables:
            tables = with_sides(tables, files, ends) if ends else tables
            # Each fact is a table with tasks of its own, and most tasks have hardly any rows.
            found = tables.coalesce(max(parts, 1)).persist()
            try:
                yield _without_plan(found)
            finally:
                found.unpersist()


def _without_plan(found: DataFrame) -> DataFrame:
    """Return persisted rows as a table of their own, in a session with its own Java.

    Queries of facts join and unite them several times. Spark looks through the whole plan
    of each of these copies, in each query, though it reads all of them from memory: of a run of
    many ends that took most of the time. The rows know how they are made again where they are lost.
    """
    table = getattr(found, "_jdf", None)
    if table is None:
        return found
    spark = found.sparkSession
    rows = spark._jsparkSession.createDataFrame(table.javaRDD(), table.schema())
    return DataFrame(rows, spark)


def _statistics(
    table: pa.Table,
    files: RunFiles,
    described: Sequence[RecordFile],
    wanted: Wanted,
    bounds: RunBounds,
) -> AnalysedRun:
    sender = receiver = delivery = ledger = None
    for file, path in zip(described, files.paths, strict=True):
        end = checked(path, file_analysis(file, table, bounds, sender))
        if file.operation == SEND:
            sender = end
        else:
            receiver = replace(end, steps=steps_found(table, file, sender, bounds))
            delivery = alone(file, end, table, bounds)
    if sender is not None and receiver is not None:
        delivery = delivery_of(table, [sender], [receiver], bounds)
        ledger = ledger_of(table, sender, receiver, delivery, bounds)
    return with_statistics(run_data(files, sender, receiver, delivery, bounds, ledger), wanted)


def _histogram(
    found: DataFrame, described: Sequence[RecordFile], answer: AnalysedRun
) -> Histogram | None:
    """Bring the histogram of the receiver here, from the end of a warm-up on: (second, latency)."""
    receiver = next((file for file in described if file.role == RECEIVER), None)
    if receiver is None:
        return None
    receiver = of_all(receiver) if answer.ends is not None else receiver
    rows = found.where(F.col("fact") == fact_names.LATENCY)
    warmup = (answer.receiver or {}).get("warmup")
    if warmup is not None:
        rows = rows.where(F.col("second") >= warmup["measured_since"])
    rows = rows.where(F.col("arrow") == receiver.arrow)
    total = rows.groupBy("arrow", "fact", "second", "value").agg(F.sum("n").alias("n"))
    return histogram_of(receiver, total.toArrow())


def _absolute(files: RunFiles) -> RunFiles:
    """Return the files as tasks find them, whose working directory is another."""
    ends = (files.sender, files.receiver, files.other)
    return RunFiles(
        files.name,
        *(None if path is None else path.absolute() for path in ends),
        senders=tuple(path.absolute() for path in files.senders),
        receivers=tuple(path.absolute() for path in files.receivers),
    )


def _described(files: RunFiles) -> list[RecordFile]:
    ends = ((files.sender, SEND), (files.receiver, RECEIVE), (files.other, None))
    there = [(path.absolute(), operation) for path, operation in ends if path is not None]
    there += [(path.absolute(), SEND) for path in files.senders]
    there += [(path.absolute(), RECEIVE) for path in files.receivers]
    return [
        describe(path, number, _RUN, str(number), operation)
        for number, (path, operation) in enumerate(there)
    ]
