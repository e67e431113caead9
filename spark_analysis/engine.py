"""The engine ``spark`` of ``quiver-analyze``: runs as the local engine hands them over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from quiver_fast.analysis.discovery import RunFiles
from quiver_fast.analysis.sources import Progress, RunData, checked, run_data
from quiver_fast.errors import QuiverError
from quiver_fast.records.formats import RECEIVE, SEND
from spark_analysis.facts import facts
from spark_analysis.files import SPLIT_SIZE, RecordFile, describe, splits_of
from spark_analysis.fold import can_be_folded, folded_facts
from spark_analysis.reading import read_records
from spark_analysis.results import alone, delivery_of, file_analysis
from spark_analysis.session import make_session, reason

__all__ = ["load_run", "run_loader"]

_RUN = "run"


def run_loader(
    master: str | None, runs: Sequence[RunFiles]
) -> Callable[[RunFiles, Progress], RunData]:
    """Return what reads a run on Spark; the session starts with the first one.

    Args:
        master: a Spark master; None for ``local[*]``.
        runs: all that will be read.

    Raises:
        QuiverError: by the loader: Java is missing or too old, records are damaged, or
            Spark failed.
    """

    @cache
    def session() -> SparkSession:
        return make_session(master, light=all(can_be_folded(_described(run)) for run in runs))

    def load(files: RunFiles, progress: Progress) -> RunData:
        try:
            return load_run(session(), files, progress)
        except (PySparkException, Py4JError) as error:
            raise QuiverError(reason(error)) from None

    return load


def load_run(
    spark: SparkSession, files: RunFiles, progress: Progress, split_size: int = SPLIT_SIZE
) -> RunData:
    """Read the records of a run on Spark, as :func:`.sources.load_run` does here.

    Args:
        spark: the session; its executors see the files by the same paths.
        files: the files of the run.
        progress: called at the beginning and the end with the bytes of all files.
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
    table = _facts(spark, described, split_size)
    progress(size, size)
    sender = receiver = delivery = None
    for file, path in zip(described, files.paths, strict=True):
        end = checked(path, file_analysis(file, table))
        if file.operation == SEND:
            sender = end
        else:
            receiver, delivery = end, alone(file, end, table)
    if sender is not None and receiver is not None:
        delivery = delivery_of(table, [sender], [receiver])
    return run_data(files, sender, receiver, delivery)


def _facts(spark: SparkSession, files: Sequence[RecordFile], split_size: int) -> pa.Table:
    if can_be_folded(files):
        return folded_facts(spark, [s for file in files for s in splits_of(file, split_size)])
    with facts(read_records(spark, files, split_size), files) as found:
        return found.toArrow()


def _described(files: RunFiles) -> list[RecordFile]:
    ends = ((files.sender, SEND), (files.receiver, RECEIVE), (files.other, None))
    there = [(path.absolute(), operation) for path, operation in ends if path is not None]
    return [
        describe(path, number, _RUN, str(number), operation)
        for number, (path, operation) in enumerate(there)
    ]
