"""`quiver-server`: start a message server implementation with a given queue."""

from __future__ import annotations

import sys
import time

from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.server.plan import ServerPlan, check_arguments, server_plan
from quiver_fast.cli.server.run import TICK, ServerRun
from quiver_fast.cli.shared import help_text
from quiver_fast.cli.shared.common import (
    ArgumentParser,
    add_implementation_options,
    add_options,
    add_password_options,
    add_tool_options,
    run_command,
)
from quiver_fast.cli.shared.implementations import DEFAULT_IMPLEMENTATION, find_server
from quiver_fast.cli.shared.quantities import named
from quiver_fast.cli.shared.start import print_information
from quiver_fast.cli.shared.url import parse_url
from quiver_fast.errors import EXIT_OK, UsageError
from quiver_fast.options.server import (
    LIMITS,
    METRICS,
    OTHERS,
    SECURITY,
    SERVER_OPTIONS,
    STORAGE,
)
from quiver_fast.ready_file import ready_file

_NAME = "quiver-server"

_DESCRIPTION = """\
Start a message server with the given queue.

'quiver-server' is one of the Quiver tools for testing the performance of
message servers and APIs.
"""

_EXAMPLES = """\
durability:
  none                  Write behind; what a crash of the machine loses is not promised
  interval:MILLISECONDS Write and synchronise that often
  group                 Synchronise before messages are accepted, many at once

example usage:
  $ quiver-server //localhost/q0 &       # Our own server
  $ quiver-server //localhost:5673/q0 --impl rabbitmq --ready-file ready
  $ quiver-server --impl rabbitmq --info # Is it installed here?
  $ quiver-server csp://localhost/orders --store queues  # Remote queues, kept in 'queues'

Options marked (pyfast) need our own server.

exit codes:
  0 the server ended in order, also after SIGINT, SIGTERM or SIGHUP; 1 failure, 2 usage
  error; 130 and 143 a second signal ended it at once
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    args = make_parser().parse_args(argv)
    implementation = find_server(args.impl)
    if args.info:
        return print_information(implementation)
    if args.url is None:
        raise UsageError(f"URL is missing (see {_NAME} --help)")
    plan = server_plan(args, implementation, parse_url(args.url))
    if implementation.name == DEFAULT_IMPLEMENTATION:
        check_arguments(plan)
    if args.init_only:
        return EXIT_OK
    return _serve(plan)


def _serve(plan: ServerPlan) -> int:
    """Run the server until it ends; pass signals on to it, so that it ends in order."""
    server = ServerRun(plan)
    # Other implementations do not remove the file, nor does a server that is killed.
    with ready_file(plan.ready_file), SignalWatch() as signals:
        server.start()
        while not server.child.poll():
            signals.pass_on(server)
            time.sleep(TICK)
    if signals.exit_code is not None and signals.count > 1:
        return signals.exit_code
    if not server.ended_well(signals.signum):
        raise server.failure()
    return EXIT_OK


def _epilog() -> str:
    return "\n".join(
        (help_text.URLS, help_text.FORMATS, help_text.server_implementations(), _EXAMPLES)
    )


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(_NAME, _DESCRIPTION, _epilog)
    add = parser.add_argument
    add("url", metavar="URL", nargs="?", help="The location of a message queue")
    add_implementation_options(parser, "serve")
    add(
        "--ready-file",
        metavar="FILE",
        type=named,
        help="The file that gets the line 'ready' when the server is",
    )
    add_password_options(add_options(parser, SECURITY, SERVER_OPTIONS))
    for heading in (STORAGE, OTHERS, LIMITS, METRICS):
        add_options(parser, heading, SERVER_OPTIONS)
    add_tool_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
