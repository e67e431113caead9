"""`quiver-conform`: judge whether a server is AMQP 1.0, clause by clause."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing

from quiver_fast import __version__
from quiver_fast.cli.conform import text
from quiver_fast.cli.conform.subjects import server_subject
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_completion_option,
    add_tls_options,
    report_warning,
    require_output,
    run_command,
)
from quiver_fast.cli.shared.quantities import duration, named, part_duration, positive_count, within
from quiver_fast.conform import runner
from quiver_fast.conform.case import BROKEN, SHOULD, Case, select
from quiver_fast.conform.cases import CASES
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK, UsageError, visible

_NAME = "quiver-conform"

_DESCRIPTION = """\
Judge whether a server is AMQP 1.0, clause by clause.

'quiver-conform' is one of the Quiver tools for testing the performance of
message servers and APIs.
"""

_EPILOG = """\
verdicts:
  kept                  The server did what the clause demands
  broken                It did not; the lines below tell what was due, what came,
                        and the frames
  disputed              It did not, and the clause can be read in another way
  unobservable          The clause cannot be judged here; the line tells why

queues:
  Each case has a queue of its own: a dynamic node. For a server without them give
  --address; its '{}' is a number for each case. No other queue is touched.

example usage:
  $ quiver-conform //localhost
  $ quiver-conform //localhost --only 2.6,4
  $ quiver-conform --list

exit codes:
  0 no clause is broken (--strict: none of SHOULD either), 1 one is, or the run is
  not complete, 2 usage error, 130 interrupted
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    args = make_parser().parse_args(argv)
    only = [one for one in (args.only or "").split(",") if one]
    cases = select((case for case in CASES if case.who == "server"), only)
    require_output()
    if args.list:
        for case in cases:
            print(text.listed(case, args.verbose))
        return EXIT_OK
    if args.url is None:
        raise UsageError(f"URL is missing (see {_NAME} --help)")
    return _judge(cases, args)


def _judge(cases: list[Case], args: argparse.Namespace) -> int:
    part = ""

    def tell(result: runner.Result) -> None:
        nonlocal part
        if text.part_of(result.case) != part:
            part = text.part_of(result.case)
            print(f"\n{part}")
        for line in text.result_lines(result, args.verbose):
            print(visible(line), flush=True)

    with closing(server_subject(args)) as subject:
        print(visible(f"{_NAME}: {subject.title}"), flush=True)
        report = runner.run(cases, subject, jobs=args.jobs, seconds=args.timeout, tell=tell)
    print(f"\n{text.counts(report)}")
    for line in (*filter(None, [report.reason]), *subject.stayed):
        report_warning(_NAME, line)
    allowed = 0 if args.strict else report.count(BROKEN, SHOULD)
    failed = report.count(BROKEN) > allowed or report.reason or subject.stayed
    return EXIT_FAILURE if failed else EXIT_OK


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(_NAME, _DESCRIPTION, _EPILOG)
    add = parser.add_argument
    add("url", metavar="URL", nargs="?", help="The server: [amqp:|amqps:]//HOST[:PORT]")
    add("--only", metavar="ID,…", type=named,
        help="Judge only the clauses whose ids begin so, such as 2.6 or 2.6.6/1")  # fmt: skip
    add("--list", action="store_true", help="List the clauses; with --verbose their faults too")
    add("--strict", action="store_true", help="Fail for a broken SHOULD too")
    add("--address", metavar="TEXT", type=named,
        help="Use this queue, and empty it; '{}' in it is a number for each case")  # fmt: skip
    add("--timeout", metavar="TIME", type=within(duration, 1, 86_400), default=120,
        help="The most time for all cases (default 120s)")  # fmt: skip
    add("--patience", metavar="TIME", type=part_duration, default=5.0,
        help="The time for an answer of the server (default 5s)")  # fmt: skip
    add("--jobs", metavar="COUNT", type=within(positive_count, 1, 100), default=8,
        help="How many cases run at the same time (default 8)")  # fmt: skip
    add("-v", "--verbose", action="store_true", help="Show the frames of each case")
    add_tls_options(parser)
    add_completion_option(parser)
    add("--version", action="version", version=f"%(prog)s {__version__}",
        help="Print the version and exit")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
