"""`quiver-arrow`: run one sender or receiver, and save and summarise its records."""

from __future__ import annotations

import argparse
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from quiver_fast.analysis.read.sources import analyse_pair
from quiver_fast.analysis.sections.run import run_of
from quiver_fast.cli.arrow.meter import add_metrics_options, metered
from quiver_fast.cli.arrow.options import ArrowOptions
from quiver_fast.cli.arrow.plan import ArrowPlan, new_id, role_of
from quiver_fast.cli.arrow.queue_setup import QueueOptions, QueueSetup, add_queue_options, with_path
from quiver_fast.cli.arrow.run import ArrowRun, reading, without_file
from quiver_fast.cli.arrow.summary_text import arrow_summary_text
from quiver_fast.cli.arrow.supervisor import SignalWatch, Supervisor
from quiver_fast.cli.arrow.verdict import judge, summary_warnings
from quiver_fast.cli.shared import help_text
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_arrow_keys,
    add_arrow_options,
    add_failure_options,
    add_implementation_options,
    add_tls_options,
    add_tool_options,
    report_warning,
    run_command,
)
from quiver_fast.cli.shared.console import Console, add_console_options, add_format_option
from quiver_fast.cli.shared.implementations import Implementation, find_arrow
from quiver_fast.cli.shared.other_tools import operation_like
from quiver_fast.cli.shared.output import check_output_dir, keeping_records, make_output_dir
from quiver_fast.cli.shared.start import prelude_words, print_information
from quiver_fast.cli.shared.url import AddressUrl
from quiver_fast.errors import EXIT_OK, QuiverError, UsageError
from quiver_fast.options.arrow import ARROW_OPTIONS
from quiver_fast.schemas import marked

_NAME = "quiver-arrow"

_USAGE = """\
quiver-arrow [options] OPERATION URL
       quiver-arrow [--impl IMPL] --info"""

_DESCRIPTION = """\
Send or receive messages as fast as possible over a single connection, for a
duration or up to a count.

'quiver-arrow' is one of the Quiver tools for testing the performance of
message servers and APIs.
"""

_MODES = """\
server and passive modes:
  By default quiver-arrow connects to a server and actively creates the session
  and link that it uses. With --server it listens for a connection instead, and
  with --passive it waits for its peer to create the session and link.

  Options marked (pyfast) need an implementation with our extensions.
  Options may also be given as words: quiver-arrow impl=pyfast send queue0

example usage:
  $ quiver-arrow receive queue0 &     # Start receiving
  $ quiver-arrow send queue0          # Start sending

exit codes:
  0 success, 1 failure, 2 usage error, 130 and 143 interrupted by a signal
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    parser = make_parser()
    # Options may stand between the words, and `impl=NAME` may be one of them.
    args = parser.parse_intermixed_args(argv)
    implementation = find_arrow(_implementation_name(args))
    if args.info:
        return print_information(implementation)
    return metered(_NAME, args, lambda: _run_arrow(args, implementation))


def _run_arrow(args: argparse.Namespace, implementation: Implementation) -> int:
    queue = QueueOptions.from_arguments(args)
    plan = _plan(args, implementation, queue)
    check_output_dir(args.output, (plan.role,), args.force)
    if args.init_only:
        return EXIT_OK
    return _measure(plan, queue, make_output_dir(args.output), Console(args), args.summary)


def _implementation_name(args: argparse.Namespace) -> str:
    names = [word.removeprefix("impl=") for word in args.words if word.startswith("impl=")]
    args.words = [word for word in args.words if not word.startswith("impl=")]
    return str(names[-1] if names else args.impl)


def _measure(
    plan: ArrowPlan, options: QueueOptions, output_dir: Path, console: Console, summarize: bool
) -> int:
    console.note(f"Saving output files to '{output_dir}'")
    signals = SignalWatch()
    with signals, closing(QueueSetup(_NAME, options, plan, console, signals)) as queue:
        queue.prepare()
        if _needs_address(plan):
            queue.ask_address()
        if signals.exit_code is not None:
            return signals.exit_code
        run = ArrowRun(with_path(plan, queue.path), output_dir)
        with closing(run):
            run.start()
            Supervisor(signals).watch([run])
    with keeping_records(output_dir, run.leave_unread):
        summary = _summary_of(run, console.quiet)
        summary["purged"] = queue.purged
        problem = judge(run, summary)
        run.save(summary)
        uncompressed = run.compress(console.quiet)
    console.document(marked("arrow-summary", summary))
    _show(summary, console, summarize)
    for warning in summary_warnings(summary):
        report_warning(_NAME, warning)
    if signals.exit_code is not None:
        return signals.exit_code
    if problem or uncompressed:
        raise QuiverError(problem or uncompressed)
    return EXIT_OK


def _summary_of(run: ArrowRun, quiet: bool) -> dict[str, Any]:
    end = run.as_recorded()
    with reading([run], quiet) as progress:
        data = analyse_pair(str(end.path.parent), [end], progress)
    return without_file(data.sender or data.receiver or {})


def _show(summary: dict[str, Any], console: Console, summarize: bool) -> None:
    """Print the summary; a terminal gets the headline in any case."""
    terminal = console.terminal
    if terminal is not None:
        # Only terminals pay for the import.
        from quiver_fast.cli.arrow.terminal import print_run

        print_run(terminal, run_of(summary), summarize=summarize, verbose=console.verbose)
    elif summarize:
        console.show(arrow_summary_text(summary).rstrip("\n"))


def _needs_address(plan: ArrowPlan) -> bool:
    """Say whether to ask the broker for the address of the URL's path.

    Our own arrow asks by itself. A peer that waits for one arrow would take the question for
    that arrow, so only ask where the path looks like RabbitMQ's.
    """
    looks_so = plan.url.path.startswith(("queues/", "exchanges/"))
    return looks_so and not plan.implementation.extensions and not plan.server


def _plan(
    args: argparse.Namespace, implementation: Implementation, queue: QueueOptions
) -> ArrowPlan:
    if len(args.words) != 2 or args.words[0] not in ("send", "receive"):
        meant = operation_like(args.words[0]) if args.words else ""
        hint = f"; did you mean {meant}?" if meant not in ("", *args.words) else ""
        raise UsageError(
            f"the arguments must be 'send' or 'receive', and a URL{hint} (see {_NAME} --help)"
        )
    operation, url = args.words[0], queue.url(args.words[1])
    _refuse_idle(args, operation, url)
    asked = {"connection-mode=server": args.server, "channel-mode=passive": args.passive}
    return ArrowPlan(
        operation=operation,
        implementation=implementation,
        url=url,
        options=ArrowOptions.from_arguments(args, url, (one for one in asked if asked[one])),
        id=args.id or new_id(operation),
        server=args.server,
        passive=args.passive,
        tail_from=args.tail_from,
        exit_when=args.exit_when,
        prelude=prelude_words(args.prelude),
        verbose=args.verbose,
        meter=args.meter,
    )


def _refuse_idle(args: argparse.Namespace, operation: str, url: AddressUrl) -> None:
    """Refuse options that were given and have no effect on this end.

    Raises:
        UsageError: there is one.
    """
    # A sender of csp has as much ahead of the server, and a purge receives.
    has_window = url.scheme == "csp" or args.purge
    for option in ARROW_OPTIONS:
        if option.acts_on(operation):
            continue
        if option.key == "credit-window" and has_window:
            continue
        if getattr(args, option.dest, None) not in (None, False, option.initial):
            raise UsageError(f"{option.flag} is for {role_of(option.acts or option.side)}s")


def _epilog() -> str:
    return "\n".join(
        (
            help_text.OPERATIONS,
            help_text.URLS,
            help_text.FORMATS,
            help_text.arrow_implementations(),
            _MODES,
        )
    )


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(_NAME, _DESCRIPTION, _epilog, _USAGE)
    add = parser.add_argument
    add(
        "words",
        metavar="OPERATION URL",
        nargs="*",
        help="Either 'send' or 'receive', and the location of a message source or target",
    )
    add_console_options(parser)
    add_format_option(parser)
    add_implementation_options(parser, "send or receive")
    add("--summary", action="store_true", help="Print the configuration and results to the console")
    add("--id", metavar="ID", help="Use ID as the client or server identity")
    add("--server", action="store_true", help="Operate in server mode")
    add("--passive", action="store_true", help="Operate in passive mode")
    add_arrow_keys(parser, "tail-from", "exit-when")
    add_arrow_options(parser)
    add_failure_options(parser)
    add_queue_options(parser)
    add_tls_options(parser)
    add_metrics_options(parser)
    add_tool_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
