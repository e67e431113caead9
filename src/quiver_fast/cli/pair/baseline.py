"""The baseline of a set of runs: other options, another URL or implementation, or a program."""

from __future__ import annotations

import argparse
import difflib
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from quiver_fast.cli.pair.options import measuring_parser
from quiver_fast.cli.pair.workload import given_by, workload_of
from quiver_fast.cli.shared.implementations import ARROW_ALIASES, all_arrows, find_arrow
from quiver_fast.cli.shared.url import begins_url, parse_url, shown_words
from quiver_fast.errors import UsageError

_IMPLEMENTATIONS = ("impl", "sender", "receiver")


@dataclass(frozen=True)
class Baseline:
    """A baseline; one of ``args`` and ``command`` is not None.

    Attributes:
        label: as the user wrote it, without passwords.
        args: the arguments of a measurement by this very program.
        command: the words of another program, complete but for the output directory.
    """

    label: str
    args: argparse.Namespace | None = None
    command: tuple[str, ...] | None = None


def read_baseline(text: str, args: argparse.Namespace) -> Baseline:
    """Return the baseline that ``text`` describes; ``args`` says everything else.

    :data:`.pair.options.BASELINE_HELP` has the rule that tells the kinds apart.

    Raises:
        UsageError: there is no such baseline; the message begins with ``--baseline``.
    """
    try:
        words = shlex.split(text)
        if not words:
            raise UsageError("it is empty")
        _check_options(words)
        label = shown_words(text)
        if words[0].startswith("-") or begins_url(words[0]):
            return Baseline(label, args=_with_options(words, args))
        if "/" in words[0] or len(words) > 1:
            return Baseline(label, command=_command(words, args))
        return Baseline(label, args=_with_implementation(words[0], args))
    except (UsageError, ValueError) as error:
        raise UsageError(f"--baseline: {error}") from None


def _check_options(words: Sequence[str]) -> None:
    """Refuse options that are written as --sweep has them.

    Raises:
        UsageError: the first word is one.
    """
    name, equals, _ = words[0].partition("=")
    if equals and name.replace("-", "_") in vars(measuring_parser().parse_args([])):
        pairs = (word if word.startswith("-") else f"--{word}" for word in words)
        options = " ".join(pair.replace("=", " ", 1) for pair in pairs)
        raise UsageError(f"'{words[0]}' lacks its dashes: write --baseline='{options}'")


def _with_options(words: Sequence[str], args: argparse.Namespace) -> argparse.Namespace:
    """Return ``args`` with the options that ``words`` give in place of their own."""
    given = given_by(measuring_parser(), words)
    # An implementation of both ends replaces those of each end.
    reset = {"sender": None, "receiver": None} if "impl" in given else {}
    return argparse.Namespace(**(vars(args) | reset | given))


def _with_implementation(name: str, args: argparse.Namespace) -> argparse.Namespace:
    try:
        find_arrow(name)
    except UsageError as error:
        raise UsageError(
            f"{error}{_suggestion(name)} (of a program give the path, of a queue a URL with '//')"
        ) from None
    return _with_options(["--impl", name], args)


def _suggestion(name: str) -> str:
    aliases = (alias for full, others in ARROW_ALIASES.items() for alias in (full, *others))
    known = {implementation.name for implementation in all_arrows()}
    close = difflib.get_close_matches(name, sorted({*known, *aliases}), n=1)
    return f"; did you mean '{close[0]}'?" if close and close[0] != name else ""


def _command(words: Sequence[str], args: argparse.Namespace) -> tuple[str, ...]:
    """Return the command of a program, with the options and URL that it does not set itself."""
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(f"no program '{words[0]}'{_hint(words)}")
    own = [program, *words[1:]]
    command = [*own, *_shared_options(own, args)]
    if args.url is not None and not any(map(begins_url, words[1:])):
        if parse_url(args.url, args.address).password is not None:
            raise UsageError(
                "a program would get the password of the URL as an argument, which others can "
                "see; give --username and --password-file"
            )
        command.append(args.url)
    return tuple(command)


def _hint(words: Sequence[str]) -> str:
    known = [implementation.name for implementation in all_arrows()]
    if words[0] not in known:
        return ""
    return f"; the implementation with options is '--impl {shlex.join(words)}'"


def _shared_options(own: Sequence[str], args: argparse.Namespace) -> list[str]:
    """Return the options of ``args`` that are not the defaults, but those that ``own`` names."""
    named = {word.split("=")[0] for word in own if word.startswith("--")}
    if named & {f"--{name}" for name in _IMPLEMENTATIONS}:
        named |= {f"--{name}" for name in _IMPLEMENTATIONS}
    words = []
    for name, value in workload_of(measuring_parser(), args).items():
        if name != "url" and f"--{name}" not in named:
            words.append(f"--{name}" if value is True else f"--{name}={value}")
    return words
