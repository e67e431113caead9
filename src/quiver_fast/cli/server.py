"""`quiver-server`: start a message server implementation with a given queue."""

from __future__ import annotations

import argparse
import sys
import time

from quiver_fast.cli import help_text
from quiver_fast.cli.common import (
    ArgumentParser,
    add_implementation_options,
    add_password_options,
    add_tool_options,
    count,
    duration,
    positive_count,
    run_command,
)
from quiver_fast.cli.implementations import find_server
from quiver_fast.cli.server_plan import ServerPlan, server_plan
from quiver_fast.cli.server_run import TICK, ServerRun
from quiver_fast.cli.start import print_information
from quiver_fast.cli.supervisor import SignalForwarder, SignalWatch
from quiver_fast.cli.url import parse_url
from quiver_fast.errors import EXIT_OK, QuiverError, UsageError
from quiver_fast.process import exit_text

__all__ = ["main"]

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
  0 the server ended in order, as SIGINT, SIGTERM and SIGHUP have it do; 1 failure, 2 usage
  error; 130 and 143 a second signal ended it at once
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    implementation = find_server(args.impl)
    if args.info:
        return print_information(implementation)
    if args.url is None:
        raise UsageError(f"URL is missing (see {_NAME} --help)")
    plan = server_plan(args, implementation, parse_url(args.url))
    if args.init_only:
        return EXIT_OK
    return _serve(plan)


def _serve(plan: ServerPlan) -> int:
    """Run the server until it ends; signals are passed on, and the server ends in order."""
    server = ServerRun(plan)
    with SignalWatch() as signals:
        forwarder = SignalForwarder(signals)
        server.start()
        while not server.child.poll():
            forwarder.forward([server])
            time.sleep(TICK)
    if signals.exit_code is not None and forwarder.forwarded > 1:
        return signals.exit_code
    if not server.ended_well(signals.signum):
        raise QuiverError(f"the server ended: {exit_text(server.child.returncode)}")
    return EXIT_OK


def _parser() -> ArgumentParser:
    epilog = "\n".join(
        (help_text.URLS, help_text.FORMATS, help_text.server_implementations(), _EXAMPLES)
    )
    parser = ArgumentParser(_NAME, _DESCRIPTION, epilog)
    add = parser.add_argument
    add("url", metavar="URL", nargs="?", help="The location of a message queue")
    add_implementation_options(parser, "serve")
    add(
        "--ready-file",
        metavar="FILE",
        help="The file that gets the line 'ready' when the server is",
    )
    _add_security_options(parser)
    _add_storage_options(parser)
    _add_connect_options(parser)
    _add_limit_options(parser)
    add_tool_options(parser)
    return parser


def _add_security_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("security options")
    add = group.add_argument
    add("--user", metavar="NAME", help="The user that clients must authenticate as")
    add(
        "--password",
        metavar="PASSWORD",
        help="The password of that user; whoever lists processes sees it, --password-file hides it",
    )
    add_password_options(group)
    add("--cert", metavar="FILE", help="The server's TLS certificate file")
    add("--key", metavar="FILE", help="The server's TLS private key file")
    add("--trust-store", metavar="FILE", help="Require client certificates that FILE vouches for")
    add(
        "--allow-insecure-plain",
        action="store_true",
        help="Take passwords without TLS from other hosts as well (pyfast)",
    )
    add(
        "--sasl-mechanisms",
        metavar="NAMES",
        help="The only SASL mechanisms to offer, separated by spaces (pyfast)",
    )


def _add_storage_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("storage options").add_argument
    add("--store", metavar="DIR", help="Keep durable messages in DIR/QUEUE/ (pyfast)")
    add("--durability", metavar="POLICY", help="When to synchronise them with the disk (pyfast)")
    add("--roll", metavar="CYCLE", help="How long a file of new queues lasts (pyfast)")
    add(
        "--roll-size",
        metavar="BYTES",
        type=positive_count,
        help="End a file of BYTES that is mostly removed, to give its space back (pyfast)",
    )
    add(
        "--retain",
        metavar="CYCLES",
        type=positive_count,
        help="Delete the files of remote queues that are older than CYCLES (pyfast)",
    )
    add(
        "--verify",
        action="store_true",
        help="Read all stored files wholly at the start, not only their ends (pyfast)",
    )
    add("--csp-port", metavar="PORT", type=count, help="Serve the stored queues at PORT (pyfast)")


def _add_connect_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("other servers").add_argument
    add("--connect", metavar="URL", help="Exchange messages with the server at URL (pyfast)")
    add(
        "--connect-count",
        metavar="COUNT",
        type=positive_count,
        help="Connect to it COUNT times; streams share the connections (pyfast)",
    )
    add("--connect-user", metavar="NAME", help="Authenticate there as NAME (pyfast)")
    add(
        "--connect-password-file",
        metavar="FILE",
        help="Read the password for it from the first line of FILE (pyfast)",
    )
    add(
        "--connect-trust-store",
        metavar="FILE",
        help="The certificates to trust there (default: the system's; pyfast)",
    )
    add(
        "--connect-tls-insecure",
        dest="connect_tls_verify",
        action="store_const",
        const=0,
        help="Do not verify that server's certificate (pyfast)",
    )


def _add_limit_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("limits").add_argument
    add(
        "--addresses",
        metavar="NAMES",
        help="The only addresses besides that of the URL, separated by commas "
        "(',' for none; pyfast)",
    )
    add("--no-create", action="store_true", help="Let no client of remote queues make one (pyfast)")
    add(
        "--queue-limit",
        metavar="BYTES",
        type=positive_count,
        help="Stop the producers of a queue that holds BYTES (pyfast)",
    )
    add(
        "--memory-limit",
        metavar="BYTES",
        type=positive_count,
        help="Hold BYTES for all connections besides what is in queues; beyond that the one "
        "that holds most is not read, then closed (pyfast)",
    )
    add(
        "--max-message-size",
        metavar="BYTES",
        type=count,
        help="Refuse messages above BYTES; 0 means no limit (pyfast)",
    )
    add(
        "--credit",
        metavar="COUNT",
        type=positive_count,
        help="Let a producer send COUNT messages ahead (pyfast)",
    )
    add(
        "--stream-sessions",
        choices=("own", "shared"),
        help="Give each link for a stream a session of its own (default), or share one (pyfast)",
    )
    add(
        "--max-connections",
        metavar="COUNT",
        type=positive_count,
        help="Refuse connections beyond COUNT (pyfast)",
    )
    add(
        "--max-sessions",
        metavar="COUNT",
        type=positive_count,
        help="Refuse sessions of a connection beyond COUNT (pyfast)",
    )
    add(
        "--max-links",
        metavar="COUNT",
        type=positive_count,
        help="Refuse links of a connection beyond COUNT (pyfast)",
    )
    add(
        "--max-transactions",
        metavar="COUNT",
        type=positive_count,
        help="Refuse open transactions of a connection beyond COUNT (pyfast)",
    )
    add(
        "--max-queues",
        metavar="COUNT",
        type=positive_count,
        help="Refuse queues that clients make beyond COUNT (pyfast)",
    )
    add(
        "--max-frame-size",
        metavar="BYTES",
        type=positive_count,
        help="The largest AMQP frame to take (pyfast)",
    )
    add(
        "--handshake-timeout",
        metavar="DURATION",
        type=duration,
        help="Close connections that are not open after DURATION (pyfast)",
    )
    add(
        "--idle-timeout",
        metavar="DURATION",
        type=duration,
        help="Close connections that are silent for DURATION; 0 means never (pyfast)",
    )


if __name__ == "__main__":
    sys.exit(main())
