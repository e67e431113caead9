"""`quiver-fleet`: run many ends on the hosts of a Spark cluster, as one run."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from types import ModuleType
from typing import Any

from quiver_fast.analysis.read.spark_options import spark_setting
from quiver_fast.analysis.show.text import section_text
from quiver_fast.cli.arrow.summary_text import pair_summary_text
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.arrow.verdict import pair_warnings
from quiver_fast.cli.fleet.job import check_hosts
from quiver_fast.cli.fleet.report import fleet_section
from quiver_fast.cli.fleet.run import FleetRun
from quiver_fast.cli.pair.ends_plan import EndsPlans
from quiver_fast.cli.pair.options import add_measuring_options, measuring_parser
from quiver_fast.cli.pair.workload import workload_of
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_tool_options,
    report_warning,
    run_command,
)
from quiver_fast.cli.shared.console import Console, add_console_options, add_format_option
from quiver_fast.cli.shared.output import check_output_dir, make_output_dir, write_json
from quiver_fast.cli.shared.quantities import duration, positive_count, within
from quiver_fast.cli.shared.thresholds import judged, refuse_comparisons, threshold, told
from quiver_fast.errors import EXIT_OK, QuiverError, UsageError
from quiver_fast.extras import how_to_install
from quiver_fast.records.formats import V1, V2
from quiver_fast.schemas import marked

_NAME = "quiver-fleet"
_SUMMARY = "fleet.json"
_ROLES = ("fleet",)
_WITH_IDS = (V1, V2)

_DESCRIPTION = """\
Run senders and receivers on the hosts of a Spark cluster, all at once.

'quiver-fleet' is one of the Quiver tools for testing the performance of message
servers and APIs. The URL and the options of 'quiver' follow --. Its --senders and
--receivers are spread over the hosts. Each host keeps its records on its disk and
reads them there; the summary covers the records of all hosts.
"""

_EPILOG = """\
example usage:
  $ quiver-fleet --master spark://host:7077 -- amqp://broker/q --senders 64 --receivers 64
  $ quiver-fleet --master spark://host:7077 --peer-to-peer -- --senders 8
  $ quiver-fleet --master yarn --hosts 16 --conf spark.executor.cores=8 -- //broker/q-%d \\
        --senders 64 --receivers 64 --queues 16 --duration 5m --record-format v2

A host is an executor of Spark. Sender N and receiver N are on host N mod HOSTS; with
--peer-to-peer the sender is on the next one. Executors
connect to this command: give --port and let it through where a firewall is between them.

exit codes:
  0 success, 1 failure, 2 usage error, 98 --fail-if inconclusive, 99 a threshold is
  breached or cannot be judged, 130 and 143 interrupted by a signal
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    args = _arguments(argv)
    refuse_comparisons(args.fail_if, "--fail-if", "by a fleet")
    plans = EndsPlans(args, share_processes=False)
    if args.correct_clocks and plans.plan("receive").record_format not in _WITH_IDS:
        raise UsageError("--correct-clocks needs message ids: give --record-format v2")
    if args.hosts is not None:
        check_hosts(plans, args.hosts)
    check_output_dir(args.output, _ROLES, args.force)
    spark = _spark()
    if args.keep_records is not None:
        spark.check_place(args.keep_records)
    if args.init_only:
        return EXIT_OK
    console = Console(args)
    directory = make_output_dir(args.output)
    signals = SignalWatch()
    try:
        run = FleetRun(_NAME, spark, plans, args, console, signals)
        known = {"output_dir": str(directory), "workload": args.workload}
        document = marked("fleet", run.measure() | known)
    except spark.SPARK_ERRORS as error:
        raise QuiverError(spark.reason(error)) from None
    named = document | {"name": str(directory)}
    document["thresholds"] = judged(args.fail_if, [named], None)
    write_json(directory / _SUMMARY, document)
    return _report(document, console, signals)


def _report(document: dict[str, Any], console: Console, signals: SignalWatch) -> int:
    console.document(document)
    if document["sender"] is not None:
        console.show(pair_summary_text(document).rstrip("\n"))
        for warning in pair_warnings(document):
            report_warning(_NAME, warning)
    console.show(section_text(fleet_section(document["fleet"])).rstrip("\n"))
    verdict = told(document["thresholds"], _NAME)
    if signals.exit_code is not None:
        return signals.exit_code
    if not document["complete"]:
        raise QuiverError(document["reason"])
    return verdict


def _arguments(argv: list[str]) -> argparse.Namespace:
    """Parse the fleet's own options, and the options of the run after --.

    Raises:
        UsageError: they are wrong.
    """
    place = argv.index("--") if "--" in argv else len(argv)
    args = make_parser().parse_args(argv[:place])
    if place == len(argv):
        raise UsageError(
            f"nothing to run: write a URL and options of quiver after --, such as "
            f"{_NAME} --master spark://host:7077 -- //broker/q0 --senders 8 --receivers 8"
        )
    args = _of_run(argv[place + 1 :], args)
    args.workload = workload_of(measuring_parser(), args)
    if args.processes is not None:
        raise UsageError("--processes does not go with a fleet: each end is a process of its host")
    if args.url is None and not args.peer_to_peer:
        raise UsageError("no URL after --: give a broker's URL, or --peer-to-peer")
    if args.url is not None and args.peer_to_peer:
        raise UsageError("--peer-to-peer goes without a URL: hosts connect to each other")
    return args


def _of_run(words: list[str], args: argparse.Namespace | None = None) -> argparse.Namespace:
    """Parse the words after --, into ``args`` if it is given."""
    parser = ArgumentParser(f"{_NAME} --", "", "")
    add_measuring_options(parser)
    return parser.parse_args(words, args)


def make_plans(words: list[str]) -> EndsPlans:
    """Return the plans of all ends for the words after --.

    Raises:
        UsageError: they are wrong.
    """
    return EndsPlans(_of_run(words, argparse.Namespace(verbose=False)), share_processes=False)


def _spark() -> ModuleType:
    """Return the module that needs Spark.

    Raises:
        QuiverError: it is not installed.
    """
    try:
        return importlib.import_module("spark_analysis.fleet")
    except ModuleNotFoundError as error:
        missing = (error.name or "").split(".")[0]
        raise QuiverError(
            f"{_NAME} needs {missing}, which is not installed: {how_to_install('spark')}"
        ) from None


def make_parser() -> ArgumentParser:
    """Return the parser of the command line before --."""
    parser = ArgumentParser(
        _NAME, _DESCRIPTION, _EPILOG, usage=f"{_NAME} [OPTION ...] -- [URL] [OPTION OF quiver ...]"
    )
    add = parser.add_argument_group("options of the cluster").add_argument
    add(
        "--master",
        metavar="URL",
        help="The Spark master, such as spark://HOST:7077, yarn or k8s://https://HOST "
        "(default local[*], or spark-submit's)",
    )
    add(
        "--conf",
        metavar="NAME=VALUE",
        type=spark_setting,
        action="append",
        default=[],
        help="A setting of Spark, such as spark.executor.cores=8 (may be repeated)",
    )
    add(
        "--hosts",
        metavar="COUNT",
        type=within(positive_count, 1, 10_000),
        help="Run on COUNT executors (default: all that there are)",
    )
    add(
        "--host-time",
        metavar="DURATION",
        type=within(duration, 1, 86_400),
        default=60,
        help="Wait so long for executors, and for all hosts to be ready (default 60s)",
    )
    add(
        "--peer-to-peer",
        action="store_true",
        help="Connect each sender to a receiver on the next host: no broker, and no URL after --",
    )
    add(
        "--correct-clocks",
        action="store_true",
        help="Correct latencies by the offsets of the hosts' clocks (needs message ids, such as "
        "--record-format v2 gives)",
    )
    add(
        "--keep-records",
        metavar="URI",
        help="Copy the records and summaries to URI, such as s3a://BUCKET/run or "
        "hdfs://HOST/run; file:///DIR is the same folder on every host",
    )
    add(
        "--port",
        metavar="PORT",
        type=within(positive_count, 1, 65_535),
        help="Listen on PORT for hosts (default: a free one)",
    )
    add(
        "--work-dir",
        metavar="DIR",
        type=_absolute,
        help="Where hosts keep their records during the run (default: their temporary files')",
    )
    add(
        "--fail-if",
        metavar="CONDITION",
        type=threshold,
        action="append",
        default=[],
        help="Exit with 99 if CONDITION, such as 'p99>10ms', holds (may be repeated)",
    )
    add_console_options(parser)
    add_format_option(parser)
    add_tool_options(parser)
    return parser


def _absolute(text: str) -> str:
    if not os.path.isabs(text):
        raise argparse.ArgumentTypeError(
            f"'{text}' is not absolute: hosts do not know the current folder"
        )
    return text


if __name__ == "__main__":
    sys.exit(main())
