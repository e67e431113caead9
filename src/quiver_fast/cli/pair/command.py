"""`quiver`: run a sender and a receiver against each other or through a server."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from quiver_fast.analysis.sections.verdicts import verdict_section
from quiver_fast.analysis.show.text import section_text
from quiver_fast.cli.arrow.meter import add_metrics_options, metered
from quiver_fast.cli.arrow.summary_text import pair_summary_text
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.arrow.verdict import pair_warnings
from quiver_fast.cli.pair.ends_run import make_plans, make_run
from quiver_fast.cli.pair.fault_text import HELP as FAULT_HELP
from quiver_fast.cli.pair.found_rate import FindRate
from quiver_fast.cli.pair.options import (
    BASELINE_HELP,
    add_measuring_options,
    add_set_options,
    check_set_options,
)
from quiver_fast.cli.pair.run import ROLES, PairPlans
from quiver_fast.cli.pair.run_set import RunSet
from quiver_fast.cli.pair.set_sides import pair_label
from quiver_fast.cli.pair.sweep import Sweep
from quiver_fast.cli.pair.workload import add_workload_options, read_arguments, workload_text
from quiver_fast.cli.shared import help_text
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_tool_options,
    attempt_output,
    print_text,
    report_warning,
    run_command,
)
from quiver_fast.cli.shared.console import (
    Console,
    add_console_options,
    add_format_option,
    add_page_option,
    add_verdict_options,
    check_files,
)
from quiver_fast.cli.shared.output import (
    check_output_dir,
    keeping_records,
    make_output_dir,
    remove_ends,
)
from quiver_fast.cli.shared.thresholds import (
    COMPARISON_HELP,
    THRESHOLD_HELP,
    Threshold,
    judged,
    told,
)
from quiver_fast.errors import EXIT_OK, QuiverError, UsageError
from quiver_fast.schemas import VERSIONS, marked, schema_text

_NAME = "quiver"
_SCHEMA = "schema"

_DESCRIPTION = """\
Start a sender-receiver pair for a messaging address.

'quiver' is one of the Quiver tools for testing the performance of message
servers and APIs. Without a URL the sender connects directly to the receiver,
on a free port of this host.
"""

_EXAMPLES = """\
example usage:
  $ quiver                              # Test peer-to-peer
  $ quiver amqp://example.net/queue0    # Test through a server
  $ quiver --runs 10 --baseline=--durable   # Compare ten runs with ten durable ones
  $ quiver //localhost/q0 --sweep rate=1k..100k:6   # Latency over throughput
  $ quiver --baseline=--durable --detect 5%  # As many runs as a change of 5 % needs
  $ quiver --workload nightly.toml --rate 20k   # Options of a file, at another rate
  $ quiver --resume --output out        # Go on with the runs in out
  $ quiver --workload result.json       # Measure a result again
  $ quiver //localhost/q-%d --senders 8 --receivers 8 --queues 4   # Many ends
  $ quiver //localhost/q0 --find-rate 'p99<10ms'   # The highest rate within it
  $ quiver //localhost/q0 --churn 1k   # A thousand new connections per second
  $ quiver //localhost/q0 --hold 10k   # Idle connections, and the cost of each
  $ quiver schema run                   # The JSON Schema of what --json prints

Options marked (pyfast) need implementations with our extensions.

exit codes:
  0 success, 1 failure, 2 usage error, 98 --fail-if inconclusive, 99 a threshold is
  breached or cannot be judged, 130 and 143 interrupted by a signal. A verdict against a
  baseline changes none of them without --fail-if.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    if argv[:1] == [_SCHEMA]:
        print_text(_schemas(argv[1:]))
        return EXIT_OK
    parser = make_parser()
    args = read_arguments(parser, argv, os.environ)
    check_set_options(args)
    check_files(args)
    if args.print_workload:
        print_text(workload_text(parser, args))
        return EXIT_OK
    console = _PageConsole(args)
    return metered(_NAME, args, lambda: _measure_and_show(args, console))


def _measure_and_show(args: argparse.Namespace, console: _PageConsole) -> int:
    try:
        return _measure(args, console)
    finally:
        console.write_page()


def _measure(args: argparse.Namespace, console: Console) -> int:
    run = _measurement(args, console)
    check_output_dir(args.output, ROLES, args.force or args.resume)
    return EXIT_OK if args.init_only else run()


def _measurement(args: argparse.Namespace, console: Console) -> Callable[[], int]:
    """Return what runs the measurement that is asked for, whose options are checked."""
    if args.churn or args.hold:
        # They have an engine in this process, which no other measurement needs.
        from quiver_fast.cli.pair.connecting import ChurnRun, HoldRun

        return (ChurnRun if args.churn else HoldRun)(_NAME, args, console).run
    if args.find_rate:
        return FindRate(_NAME, args, console, pair_label(args)).run
    if args.sweep:
        return Sweep(_NAME, args, console).run
    if args.runs or args.detect:
        return RunSet(_NAME, args, console).run
    return partial(_run_once, make_plans(args), args, console)


class _PageConsole(Console):
    """Also writes the page of ``--html``, when all else is told."""

    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__(args)
        self._page, self._fail_if = args.html, args.fail_if
        self._measured: str | None = None

    def document(self, document: dict[str, Any], **beside: Any) -> None:
        super().document(document, **beside)
        self._measured = document["output_dir"]

    def write_page(self) -> None:
        """Write the page of the measurement, if one is asked for and something was measured."""
        if self._page is None or self._measured is None:
            return
        attempt_output(partial(_write_page, self._page, self._measured, self._fail_if))


def _write_page(file: str, directory: str, fail_if: list[Threshold]) -> None:
    # Only runs with a page pay for the import.
    from quiver_fast.cli.analyze.command import write_page

    try:
        write_page(file, directory, fail_if)
    except QuiverError as error:
        raise OSError(f"{file} was not written: {error}") from None


def _run_once(plans: PairPlans, args: argparse.Namespace, console: Console) -> int:
    signals = SignalWatch()
    directory = make_output_dir(args.output)
    remove_ends(directory)
    run = make_run(plans, directory, console, signals)
    with signals:
        run.run()
    with keeping_records(directory, run.leave_unread):
        document = run.analyse()
    document["workload"] = args.workload
    named = document | {"name": document["output_dir"]}
    document["thresholds"] = judged(args.fail_if, [named], None)
    return report_run(_NAME, marked("run", document), console, signals)


def report_run(
    command: str, document: dict[str, Any], console: Console, signals: SignalWatch, more: str = ""
) -> int:
    """Print the summary, ``more`` text and the errors of a run; return the exit code."""
    console.document(document)
    _show(document, console)
    if more:
        console.show(more.rstrip("\n"))
    for warning in pair_warnings(document):
        report_warning(command, warning)
    verdict = told(document["thresholds"], command, failed=not document["complete"])
    if signals.exit_code is not None:
        return signals.exit_code
    if not document["complete"]:
        raise QuiverError(document["reason"])
    return verdict


def _show(document: dict[str, Any], console: Console) -> None:
    """Print the summary and the verdicts; a terminal gets the headline first."""
    measured = document["sender"] is not None and document["receiver"] is not None
    terminal = console.terminal
    if terminal is not None and measured:
        # Only terminals pay for the import.
        from quiver_fast.cli.arrow.terminal import print_run

        print_run(terminal, document, verbose=console.verbose)
        return
    if measured:
        console.show(pair_summary_text(document).rstrip("\n"))
    if document["thresholds"]:
        console.show(section_text(verdict_section(document["thresholds"])).rstrip("\n"))


def _schemas(words: Sequence[str]) -> str:
    """Return the text that `quiver schema` prints: a schema, or the names of all, one a line.

    Raises:
        UsageError: there is no such document.
    """
    if not words:
        return "".join(f"{name}\n" for name in sorted(VERSIONS))
    if len(words) > 1 or words[0] not in VERSIONS:
        raise UsageError(_unknown(words))
    return schema_text(words[0])


def _unknown(words: Sequence[str]) -> str:
    if len(words) > 1:
        return "schema takes one name; without one it prints all of them"
    close = difflib.get_close_matches(words[0], VERSIONS, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"there is no document '{words[0]}'{hint} ('quiver schema' prints all names)"


def _epilog() -> str:
    return "\n".join(
        (
            help_text.URLS,
            FAULT_HELP,
            help_text.FORMATS,
            BASELINE_HELP,
            THRESHOLD_HELP,
            COMPARISON_HELP,
            help_text.arrow_implementations(),
            _EXAMPLES,
        )
    )


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(_NAME, _DESCRIPTION, _epilog)
    add_measuring_options(parser)
    add_console_options(parser)
    add_format_option(parser)
    add_page_option(parser)
    add_verdict_options(parser)
    add_set_options(parser)
    add_workload_options(parser)
    add_metrics_options(parser)
    add_tool_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
