"""The job: files of records in, tables and summaries out; ``--help`` says how.

Runs as ``python -m spark_analysis.jobs`` and by ``spark-submit``.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from quiver_fast.analysis.read.discovery import is_url
from quiver_fast.cli.analyze.backends import add_spark_options
from quiver_fast.errors import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    QuiverError,
    SignalError,
)
from spark_analysis.files import find
from spark_analysis.following import follow
from spark_analysis.output import analyze
from spark_analysis.places import is_remote
from spark_analysis.session import SPARK_ERRORS, make_session, reason

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
        "near them by id or send time, whatever the history (docs/spark.md has what does not)",
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
    sys.stderr.write(f"{text}\n")


def _failed(message: str, code: int) -> int:
    sys.stderr.write(f"quiver-analysis: error: {message}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
