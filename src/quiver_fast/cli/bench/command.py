"""`quiver-bench`: every sender, receiver and server against each other."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from quiver_fast.cli.arrow.options import asked_by, flag_name
from quiver_fast.cli.bench.cases import SUITES
from quiver_fast.cli.bench.cell import (
    FAILED,
    CellSide,
    cell_url,
    kept_result,
    pair_arguments,
    place_of,
    saved_result,
)
from quiver_fast.cli.bench.matrix import Cell, bench_cells
from quiver_fast.cli.bench.page import bench_html, log_ends
from quiver_fast.cli.bench.table import bench_text, cell_line, failures_text, ranked
from quiver_fast.cli.pair.campaign import Campaign, Run, Task
from quiver_fast.cli.pair.ends_plan import add_ends_options
from quiver_fast.cli.pair.ends_run import make_plans
from quiver_fast.cli.pair.options import add_search_options, check_search, measuring_parser
from quiver_fast.cli.pair.resumed import check_same, read_begun
from quiver_fast.cli.pair.set_sides import Measured, Place
from quiver_fast.cli.pair.workload import given_by, workload_of
from quiver_fast.cli.shared import help_text
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_arrow_keys,
    add_arrow_options,
    add_pair_options,
    add_tool_options,
    report_error,
    run_command,
)
from quiver_fast.cli.shared.console import (
    Console,
    add_console_options,
    add_page_option,
    add_verdict_options,
    check_files,
)
from quiver_fast.cli.shared.implementations import DEFAULT_IMPLEMENTATION, find_arrow
from quiver_fast.cli.shared.output import check_output_dir
from quiver_fast.cli.shared.quantities import named
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK, UsageError
from quiver_fast.options.rules import BENCH_RULES, SUITE_RULES, check

_NAME = "quiver-bench"
_DOCUMENT, _TEXT, _HTML = "bench.json", "bench.txt", "bench.html"

_DESCRIPTION = """\
Benchmark message sender, receiver, and server combinations.

'quiver-bench' is one of the Quiver tools for testing the performance of
message servers and APIs. It runs every pair of arrows through every server
that is found here, and peer-to-peer, one after the other, and ranks them.
"""

_EPILOG = """\
lists:
  The --include-* and --exclude-* options take implementation names, separated
  by commas; aliases are understood. 'all' and 'none' are the defaults. What is
  not installed here is left out, unless it is included by name.

suites:
  'amqp-1' has the cases that show a broker's change: small and durable messages,
  little credit, a rate, many connections, a backlog, churn, idle connections. Each
  is measured five times in new queues, in about ten minutes, and as long again with
  a URL as --baseline.

output files:
  bench.txt, bench.json and bench.html have the ranked table. Each combination
  has SENDER/SERVER/RECEIVER/pair/ and .../server/ ('none' peer-to-peer), with
  the files of 'quiver' and the output of the server, and result.json.

example usage:
  $ quiver-bench --include-servers rabbitmq,artemis,pyfast --client-server
  $ quiver-bench --client-server --find-rate 'p99<10ms'
  $ quiver-bench --mixed-pairs --duration 5s --output out
  $ quiver-bench --mixed-pairs --duration 5s --output out --resume
  $ quiver-bench --suite amqp-1 --url //new --baseline //old   # In turns

exit codes:
  0 success, 1 a test failed, 2 usage error, 130 and 143 interrupted by a signal
"""

# The sides of a combination, as in the names of options.
_KINDS = ("senders", "receivers", "servers")
# Options that choose combinations or output. All other options must stay the same when a bench
# is resumed, so that its results can be compared.
_OF_THIS_CALL = {
    "output", "force", "json", "html", "markdown", "junit", "resume", "quiet", "verbose",
    "init_only", "client_server", "peer_to_peer", "mixed_pairs",
    "suite", "url", "baseline", "trust_order",
    *(f"{what}_{kind}" for what in ("include", "exclude") for kind in _KINDS),
}  # fmt: skip

# The options that a suite has, besides those.
_OF_SUITES = {
    "suite", "url", "baseline", "trust_order", "duration", "warm_up", "include_servers",
    "output", "force", "json", "resume", "quiet", "verbose", "init_only",
}  # fmt: skip
_CASE_SECONDS = 8


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    parser = make_parser()
    args = parser.parse_args(argv)
    given = given_by(parser, argv)
    check(SUITE_RULES, {name.replace("_", "-") for name in given}, flag_name)
    if args.suite:
        return _suite(args, given)
    if args.find_rate:
        _check_search(args, given)
    cells = bench_cells(args)
    _check(args, given, cells)
    if args.resume:
        _check_options(args)
    else:
        check_output_dir(args.output, (), args.force)
    if args.init_only:
        return EXIT_OK
    return _Bench(args, cells).run()


def _suite(args: argparse.Namespace, given: Mapping[str, Any]) -> int:
    """Run a suite. Its cases have options of their own.

    Raises:
        UsageError: another option would change them, or there is not one server.
    """
    for name in sorted(given.keys() - _OF_SUITES):
        raise UsageError(f"{flag_name(name.replace('_', '-'))} does not go with --suite")
    if (args.url is None) == ("include_servers" not in given):
        raise UsageError("--suite needs --url, or one server in --include-servers")
    if "duration" not in given:
        args.duration = _CASE_SECONDS
    check_files(args)
    # The import is slow: only a suite waits for it.
    from quiver_fast.cli.bench.suite import Suite

    suite = Suite(_NAME, args, Console(args))
    check_output_dir(args.output, (), args.force or args.resume)
    return EXIT_OK if args.init_only else suite.run()


def _check_search(args: argparse.Namespace, given: Mapping[str, Any]) -> None:
    """Check the options of a search in each combination, and set the length of its trials."""
    # The import is slow: only a search waits for it.
    from quiver_fast.cli.pair.rate_search import trial_seconds

    if "duration" not in given:
        args.duration = trial_seconds(args.within)
    check_search(args)


def _check(args: argparse.Namespace, given: Mapping[str, Any], cells: Iterable[Cell]) -> None:
    """Refuse options that not all combinations can follow, before one of them runs.

    An implementation that does not support an option fails its combinations alone.
    """
    check_files(args)
    asked = asked_by(argparse.Namespace(**given))
    if args.receivers == args.senders:
        asked.discard("receivers")
    check(BENCH_RULES, asked, flag_name)
    own = find_arrow(DEFAULT_IMPLEMENTATION)
    for server in {cell.server is None: cell.server for cell in cells}.values():
        url = None if server is None else cell_url(args, 0)
        make_plans(pair_arguments(Cell(own, server, own), args, url))


def _check_options(args: argparse.Namespace) -> None:
    """Check that the bench to resume was begun with the same options.

    Raises:
        UsageError: it was not, there is none, or it is damaged.
    """
    file = Path(args.output) / _DOCUMENT
    if not file.is_file():
        raise UsageError(f"--resume: there is no {file}")
    begun = read_begun(file, {"options": dict})["options"]
    usual, now = vars(make_parser().parse_args([])), _options(args)
    # The bench may be older than an option: then it did not use the option.
    check_same(args.output, {name: begun.get(name, usual[name]) for name in now}, now)


def _options(args: argparse.Namespace) -> dict[str, Any]:
    options = {name: value for name, value in vars(args).items() if name not in _OF_THIS_CALL}
    return options | {"find_rate": [condition.condition for condition in args.find_rate]}


class _Bench(Campaign):
    """All combinations, one after the other."""

    schema, file = "bench", _DOCUMENT
    unfinished = "the bench was not over"
    warns = False

    def __init__(self, args: argparse.Namespace, cells: list[Cell]) -> None:
        super().__init__(_NAME, args, Console(args))
        self._cells = {cell.name: cell for cell in cells}
        for number, (name, cell) in enumerate(self._cells.items(), start=1):
            label = f"[{number}/{len(cells)}] {name}"
            self._tasks[name] = Task(name, label, CellSide(cell, args))

    def _place(self, task: Task) -> Place:
        return place_of(self._cells[task.name], self._directory)

    def _run(self, task: Task, taken: Measured) -> Run:
        cell = self._cells[task.name]
        return Run(saved_result(cell, self._directory / cell.path, taken))

    def _end(self, run: Run) -> None:
        self._console.show(cell_line(run.line["name"], run.line["status"]))

    def _kept(self) -> list[Run]:
        found = (kept_result(cell, self._directory) for cell in self._cells.values())
        return [Run(result) for result in found if result is not None]

    def _clear(self, kept: Collection[str]) -> None:
        """Leave all files: those of each combination go before it runs."""

    @property
    def _results(self) -> list[dict[str, Any]]:
        return [run.line for run in self._known]

    @property
    def _failures(self) -> list[dict[str, Any]]:
        return [result for result in self._results if result["status"] == FAILED]

    @property
    def _at_a_rate(self) -> bool:
        """Say whether all pairs had the same load, so that latency ranks them."""
        return bool(self._args.rate or self._args.rate_steps) and not self._args.find_rate

    def _workload(self) -> dict[str, Any]:
        return workload_of(measuring_parser(), self._args)

    def _document(self) -> dict[str, Any]:
        return {
            "complete": len(self._known) == len(self._cells),
            "reason": self._stopped,
            "options": _options(self._args),
            "failures": len(self._failures),
            "results": [*ranked(self._results, self._at_a_rate), *self._failures],
        }

    def _files(self, document: dict[str, Any]) -> dict[str, str]:
        texts = (self._table(), failures_text(self._results))
        logs = {result["name"]: log_ends(result) for result in self._failures}
        page = bench_html(document, logs)
        # A page that --html asks for is another file with the same text.
        pages = {str(Path(self._args.html).absolute()): page} if self._args.html else {}
        return {_TEXT: "\n".join(filter(None, texts)) + "\n", _HTML: page, **pages}

    def _table(self) -> str:
        return bench_text(self._results, self._at_a_rate)

    def _text(self, document: dict[str, Any]) -> str:
        failures = [f"{one['name']}: {one['reason']}" for one in self._failures]
        parts = [f"Test failures: {len(failures)}", *failures, self._table()]
        return "\n".join(filter(None, parts))

    def _verdict(self, document: dict[str, Any]) -> int:
        failures = self._failures
        if self._args.quiet and failures:
            for result in failures:
                report_error(_NAME, f"{result['name']}: {result['reason']}")
            what = f"{len(failures)} of {len(self._results)} combinations failed"
            report_error(_NAME, f"{what}; their files are in {self._directory}")
        return EXIT_FAILURE if failures else EXIT_OK


def _epilog() -> str:
    return "\n".join(
        (
            help_text.FORMATS,
            help_text.arrow_implementations(),
            help_text.server_implementations(),
            _EPILOG,
        )
    )


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(_NAME, _DESCRIPTION, _epilog)
    add = parser.add_argument
    add_console_options(parser)
    add_page_option(parser)
    add_verdict_options(parser)
    add(
        "--resume",
        action="store_true",
        help="Go on with the bench in DIR: finished combinations are not run again",
    )
    add("--suite", choices=[*SUITES], help="Run the cases of a suite at one server (see below)")
    add("--url", metavar="URL", type=named, help="With --suite: a server that runs already")
    add(
        "--baseline",
        metavar="URL|DIR",
        type=named,
        help="With --suite: compare with another server, in turns, or with an earlier suite in DIR",
    )
    add(
        "--trust-order",
        action="store_true",
        help="Compare with DIR although one was measured after the other: nothing else changed",
    )
    for kind in _KINDS:
        add(
            f"--include-{kind}",
            metavar="IMPLS",
            default="all",
            help=f"Test only {kind} in IMPLS (default all)",
        )
        add(
            f"--exclude-{kind}",
            metavar="IMPLS",
            default="none",
            help=f"Do not test {kind} in IMPLS (default none)",
        )
    add("--client-server", action="store_true", help="Test only client-server mode")
    add("--peer-to-peer", action="store_true", help="Test only peer-to-peer mode")
    add("--mixed-pairs", action="store_true", help="Test unmatched senders and receivers")
    add_arrow_options(parser)
    add_pair_options(parser)
    add_ends_options(parser)
    add_search_options(parser.add_argument_group("run options"))
    group = parser.add_argument_group("security options")
    group.add_argument(
        "--cert", metavar="FILE", type=named, help="The TLS certificate file of the servers"
    )
    group.add_argument(
        "--key", metavar="FILE", type=named, help="The TLS private key file of the servers"
    )
    add_arrow_keys(group, "trust-store", "tls-verify")
    add_tool_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
