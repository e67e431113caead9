"""`quiver`: run a sender and a receiver against each other or through a server."""

from __future__ import annotations

import sys
from typing import Any

from quiver_fast.cli import help_text
from quiver_fast.cli.common import (
    ArgumentParser,
    add_arrow_options,
    add_pair_options,
    add_tls_options,
    add_tool_options,
    run_command,
)
from quiver_fast.cli.console import Console, add_console_options
from quiver_fast.cli.implementations import DEFAULT_IMPLEMENTATION
from quiver_fast.cli.output import check_output_dir, make_output_dir
from quiver_fast.cli.pair_run import ROLES, PairPlans, PairRun
from quiver_fast.cli.queue_setup import add_queue_options
from quiver_fast.cli.summary_text import pair_summary_text
from quiver_fast.cli.supervisor import SignalWatch
from quiver_fast.cli.verdict import check_growth, check_summary
from quiver_fast.errors import EXIT_OK, QuiverError

__all__ = ["main"]

_NAME = "quiver"

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

Options marked (pyfast) need implementations with our extensions.

exit codes:
  0 success, 1 failure, 2 usage error, 130 and 143 interrupted by a signal
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    plans = PairPlans(args)
    check_output_dir(args.output, ROLES, args.force)
    if args.init_only:
        return EXIT_OK
    console = Console(args)
    signals = SignalWatch()
    run = PairRun(plans, make_output_dir(args.output), console, signals)
    with signals:
        run.run()
    return _report(run.analyse(), console, signals)


def _report(document: dict[str, Any], console: Console, signals: SignalWatch) -> int:
    """Print the summary and what went wrong; return the exit code."""
    console.document(document)
    sender, receiver = document["sender"], document["receiver"]
    if sender is not None and receiver is not None:
        console.show(pair_summary_text(document).rstrip("\n"))
    for summary in filter(None, (sender, receiver)):
        check_summary(_NAME, summary)
    check_growth(_NAME, document)
    if signals.exit_code is not None:
        return signals.exit_code
    if not document["complete"]:
        raise QuiverError(document["reason"])
    return EXIT_OK


def _parser() -> ArgumentParser:
    epilog = "\n".join(
        (help_text.URLS, help_text.FORMATS, help_text.arrow_implementations(), _EXAMPLES)
    )
    parser = ArgumentParser(_NAME, _DESCRIPTION, epilog)
    add = parser.add_argument
    add(
        "url",
        metavar="URL",
        nargs="?",
        help="The location of a message queue (default: none, peer-to-peer)",
    )
    add_console_options(parser)
    add(
        "--impl",
        metavar="IMPL",
        default=DEFAULT_IMPLEMENTATION,
        help=f"Use IMPL to send and receive (default {DEFAULT_IMPLEMENTATION})",
    )
    add("--sender", metavar="IMPL", help="Use IMPL to send")
    add("--receiver", metavar="IMPL", help="Use IMPL to receive")
    add_arrow_options(parser)
    add_pair_options(parser)
    add_queue_options(parser).add_argument(
        "--unique-queue",
        action="store_true",
        help="Use a new queue, named after the run, and delete it afterwards",
    )
    add_tls_options(parser)
    add_tool_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
