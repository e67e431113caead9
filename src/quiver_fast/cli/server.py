"""`quiver-server`: start a message server implementation with a given queue."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress

from quiver_fast.cli import help_text
from quiver_fast.cli.common import ArgumentParser, add_tool_options, run_command
from quiver_fast.cli.implementations import DEFAULT_IMPLEMENTATION, Implementation, find_server
from quiver_fast.cli.supervisor import SignalWatch
from quiver_fast.cli.url import AddressUrl, parse_url
from quiver_fast.errors import EXIT_OK, QuiverError, UsageError

__all__ = ["main"]

_NAME = "quiver-server"
_TICK = 0.05

_DESCRIPTION = """\
Start a message server with the given queue.

'quiver-server' is one of the Quiver tools for testing the performance of
message servers and APIs.
"""


def main(argv: list[str] | None = None) -> int:
    """Run the command with ``argv`` (``sys.argv`` by default) and return its exit code."""
    return run_command(_NAME, _run, argv)


def _run(argv: list[str]) -> int:
    args = _parser().parse_args(argv)
    implementation = find_server(args.impl)
    if args.info:
        return subprocess.run(implementation.command, check=False).returncode
    if args.url is None:
        raise UsageError(f"URL is missing (see {_NAME} --help)")
    command = _command(args, implementation, parse_url(args.url))
    if args.init_only:
        return EXIT_OK
    return _serve(command, implementation.environment(args.verbose))


def _command(
    args: argparse.Namespace, implementation: Implementation, url: AddressUrl
) -> list[str]:
    """Return the words that start the server, in the contract of upstream's servers."""
    if args.password is not None and not args.expose_password:
        raise UsageError(
            f"implementation '{implementation.name}' takes passwords only on its command line, "
            "where others can see them; --expose-password allows that"
        )
    if (args.cert is None) != (args.key is None):
        raise UsageError("--cert and --key need each other")
    values = {
        "host": url.host,
        "port": url.port,
        "path": url.path,
        "ready-file": args.ready_file or "-",
        "user": args.user,
        "password": args.password,
        "cert": args.cert,
        "key": args.key,
        "trust-store": args.trust_store,
        "quiet": 1 if args.quiet else None,
        "verbose": 1 if args.verbose else None,
    }
    arguments = [f"{key}={value}" for key, value in values.items() if value is not None]
    return [*_words(args.prelude), *implementation.command, *arguments]


def _serve(command: list[str], environ: dict[str, str]) -> int:
    """Run the server until it ends; signals are passed on, and then their code is returned."""
    with SignalWatch() as signals:
        try:
            # A session of its own, so that a terminal's Ctrl-C reaches it once, through us.
            server = subprocess.Popen(command, env=environ, start_new_session=True)
        except OSError as error:
            raise QuiverError(f"cannot start '{command[0]}': {error.strerror}") from error
        returncode = _wait(server, signals)
    if signals.exit_code is not None:
        return signals.exit_code
    if returncode != 0:
        raise QuiverError(f"the server ended with exit code {returncode}")
    return EXIT_OK


def _wait(server: subprocess.Popen[bytes], signals: SignalWatch) -> int:
    """Return the server's exit code; pass a signal on to it, and kill it at a second one."""
    forwarded = 0
    while True:
        with suppress(subprocess.TimeoutExpired):
            return server.wait(_TICK)
        if signals.signum is not None and signals.count > forwarded:
            forwarded = signals.count
            os.killpg(server.pid, signals.signum if forwarded == 1 else signal.SIGKILL)


def _words(prelude: str) -> list[str]:
    try:
        return shlex.split(prelude)
    except ValueError as error:
        raise UsageError(f"--prelude: {error}") from None


def _parser() -> ArgumentParser:
    epilog = "\n".join((help_text.URLS, help_text.server_implementations()))
    parser = ArgumentParser(_NAME, _DESCRIPTION, epilog)
    add = parser.add_argument
    add("url", metavar="URL", nargs="?", help="The location of a message queue")
    add(
        "--impl",
        metavar="IMPL",
        default=DEFAULT_IMPLEMENTATION,
        help=f"Use IMPL to serve (default {DEFAULT_IMPLEMENTATION})",
    )
    add("--info", action="store_true", help="Print implementation details and exit")
    add(
        "--ready-file",
        metavar="FILE",
        help="The file that gets the line 'ready' when the server is",
    )
    add(
        "--prelude",
        metavar="PRELUDE",
        default="",
        help="Commands to precede the implementation invocation",
    )
    add("--user", metavar="NAME", help="The user that clients must authenticate as")
    add("--password", metavar="PASSWORD", help="The password of that user")
    add(
        "--expose-password",
        action="store_true",
        help="Pass the password on the server's command line; other users can see it",
    )
    add("--cert", metavar="FILE", help="The server's TLS certificate file")
    add("--key", metavar="FILE", help="The server's TLS private key file")
    add("--trust-store", metavar="FILE", help="Require client certificates that FILE vouches for")
    add_tool_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
