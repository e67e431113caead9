"""`quiver-fleet`: run many ends on the hosts of a Spark cluster, as one run."""

from __future__ import annotations

import argparse
import os
import sys

from quiver_fast.analysis.read.spark_options import add_spark_options
from quiver_fast.analysis.show.text import section_text
from quiver_fast.cli.arrow.options import asked_by, flag_name
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.fleet.remote import check_hosts
from quiver_fast.cli.fleet.report import fleet_section
from quiver_fast.cli.fleet.run import FleetRun
from quiver_fast.cli.pair.command import report_run
from quiver_fast.cli.pair.ends_plan import EndsPlans
from quiver_fast.cli.pair.options import add_measuring_options, measuring_parser
from quiver_fast.cli.pair.workload import workload_of
from quiver_fast.cli.shared.common import ArgumentParser, add_tool_options, run_command
from quiver_fast.cli.shared.console import Console, add_console_options, add_format_option
from quiver_fast.cli.shared.output import check_output_dir, make_output_dir, write_json
from quiver_fast.cli.shared.quantities import duration, positive_count, within
from quiver_fast.cli.shared.thresholds import add_fail_if, judged, refuse_comparisons
from quiver_fast.errors import EXIT_OK, QuiverError, UsageError
from quiver_fast.extras import optional_module
from quiver_fast.options.rules import FLEET_RULES, check
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
    asked = {*asked_by(args), "fleet"}
    if plans.plan("receive").record_format in _WITH_IDS:
        asked.add("record-format=v2")
    check(FLEET_RULES, asked, flag_name)
    if args.hosts is not None:
        check_hosts(plans, args.hosts)
    check_output_dir(args.output, _ROLES, args.force)
    spark = optional_module("spark_analysis.fleet", _NAME, "spark")
    if args.keep_records is not None:
        spark.check_place(args.keep_records)
    if args.init_only:
        return EXIT_OK
    console, signals = Console(args), SignalWatch()
    directory = make_output_dir(args.output)
    try:
        run = FleetRun(spark, plans, args, directory, console, signals)
        document = marked("fleet", run.measure() | {"workload": args.workload})
    except spark.SPARK_ERRORS as error:
        raise QuiverError(spark.reason(error)) from None
    named = document | {"name": str(directory)}
    document["thresholds"] = judged(args.fail_if, [named], None)
    write_json(directory / _SUMMARY, document)
    hosts = section_text(fleet_section(document["fleet"]))
    return report_run(_NAME, document, console, signals, hosts)


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
    parser = ArgumentParser(f"{_NAME} --", "", "")
    add_measuring_options(parser)
    parser.parse_args(argv[place + 1 :], args)
    args.workload = workload_of(measuring_parser(), args)
    return args


def make_parser() -> ArgumentParser:
    """Return the parser of the command line before --."""
    parser = ArgumentParser(
        _NAME, _DESCRIPTION, _EPILOG, usage=f"{_NAME} [OPTION ...] -- [URL] [OPTION OF quiver ...]"
    )
    group = parser.add_argument_group("options of the cluster")
    masters = "such as spark://HOST:7077, yarn or k8s://https://HOST"
    add_spark_options(group, masters, "spark.executor.cores=8")
    add = group.add_argument
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
    add_fail_if(group, "Exit with 99 if CONDITION, such as 'p99>10ms', holds (may be repeated)")
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
