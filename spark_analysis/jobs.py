"""The job: files of records in, tables and summaries out; ``--help`` says how.

Runs as ``python -m spark_analysis.jobs`` and by ``spark-submit``.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from quiver_fast.analysis.read.discovery import is_url
from quiver_fast.analysis.read.spark_options import add_spark_options
from quiver_fast.errors import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    QuiverError,
    RecordError,
    SignalError,
    one_line,
    visible,
)
from quiver_fast.records.ids import KEY_SIZE, key_or_own
from quiver_fast.standard_streams import prepare_streams
from spark_analysis.batch_job import analyze
from spark_analysis.compaction import compact
from spark_analysis.file_systems import Settings, is_remote, settings_for
from spark_analysis.files import RecordFile, discover, find
from spark_analysis.incremental import grow, renew
from spark_analysis.job_folder import MARK, RECORDS, check_free
from spark_analysis.session import SPARK_ERRORS, make_session, reason
from spark_analysis.source import numbered, register

_TRIGGER = "1 second"
_TICK = 1  # seconds
_ID_KEY = "id-key"

_DESCRIPTION = """\
Analyse the records of many runs, arrows and hosts in one Spark job.

A PATH is a file of records, a folder (searched for *transfers.csv, plain or
compressed) or a pattern. A file's folder is its run, the file's name
before -transfers its arrow; the senders and receivers of one run are its ends.
s3a://BUCKET/... and hdfs://HOST/... are read as well, with what Spark knows of them
(spark.hadoop.fs.s3a.*); DIR is a folder that driver and executors share.
"""

_EPILOG = """\
DIR is written beside its place and then put there: it is whole or absent, and a
repeated job gives the same. It holds
  records/        Parquet: run-length records by run, role and kind; kind=bad are
                  the lines that are no records
  facts/          Parquet, by fact: histograms per second and everything else that
                  adds up
  arrows/         Parquet: a row of statistics for each arrow
  summaries/      RUN/ARROW-summary.json, as the other Quiver tools write them
  comparison.json with --compare: better, worse, not shown or no difference above X %
  changes.json    change points over twelve or more runs in order of time, those of
                  --compare among them

example usage:
  $ python -m spark_analysis.jobs runs/ --output results/
  $ python -m spark_analysis.jobs more/ --output later/ --compare results/
  $ python -m spark_analysis.jobs live/ --output now/ --follow --timeout 60

exit codes:
  0 success, 1 failure, 2 usage error, 130 and 143 signals
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job that the command line asks for; return the exit code."""
    prepare_streams()
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.follow and options.compare:
        parser.error("--follow and --compare exclude each other")
    signal.signal(signal.SIGTERM, _terminate)
    try:
        # This check fails at once; a Spark session would take seconds to fail.
        find(path for path in options.paths if not is_remote(path))
        spark = make_session(
            options.master, options.shuffle_partitions, conf=dict(options.conf), tell=_tell
        )
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
    except SPARK_ERRORS as error:
        return _failed(reason(error), EXIT_FAILURE)
    spark.stop()
    return EXIT_OK


def follow(spark: SparkSession, paths: Sequence[str], output: Path, timeout: float) -> None:
    """Analyse records as they are written, until nothing came for ``timeout`` seconds.

    Args:
        spark: the session; its executors see ``paths`` and ``output`` by the same names.
        paths: files, folders, patterns.
        output: an earlier job's is gone on with.
        timeout: seconds.

    Raises:
        OSError: a file cannot be read or written.
        QuiverError: there are no records, or they are damaged, or ``output`` is taken.
        PySparkException: Spark failed.
    """
    query = start_following(spark, paths, output)
    last = time.monotonic()
    try:
        while time.monotonic() - last < timeout and not query.awaitTermination(_TICK):
            # Neither a long batch nor the time until the first look is silence.
            if query.lastProgress is None or query.status["isDataAvailable"]:
                last = time.monotonic()
    finally:
        query.stop()
    finish_following(spark, paths, output)


def start_following(spark: SparkSession, paths: Sequence[str], output: Path) -> StreamingQuery:
    """Start to analyse records as they are written, and return the query that does it.

    Rows are appended by batch; a batch that is repeated after a failure counts once.
    The results of ``output`` are renewed after every batch, each time whole.

    Raises:
        UsageError: there are no files, or ``output`` is taken.
    """
    check_free(output)
    settings = settings_for(spark, paths)
    discover(paths, settings)
    output = output.absolute()
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    (output / MARK).touch()
    id_key = _id_key(output)
    register(spark)

    def take(batch: DataFrame, number: int) -> None:
        grow(batch, number, _files(paths, settings, id_key), output)
        compact(batch.sparkSession, output / RECORDS, number)

    return (
        spark.readStream.format("quiver")
        .option("idKey", id_key.hex())
        .option("paths", json.dumps(paths))
        .load()
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(output / "checkpoint"))
        .trigger(processingTime=_TRIGGER)
        .start()
    )


def finish_following(spark: SparkSession, paths: Sequence[str], output: Path) -> None:
    """Bring every result up to the last record, as a new job would.

    Raises:
        OSError: a file cannot be read or written.
        QuiverError: a summary is damaged.
        PySparkException: Spark failed.
    """
    output = output.absolute()
    renew(spark, _files(paths, settings_for(spark, paths), _id_key(output)), output)


def _files(paths: Sequence[str], settings: Settings, id_key: bytes) -> list[RecordFile]:
    return numbered(discover(paths, settings), id_key)


def _id_key(output: Path) -> bytes:
    """Return the key of the job's ids: the one that it began with."""
    place = output / _ID_KEY
    if not place.exists():
        place.with_suffix(".new").write_text(os.urandom(KEY_SIZE).hex())
        place.with_suffix(".new").replace(place)
    try:
        return key_or_own(bytes.fromhex(place.read_text()))
    except ValueError:
        raise RecordError(f"{place} is damaged: it is not {2 * KEY_SIZE} digits") from None


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_analysis.jobs",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("paths", metavar="PATH", nargs="+", help="Files, folders or patterns, or URLs of such")
    add("--output", metavar="DIR", type=_folder, required=True, help="Where the results go")
    add_spark_options(parser)
    add(
        "--shuffle-partitions",
        metavar="COUNT",
        type=int,
        help="The most partitions after a shuffle (default one for each 32 MB of text)",
    )
    add(
        "--compare",
        metavar="DIR",
        type=_folder,
        action="append",
        default=[],
        help="Compare with the runs in an earlier job's results (may be repeated)",
    )
    add(
        "--follow",
        action="store_true",
        help="Follow plain files while they are written: a batch costs its own records and those "
        "near them by id or send time, whatever the history (docs/spark.md has the exceptions)",
    )
    add(
        "--timeout",
        metavar="SECONDS",
        type=float,
        default=60.0,
        help="With --follow, end after so long without new records (default 60)",
    )
    return parser


def _folder(text: str) -> Path:
    """Parse a folder of results: an argparse type."""
    if is_url(text):
        raise argparse.ArgumentTypeError(
            f"'{text}' is a URL: results go to a folder that driver and executors share"
        )
    return Path(text)


def _terminate(number: int, _frame: FrameType | None) -> None:
    raise SignalError("terminated", number)


def _tell(text: str) -> None:
    sys.stderr.write(f"{visible(text)}\n")


def _failed(message: str, code: int) -> int:
    sys.stderr.write(f"quiver-analysis: error: {one_line(message)}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
