"""The job: files of records in, tables and summaries out. All input and output is here.

    python -m spark_analysis.jobs PATH… --output DIR [--master URL] [--compare DIR]
    python -m spark_analysis.jobs PATH… --output DIR --follow [--timeout SECONDS]

Everything is written into a folder beside DIR that then takes DIR's name: DIR is whole or
not there, and a repeated job gives the same. It holds

``records/``     Parquet, rows of ``RECORDS``, partitioned by run, role and kind; bad
                 lines are the partition ``kind=bad``
``histograms/``  Parquet: run, arrow, unit, second, latency, n
``series/``      Parquet: per second, count and latency percentiles
``figures/``     Parquet: one row per arrow
``delay-floors/`` Parquet: least one-way delay of every 10 s, for clock offset and drift
``comparison/``  Parquet, with ``--compare``: figures beside those of an earlier DIR
``summaries/``   ``RUN/ARROW-summary.json`` in upstream's shape
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import numpy as np
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.histogram import SecondHistogram
from quiver_fast.errors import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    QuiverError,
    RecordError,
    SignalError,
    UsageError,
)
from spark_analysis import schema, transforms
from spark_analysis.reading import read_records
from spark_analysis.session import make_session
from spark_analysis.source import QuiverSource
from spark_analysis.splits import RecordFile, discover
from spark_analysis.summaries import RANKS, figures, summaries

__all__ = ["analyze", "follow", "main", "second_histogram"]

_PARTITIONS = ("run", "role", "kind")
_MARK = "_COMMITTED"
_TRIGGER = "1 second"


def analyze(
    spark: SparkSession, paths: Sequence[str], output: Path, base: Path | None = None
) -> None:
    """Analyse all records under ``paths`` into the folder ``output``.

    Args:
        spark: the session; its executors see ``paths`` and ``output`` by the same names.
        paths: files, folders, patterns.
        output: replaced if it is an earlier job's.
        base: an earlier job's folder to compare with.

    Raises:
        OSError: a file cannot be read or written.
        QuiverError: there are no records, or they are damaged, or ``output`` is taken.
    """
    _check_free(output)
    if base is not None and not (base / _MARK).is_file():
        raise UsageError(f"'{base}' is not the output of a job")
    files = discover(paths)
    part = output.with_name(f".{output.name}.{uuid.uuid4().hex}.part")
    part.mkdir(mode=0o700, parents=True)
    try:
        _write(read_records(spark, files), part / "records", *_PARTITIONS)
        _write_results(spark, part / "records", part, files, base)
        _commit(part, output)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def follow(spark: SparkSession, paths: Sequence[str], output: Path, timeout: float) -> None:
    """Analyse records as they are written, until nothing came for ``timeout`` seconds.

    Rows are appended by batch; a batch that is repeated after a failure replaces itself.
    The results of ``output`` are renewed after every batch, each time whole.

    Raises:
        OSError: a file cannot be read or written.
        QuiverError: there are no records, or they are damaged, or ``output`` is taken.
    """
    _check_free(output)
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    (output / _MARK).touch()
    spark.dataSource.register(QuiverSource)

    def take(batch: DataFrame, number: int) -> None:
        _write(batch, output / "records" / f"batch={number}", *_PARTITIONS)
        part = output / ".part"
        _write_results(spark, output / "records", part, discover(paths), None)
        for table in part.iterdir():
            _replace(table, output / table.name)

    query = (
        spark.readStream.format("quiver")
        .load("\n".join(paths))
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(output / "checkpoint"))
        .trigger(processingTime=_TRIGGER)
        .start()
    )
    last = time.monotonic()
    try:
        while time.monotonic() - last < timeout and not query.awaitTermination(1):
            # A long batch is work, not silence; nor is the time until the first look.
            if query.lastProgress is None or query.status["isDataAvailable"]:
                last = time.monotonic()
    finally:
        query.stop()


def second_histogram(spark: SparkSession, output: Path, run: str, arrow: str) -> SecondHistogram:
    """Return the histogram of one receiver from a job's ``output``, for further analysis.

    Raises:
        RecordError: it received nothing, or is not there.
    """
    rows = spark.read.parquet(str(output / "histograms"))
    table = rows.where((F.col("run") == run) & (F.col("arrow") == arrow)).toArrow()
    if table.num_rows == 0:
        raise RecordError(f"no receipts of arrow '{arrow}' of run '{run}' in '{output}'")
    second, latency, n = (
        table[name].to_numpy().astype(np.int64) for name in ("second", "latency", "n")
    )
    return SecondHistogram.from_rows(second, latency, n, table["unit"][0].as_py())


def _write_results(
    spark: SparkSession,
    source: Path,
    target: Path,
    files: Sequence[RecordFile],
    base: Path | None,
) -> None:
    """Compute everything else from the records in ``source``."""
    columns = schema.RECORDS.fieldNames()
    records = spark.read.schema(schema.RECORDS).parquet(str(source)).select(*columns)
    _write(transforms.histograms(records), target / "histograms")
    histogram = spark.read.parquet(str(target / "histograms"))
    _write(transforms.series(histogram), target / "series")
    _write(transforms.delay_floors(histogram), target / "delay-floors")
    _write(figures(records, histogram), target / "figures")
    arrows = spark.read.parquet(str(target / "figures"))
    if base is not None:
        earlier = _comparable(spark.read.parquet(str(base / "figures")))
        now = _comparable(arrows)
        _write(transforms.comparison(earlier, now, now.columns[2:]), target / "comparison")
    for (run, arrow), document in summaries(records, arrows, files).items():
        directory = target / "summaries" / run
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(document, indent=2) + "\n"
        (directory / f"{arrow}-summary.json").write_text(text)


def _comparable(arrows: DataFrame) -> DataFrame:
    """Return (run, arrow, count, rate, and for receivers mean, p50 … max)."""
    ranks = {"p50": 50, "p90": 90, "p99": 99, "p99_9": 99.9, "max": 100}
    latencies = [F.col("percentiles")[RANKS.index(r)].alias(name) for name, r in ranks.items()]
    return arrows.select("run", "arrow", F.col("n").alias("messages"), "rate", "mean", *latencies)


def _write(table: DataFrame, folder: Path, *partitions: str) -> None:
    table.write.mode("overwrite").partitionBy(*partitions).parquet(str(folder))


def _check_free(output: Path) -> None:
    if output.exists() and not output.is_dir():
        raise UsageError(f"'{output}' is not a folder")
    if output.is_dir() and any(output.iterdir()) and not (output / _MARK).is_file():
        raise UsageError(f"'{output}' is not empty and not the output of a job")


def _commit(part: Path, output: Path) -> None:
    (part / _MARK).touch()
    _replace(part, output)


def _replace(new: Path, target: Path) -> None:
    """Let ``new`` take the place of ``target``: renames, so that it is whole at any time."""
    if not target.exists():
        new.rename(target)
        return
    old = target.with_name(f".{target.name}.{uuid.uuid4().hex}.old")
    target.rename(old)
    new.rename(target)
    shutil.rmtree(old)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_analysis.jobs", description="Analyse records on Apache Spark."
    )
    parser.add_argument("paths", metavar="PATH", nargs="+", help="Files, folders or patterns")
    parser.add_argument("--output", metavar="DIR", type=Path, required=True, help="Results")
    parser.add_argument("--master", metavar="URL", help="Spark master (default: local[*])")
    parser.add_argument(
        "--compare", metavar="DIR", type=Path, help="Compare with an earlier job's results"
    )
    parser.add_argument(
        "--follow", action="store_true", help="Follow plain files while they are written"
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, default=60.0,
        help="With --follow, end after so long without new records (default: 60)",
    )  # fmt: skip
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line asks for; return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.follow and options.compare:
        parser.error("--follow and --compare exclude each other")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        spark = make_session(options.master)
        if options.follow:
            follow(spark, options.paths, options.output, options.timeout)
        else:
            analyze(spark, options.paths, options.output, options.compare)
    except KeyboardInterrupt:
        return _failed("interrupted", EXIT_INTERRUPTED)
    except QuiverError as error:
        return _failed(str(error), error.exit_code)
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}", EXIT_FAILURE)
    except PySparkException as error:
        return _failed(_reason(error), EXIT_FAILURE)
    spark.stop()
    return EXIT_OK


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise SignalError("terminated", number)


def _failed(message: str, code: int) -> int:
    sys.stderr.write(f"quiver-analysis: error: {message}\n")
    return code


def _reason(error: PySparkException) -> str:
    """Return our own error's line from an executor's traceback, or Spark's first line."""
    lines = str(error).strip().splitlines()
    own = [line for line in lines if re.match(r"\s*(quiver_fast\.errors\.\w+|\w*Error): ", line)]
    return (own[-1].split(": ", 1)[1] if own else lines[0]).strip()


if __name__ == "__main__":
    sys.exit(main())
