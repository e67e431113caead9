"""What the commands share: the argument parser, its types and options, and the error boundary."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn

from quiver_fast import __version__
from quiver_fast.cli import commands
from quiver_fast.cli.shared.completion import SHELLS, completion
from quiver_fast.cli.shared.implementations import DEFAULT_IMPLEMENTATION
from quiver_fast.cli.shared.other_tools import of_switch, proposal, with_advice
from quiver_fast.cli.shared.quantities import (
    body_size,
    count,
    duration,
    fine_duration,
    named,
    part_duration,
    rate,
    within,
)
from quiver_fast.errors import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    OutputError,
    QuiverError,
    UsageError,
    one_line,
)
from quiver_fast.options import arrow
from quiver_fast.options.arrow import ARROW_OPTIONS
from quiver_fast.options.option import NUMBER, RATE, SIZES, SWITCH, Option, default_text
from quiver_fast.rate_steps import parse_rate_steps, total_seconds
from quiver_fast.standard_streams import (
    discard,
    flush_output,
    lost_output,
    missing_output,
    prepare_streams,
)
from quiver_fast.urls import hide_user

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

_RED, _YELLOW, _PLAIN = "\033[31m", "\033[33m", "\033[0m"


class ArgumentParser(argparse.ArgumentParser):
    """A parser without abbreviations that raises usage errors instead of exiting."""

    def __init__(
        self,
        prog: str,
        description: str,
        epilog: str | Callable[[], str],
        usage: str | None = None,
    ) -> None:
        """Prepare to parse; ``epilog`` may be a function that makes the text for the help."""
        self._epilog = epilog
        super().__init__(
            prog=prog,
            usage=usage,
            description=description,
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    def format_help(self) -> str:
        """Return the help."""
        self.epilog = self._epilog if isinstance(self._epilog, str) else self._epilog()
        return super().format_help()

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # Argparse ignores that its text cannot be written.
        print_text(message)

    def error(self, message: str) -> NoReturn:
        """Raise a :class:`UsageError`; the boundary prints it as one line."""
        message = of_switch(message)
        if message.startswith("unrecognized"):
            # Words that nobody expects may be a password: of an unknown option, or after a blank.
            message = re.sub(r"(--pass[a-z]*[= ]).*", r"\1***", message, flags=re.DOTALL)
            message = re.sub(r"\S+@", "***@", message)
        flags = [flag for action in self._actions for flag in action.option_strings]
        takes_url = any("URL" in str(action.metavar) for action in self._get_positional_actions())
        ours = proposal(message, flags, takes_url)
        hint = f"; did you mean {ours}?" if ours else ""
        raise UsageError(f"{message}{hint} (see {self.prog} --help)")


# Those of the command that runs.
_failed_outputs: list[str] = []
_lost_texts: list[str] = []


def run_command(name: str, command: Callable[[list[str]], int], argv: list[str] | None) -> int:
    """Run ``command`` with ``argv`` (``sys.argv`` by default) and return its exit code.

    A :class:`QuiverError` becomes one line on standard error and its exit code;
    so do errors of the operating system, such as a full disk. It is no error if the reader of
    our output is gone, as with ``| head``.
    """
    prepare_streams()
    _failed_outputs.clear()
    _lost_texts.clear()
    code = _run(name, command, argv)
    if lost := lost_output(flush_output()):
        _failed_outputs.append(lost)
    for text in _lost_texts[:1]:
        report_warning(name, text)
    for text in dict.fromkeys(_failed_outputs):
        report_error(name, text)
    return code or (EXIT_FAILURE if _failed_outputs else EXIT_OK)


def attempt_output(write: Callable[[], object]) -> None:
    """Write a file of results. If that fails the command goes on, and fails at its end."""
    try:
        write()
    except OSError as error:
        _failed_outputs.append(error_text(error))


def print_text(text: str) -> None:
    """Print a text that the user asked for."""
    with despite_lost_output(required=True):
        print(text, end="", flush=True)


def require_output() -> None:
    """Refuse a standard output that was closed, before work whose text would be lost.

    Raises:
        OutputError: it was.
    """
    if lost := lost_output(missing_output()):
        raise OutputError(lost)


@contextmanager
def despite_lost_output(*, required: bool = False) -> Iterator[None]:
    """Go on if standard output cannot be written; the end of the command warns of it.

    If the reader is gone, as with ``| head``, there is no warning.

    Args:
        required: the user asked for this output, so that the command fails at its end.
    """
    try:
        yield
        if required and (missing := missing_output()):
            raise missing
    except OSError as error:
        discard(sys.stdout)
        if lost := lost_output(error):
            (_failed_outputs if required else _lost_texts).append(lost)


def _run(name: str, command: Callable[[list[str]], int], argv: list[str] | None) -> int:
    if argv is None:
        # Results have the command as it is typed, however Python was started.
        sys.argv[0] = name
    words = sys.argv[1:] if argv is None else argv
    try:
        return command(words)
    except SystemExit as end:  # argparse, after --help and --version
        return EXIT_OK if end.code is None else int(end.code)
    except UsageError as error:
        # The message may quote a misplaced URL, which may have a password.
        report_error(name, hide_user(with_advice(str(error), words)))
        return error.exit_code
    except QuiverError as error:
        report_error(name, str(error))
        return error.exit_code
    except KeyboardInterrupt:  # outside of a run, where nothing is left to save
        return EXIT_INTERRUPTED
    except OSError as error:
        if isinstance(error, BrokenPipeError) and isinstance(flush_output(), BrokenPipeError):
            return EXIT_OK
        report_error(name, error_text(error))
        return EXIT_FAILURE


def error_text(error: OSError) -> str:
    """Return the system's reason in one line, with the file if there is one."""
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
    print(f"{command}: {kind}: {one_line(message)}", file=sys.stderr, flush=True)


class _Completion(argparse.Action):
    """Prints a script for a shell, and exits."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        _namespace: argparse.Namespace,
        values: object,
        _option: str | None = None,
    ) -> NoReturn:
        parsers = [parser]
        if parser.prog == "quiver":
            # The first command stands for all: a user sets up completion once.
            modules = [f"quiver_fast.cli.{name}.command" for name in commands.__all__]
            parsers = [import_module(module).make_parser() for module in modules]
        print_text("\n".join(completion(each, str(values)) for each in parsers))
        parser.exit()


def add_completion_option(group: argparse._ActionsContainer) -> None:
    """Add the option that prints a completion script for a shell."""
    group.add_argument(
        "--completion",
        action=_Completion,
        nargs="?",
        const="bash",
        choices=SHELLS,
        metavar="SHELL",
        dest=argparse.SUPPRESS,
        help="Print a script that completes the options in SHELL, and exit: bash (the default), "
        'zsh or fish. In bash and zsh: eval "$(COMMAND --completion SHELL)"; in fish: '
        "COMMAND --completion fish | source",
    )


def add_arrow_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a measurement: its load, its messages, its receiver."""
    add_options(parser, arrow.LOAD, ARROW_OPTIONS)
    add_options(parser, arrow.MESSAGE, ARROW_OPTIONS)
    add_options(parser, arrow.RECEIVER, ARROW_OPTIONS)


def add_pair_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a measurement that has both ends."""
    add_options(parser, arrow.PAIR, ARROW_OPTIONS)


def add_failure_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options of a run that goes on after a lost connection, and return their group."""
    return add_options(parser, arrow.FAILURE, ARROW_OPTIONS)


def add_tls_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of authentication and transport security."""
    add_password_options(add_options(parser, arrow.SECURITY, ARROW_OPTIONS))


def add_arrow_keys(group: argparse._ActionsContainer, *keys: str) -> None:
    """Add the options of an arrow with these keys."""
    for option in ARROW_OPTIONS:
        if option.key in keys:
            add_option(group, option)


def add_options(
    parser: argparse.ArgumentParser, heading: str, options: Iterable[Option]
) -> argparse._ArgumentGroup:
    """Add the options of ``options`` that are under ``heading``, and return their group."""
    group = parser.add_argument_group(heading)
    for option in options:
        if option.flag and option.group == heading:
            add_option(group, option)
    return group


def add_option(group: argparse._ActionsContainer, option: Option) -> None:
    """Add one declared option to the command line."""
    flags = [flag for flag in (option.letter, option.alias, option.flag) if flag]
    if option.kind == SWITCH:
        group.add_argument(*flags, action="store_true", help=_help(option))
        return
    if option.key == "failover":
        group.add_argument(
            *flags, action="append", default=[], metavar=option.metavar, help=_help(option)
        )
        return
    text_until_given = option.key == "duration"
    group.add_argument(
        *flags,
        dest=option.dest,
        action=_RateSteps if option.key == "rate-steps" else "store",
        metavar=option.metavar or None,
        choices=option.choices or None,
        type=_type(option),
        # Argparse parses a default that is a text last: so `_RateSteps` sees whether it was given.
        default=str(option.initial) if text_until_given else option.initial,
        help=_help(option),
    )


# The attribute that says whether the steps came from --ramp.
_RAMP = "rate_steps_are_ramp"
# The first digits of a rate such as 20,000: steps are divided by commas too.
_THOUSANDS = re.compile(r"((?:^|,|\.\.)\d{1,3}),(?=\d{3}(?::|\.\.))")


class _RateSteps(argparse.Action):
    """Checks the steps, and makes their length the duration, unless one is given."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: object,
        option_string: str | None = None,
    ) -> None:  # fmt: skip
        plain = _THOUSANDS.sub(r"\1", str(values))
        if plain != values:
            raise UsageError(f"{option_string}: numbers have no commas: write {plain}")
        steps = parse_rate_steps(plain, option_string or "--rate-steps")
        is_ramp = option_string == "--ramp"
        if is_ramp and (len(steps) != 1 or steps[0].first == steps[0].last):
            raise UsageError(f"--ramp: '{values}' is not RATE..RATE:DURATION, such as 1k..100k:60s")
        if getattr(namespace, _RAMP, is_ramp) != is_ramp:
            raise UsageError("--rate-steps does not go with --ramp")
        setattr(namespace, _RAMP, is_ramp)
        setattr(namespace, self.dest, values)
        if steps and not isinstance(namespace.duration, int):
            namespace.duration = total_seconds(steps)


_DURATIONS: dict[str, Callable[[str], float]] = {"SECONDS": duration, "MICROSECONDS": fine_duration}


def _type(option: Option) -> Callable[[str], float | str]:
    if option.kind in (RATE, SIZES):
        return rate if option.kind == RATE else body_size
    if option.kind != NUMBER:
        return named if option.metavar in ("FILE", "DIR") else str
    if option.metavar == "DURATION":
        # Contracts have whole seconds; an option without a key is in no contract.
        parse = _DURATIONS[option.unit] if option.key else part_duration
        return within(parse, option.least, option.most)
    # 0 is refused where it has no meaning.
    least = 0 if option.shown in ("", "none") else 1
    return within(count, max(option.least, least), option.most)


def _help(option: Option) -> str:
    """Return the help of an option, with its default, the meaning of 0, and who supports it."""
    notes = []
    if option.kind != SWITCH and (default := initial_text(option)):
        notes.append(f"default {default}")
    if option.zero:
        if notes == ["default 0"]:
            notes = [f"default 0, {option.zero}"]
        else:
            notes.append(f"0 means {option.zero}")
    if option.extension:
        notes.append(DEFAULT_IMPLEMENTATION)
    text = f"{option.help} ({'; '.join(notes)})" if notes else option.help
    return text.replace("%", "%%")


def initial_text(option: Option) -> str:
    """Return the default of an option as text; empty if there is none to show."""
    text = default_text(option) if option.initial is None else str(option.initial)
    return f"{text}s" if text and option.metavar == "DURATION" else text


def add_password_options(group: argparse._ActionsContainer) -> None:
    """Add the options for passing a password."""
    group.add_argument(
        "--password-file", metavar="FILE", help="Read the password from the first line of FILE"
    )
    group.add_argument(
        "--expose-password",
        action="store_true",
        help="Pass the password on the command line to implementations "
        "that have no other way; other users of the host can see it",
    )


def add_impl_option(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the option that chooses an implementation."""
    parser.add_argument(
        "--impl",
        metavar="IMPL",
        default=DEFAULT_IMPLEMENTATION,
        help=f"Use IMPL to {purpose} (default {DEFAULT_IMPLEMENTATION})",
    )


def add_implementation_options(parser: argparse.ArgumentParser, purpose: str) -> None:
    """Add the options that choose an implementation and the words before its command line."""
    add = parser.add_argument
    add_impl_option(parser, purpose)
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
    add_completion_option(group)
    add(
        "--version",
        action="version",
        version=f"%(prog)s {__version__}",
        help="Print the version and exit",
    )
