"""What the commands share: the argument parser, its types and options, and the error boundary."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn

from quiver_fast import __version__
from quiver_fast.cli.implementations import DEFAULT_IMPLEMENTATION
from quiver_fast.errors import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_OK, QuiverError, UsageError

__all__ = [
    "ArgumentParser",
    "add_arrow_options",
    "add_implementation_options",
    "add_pair_options",
    "add_password_options",
    "add_tls_options",
    "add_tool_options",
    "add_trust_options",
    "count",
    "duration",
    "error_text",
    "positive_count",
    "report_error",
    "report_warning",
    "run_command",
]

_COUNT_UNITS = {"k": 1_000, "m": 1_000_000}
_DURATION_UNITS = {"s": 1, "m": 60, "h": 3600}
_RED, _YELLOW, _PLAIN = "\033[31m", "\033[33m", "\033[0m"


class ArgumentParser(argparse.ArgumentParser):
    """A parser without abbreviations that raises usage errors instead of exiting."""

    def __init__(self, prog: str, description: str, epilog: str, usage: str | None = None) -> None:
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            epilog=epilog,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def error(self, message: str) -> NoReturn:
        """Raise a :class:`UsageError`; the boundary prints it as one line."""
        raise UsageError(f"{message} (see {self.prog} --help)")


def run_command(name: str, command: Callable[[list[str]], int], argv: list[str] | None) -> int:
    """Run ``command`` with ``argv`` (``sys.argv`` by default) and return its exit code.

    A :class:`QuiverError` becomes one line on standard error and its exit code;
    so do operating system errors, such as a full disk.
    """
    try:
        return command(sys.argv[1:] if argv is None else argv)
    except SystemExit as end:  # argparse, after --help and --version
        return EXIT_OK if end.code is None else int(end.code)
    except QuiverError as error:
        report_error(name, str(error))
        return error.exit_code
    except KeyboardInterrupt:  # outside of a run, where nothing is left to save
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output is gone: nobody to tell, and nothing left to flush.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    except OSError as error:
        report_error(name, error_text(error))
        return EXIT_FAILURE


def error_text(error: OSError) -> str:
    """Return in one line what the system refused, and of which file."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def report_error(command: str, message: str) -> None:
    """Print one line, ``COMMAND: error: MESSAGE``, on standard error."""
    _report(command, "error", message, _RED)


def report_warning(command: str, message: str) -> None:
    """Print one line, ``COMMAND: warning: MESSAGE``, on standard error."""
    _report(command, "warning", message, _YELLOW)


def _report(command: str, kind: str, message: str, colour: str) -> None:
    if sys.stderr.isatty() and not os.environ.get("NO_COLOR"):
        kind = f"{colour}{kind}{_PLAIN}"
    print(f"{command}: {kind}: {' '.join(message.split())}", file=sys.stderr, flush=True)


def count(text: str) -> int:
    """Parse a count such as ``100``, ``10k`` or ``1m``: an argparse type."""
    return _with_unit(text, _COUNT_UNITS)


def positive_count(text: str) -> int:
    """Parse a count that must not be 0: an argparse type."""
    number = count(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def duration(text: str) -> int:
    """Parse a duration such as ``30``, ``30s``, ``5m`` or ``1h`` into seconds: an argparse type."""
    return _with_unit(text, _DURATION_UNITS)


def _with_unit(text: str, units: dict[str, int]) -> int:
    factor = units.get(text[-1:], 1)
    digits = text[:-1] if text[-1:] in units else text
    if not (digits.isascii() and digits.isdigit()):
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number with an optional unit")
    return int(digits) * factor


def add_arrow_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a measurement: how much, how fast, of what kind."""
    group = parser.add_argument_group("test options")
    add = group.add_argument
    add(
        "-d",
        "--duration",
        metavar="DURATION",
        type=duration,
        default=30,
        help="Stop after DURATION (default 30s; 0 means no limit)",
    )
    add(
        "-c",
        "--count",
        metavar="COUNT",
        type=count,
        default=0,
        help="Send or receive COUNT messages (default 0, no limit)",
    )
    add(
        "--rate",
        metavar="COUNT",
        type=count,
        default=0,
        help="Target a rate of COUNT messages per second (default 0, disabled)",
    )
    add(
        "--body-size",
        metavar="COUNT",
        type=count,
        default=100,
        help="Send message bodies containing COUNT bytes (default 100)",
    )
    add(
        "--credit",
        metavar="COUNT",
        type=positive_count,
        default=1000,
        help="Sustain credit for COUNT incoming messages (default 1000)",
    )
    add(
        "--transaction-size",
        metavar="COUNT",
        type=count,
        default=0,
        help="Transfer batches of COUNT messages inside transactions (default 0, disabled)",
    )
    add("--durable", action="store_true", help="Require persistent store-and-forward transfers")
    add(
        "--set-message-id",
        action="store_true",
        help="Send each message with a message ID and read it on receive",
    )
    add(
        "--timeout",
        metavar="DURATION",
        type=duration,
        default=10,
        help="Fail after DURATION without transfers (default 10s; 0 means never)",
    )
    add(
        "--streaming",
        action="store_true",
        help="Stream bodies of any size; show throughput and first-byte latency (pyfast)",
    )
    add("--presettled", action="store_true", help="Send messages settled, at most once (pyfast)")
    add(
        "--record-format",
        choices=["v1", "v2", "v3"],
        help="The revision of the transfer records; v1 and v2 have message IDs (pyfast)",
    )
    add(
        "--settlement",
        action="store_true",
        help="Record when each sent message is settled, where the sender can; with pyfast "
        "implies --record-format v2",
    )
    add(
        "--time-unit",
        choices=["ms", "us", "ns"],
        help="The clock unit of the transfer records (pyfast). The default is ms, which "
        "tools of upstream read, but us for a pair whose ends are both pyfast, because most "
        "of its latencies are fractions of a ms",
    )
    add(
        "--max-frame-size",
        metavar="COUNT",
        type=positive_count,
        help="The largest AMQP frame in bytes (pyfast)",
    )


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a measurement that has both ends."""
    group = parser.add_argument_group("pair options")
    group.add_argument(
        "--drain-timeout",
        metavar="DURATION",
        type=duration,
        default=30,
        help="When the sender has ended, receive what it sent for up to DURATION "
        "(default 30s; 0 leaves the rest unreceived; pyfast)",
    )


def add_tls_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of authentication and transport security."""
    group = parser.add_argument_group("security options")
    add = group.add_argument
    add("--cert", metavar="FILE", help="The TLS certificate file of the arrow")
    add("--key", metavar="FILE", help="The TLS private key file of the arrow")
    add_trust_options(group)
    add("--username", metavar="NAME", help="Authenticate as NAME; may also be in the URL")
    add_password_options(group)
    add(
        "--sasl-mechanisms",
        metavar="NAMES",
        help="The SASL mechanisms to allow, separated by spaces (pyfast)",
    )


def add_trust_options(group: argparse._ActionsContainer) -> None:
    """Add the options about whom an arrow trusts."""
    add = group.add_argument
    add(
        "--trust-store",
        metavar="FILE",
        help="The certificates to trust (default: the system's; pyfast)",
    )
    add(
        "--tls-insecure",
        action="store_true",
        help="Do not verify the peer's certificate; the summary records it (pyfast)",
    )


def add_password_options(group: argparse._ActionsContainer) -> None:
    """Add the ways of a password that do not show it."""
    group.add_argument(
        "--password-file", metavar="FILE", help="Read the password from the first line of FILE"
    )
    group.add_argument(
        "--expose-password",
        action="store_true",
        help="Pass the password on the command line to implementations "
        "that have no other way; other users of the host can see it",
    )


def add_implementation_options(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the choice of one implementation, and what comes before its command line."""
    add = parser.add_argument
    add(
        "--impl",
        metavar="IMPL",
        default=DEFAULT_IMPLEMENTATION,
        help=f"Use IMPL to {purpose} (default {DEFAULT_IMPLEMENTATION})",
    )
    add("--info", action="store_true", help="Print implementation details and exit")
    add(
        "--prelude",
        metavar="PRELUDE",
        default="",
        help="Commands to precede the implementation invocation",
    )


def add_tool_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that every command has."""
    group = parser.add_argument_group("common options")
    add = group.add_argument
    add("--quiet", action="store_true", help="Print nothing to the console")
    add("--verbose", action="store_true", help="Print details to the console")
    add("--init-only", action="store_true", help="Initialize and exit")
    add(
        "--version",
        action="version",
        version=f"%(prog)s {__version__}",
        help="Print the version and exit",
    )
