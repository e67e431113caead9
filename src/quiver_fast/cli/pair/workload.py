"""Where `quiver` gets its options from: the environment, a workload file, the command line.

Each overrides the ones before it. The keys of a file are names of options; variables have the same
names with ``QUIVER_`` before them. A file is TOML, or a document in
JSON that a measurement has left: its ``workload`` has such keys.
"""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from quiver_fast.cli.pair.options import add_measuring_options, add_set_options
from quiver_fast.cli.pair.resumed import begun_in, check_same, read_begun
from quiver_fast.cli.shared.common import ArgumentParser, error_text
from quiver_fast.cli.shared.thresholds import Threshold
from quiver_fast.cli.shared.url import parse_url, shown_words
from quiver_fast.errors import UsageError
from quiver_fast.options.arrow import ARROW_OPTIONS
from quiver_fast.quantities import duration_text

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_UNSET: Any = object()
_URL = "url"
# The options that are URLs, and the text that replaces a password in them.
_WITH_PASSWORDS = (_URL, "baseline")
_HIDDEN = "***@"
# Durations that are kept in microseconds: a number alone would be read as seconds.
_FINE = frozenset(one.dest for one in ARROW_OPTIONS if one.flag and one.unit == "MICROSECONDS")
# Durations in seconds that need not be whole.
_PARTS = frozenset(one.dest for one in ARROW_OPTIONS if one.unit == "SECONDS" and not one.key)
# Options that name a source of options, or print and exit, are no part of a workload.
_APART = frozenset({"help", "version", "completion", "workload", "print-workload", "resume"})
_ON, _OFF = frozenset({"1", "true", "yes", "on"}), frozenset({"", "0", "false", "no", "off"})


def add_workload_options(parser: argparse.ArgumentParser) -> None:
    """Add the options about workload files."""
    group = parser.add_argument_group("workload options")
    group.add_argument(
        "--workload",
        metavar="FILE",
        dest="workload_file",
        help="Take options from FILE, a TOML file whose keys are names of options, or a result "
        "in JSON, which is measured again; options of the command line replace those of FILE, "
        "and those of FILE replace the variables QUIVER_OPTION",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="Go on with the --runs, --sweep or --find-rate in DIR, with its options: finished "
        "runs are kept",
    )
    group.add_argument(
        "--print-workload",
        action="store_true",
        help="Print the options as a workload file, and exit",
    )


def read_arguments(
    parser: ArgumentParser, argv: Sequence[str], environ: Mapping[str, str]
) -> argparse.Namespace:
    """Return the arguments that the command line, its workload file and the environment make.

    The namespace also has ``workload``: the options that differ from their defaults, by name.

    Raises:
        UsageError: one of them cannot be read, or is no option of the parser; the message names
            the file or the variable.
    """
    top = given_by(parser, argv)
    begun = _begun(top) if top.get("resume") else {}
    files = begun | {file: _read(file) for file in (top.get("workload_file"),) if file is not None}
    # A campaign goes on with its own options: no variable changes one.
    apart = options_of(_kept_parser()).keys() if begun else ()
    given: dict[str, Any] = {}
    of_files = (_of_file(parser, *file) for file in files.items())
    for level in (_of_environment(parser, environ, apart), *of_files, top):
        if "impl" in level:
            # An implementation of both ends replaces those of each end.
            given = {name: value for name, value in given.items() if name not in _ENDS}
        given |= level
    for file in [*files][:1]:
        _check_passwords(file, given, top)
    # The defaults, which are of their types already.
    defaults = vars(parser.parse_args([]))
    if given.get("find_rate"):
        # Only a search pays for the import.
        from quiver_fast.cli.pair.rate_search import trial_seconds

        defaults["duration"] = trial_seconds(given.get("within", defaults["within"]))
    args = argparse.Namespace(**{name: given.get(name, defaults[name]) for name in defaults})
    args.workload = workload_of(_kept_parser(), args)
    for options in begun.values():
        check_same(args.output, options, args.workload)
    return args


def _begun(top: dict[str, Any]) -> dict[str, Any]:
    """Return the options of the campaign to resume, by the file that has them.

    Raises:
        UsageError: there is none, or it is damaged.
    """
    if "output" not in top:
        raise UsageError("--resume needs --output")
    place = begun_in(top["output"])
    return {str(place): read_begun(place, {"workload": dict})["workload"]}


_ENDS = ("sender", "receiver")


@cache
def _kept_parser() -> ArgumentParser:
    """Return a parser of the options that a document keeps: none of output and printing."""
    parser = ArgumentParser("quiver", "", "")
    add_measuring_options(parser)
    add_set_options(parser)
    return parser


def _check_passwords(file: str, given: dict[str, Any], top: dict[str, Any]) -> None:
    """Refuse the text that a document has in place of a password.

    Raises:
        UsageError: no option on the command line replaces it.
    """
    for name in _WITH_PASSWORDS:
        if name not in top and _HIDDEN in (given.get(name) or ""):
            raise UsageError(
                f"{file}: {name}: the password was not kept: give the {name} on the command line"
            )


def workload_of(parser: ArgumentParser, args: argparse.Namespace) -> dict[str, Any]:
    """Return the options of a parser that differ from their defaults, as a file has them.

    Passwords are hidden. Options that another command than `quiver` lacks have their defaults.
    """
    defaults = vars(parser.parse_args([]))
    found: dict[str, Any] = {}
    for name, action in options_of(parser).items():
        value = getattr(args, action.dest, defaults[action.dest])
        # Steps and a search imply a duration, which may differ from the default that was given.
        implied = name == "duration" and (args.rate_steps or getattr(args, "find_rate", None))
        if (value == defaults[action.dest] and not implied) or name == _alias(action):
            continue
        found[name] = _shown(name, _written(action, value), args)
    return found


def _shown(name: str, value: Any, args: argparse.Namespace) -> Any:
    """Return a value, in which a text hides the password if it has one."""
    if name not in _WITH_PASSWORDS:
        return value
    shown = parse_url(value, args.address).shown if name == _URL else shown_words(value)
    return shown if _HIDDEN in shown else value


def _written(action: argparse.Action, value: object) -> object:
    """Return the value of an option as people write it: read again it is the same."""
    if isinstance(value, list):
        return [_written(action, one) for one in value]
    if isinstance(value, Threshold):
        return value.condition
    if action.dest in _FINE and isinstance(value, int):
        return duration_text(value)
    if action.dest in _PARTS and isinstance(value, float):
        return duration_text(round(value * 10**6))
    return value


def workload_text(parser: ArgumentParser, args: argparse.Namespace) -> str:
    """Return a workload file with the options in ``args``.

    Raises:
        UsageError: a URL has a password, which the file would show, or it cannot be written.
    """
    workload = workload_of(parser, args)
    for name in _WITH_PASSWORDS:
        if _HIDDEN in workload.get(name, ""):
            raise UsageError(
                f"--print-workload: the {name} has a password; give --username and --password-file"
            )
    lines = {name: f"{name} = {_toml(value)}\n" for name, value in workload.items()}
    for name, line in lines.items():
        if line.encode(errors="ignore").decode() != line:
            raise UsageError(f"--print-workload: the value of {name} is no text in UTF-8")
    return "".join(lines.values())


def options_of(parser: ArgumentParser) -> dict[str, argparse.Action]:
    """Return the options that a workload may have, by name."""
    found = {}
    for action in parser._actions:
        names = [flag[2:] for flag in action.option_strings if flag.startswith("--")]
        for name in names or [action.dest]:
            if name not in _APART:
                found[name] = action
    return found


def _alias(action: argparse.Action) -> str | None:
    """Return the other name of an option that has two; the last one is its own."""
    names = [flag for flag in action.option_strings if flag.startswith("--")]
    return names[0][2:] if names[1:] else None


def given_by(parser: ArgumentParser, words: Sequence[str]) -> dict[str, Any]:
    """Return the options that words give, by attribute; none that they do not name."""
    unset = argparse.Namespace()
    for action in parser._actions:
        # argparse appends to a list, so it must not be the marker.
        setattr(unset, action.dest, None if isinstance(action.default, list) else _UNSET)
    parsed = vars(parser.parse_args(list(words), unset))
    lists = {action.dest for action in parser._actions if isinstance(action.default, list)}
    return {
        name: value
        for name, value in parsed.items()
        # argparse sets a URL that is not there to None.
        if value is not _UNSET and not (value is None and name in {_URL, *lists})
    }


def _of_environment(
    parser: ArgumentParser, environ: Mapping[str, str], apart: Collection[str]
) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, action in options_of(parser).items():
        variable = f"QUIVER_{name.replace('-', '_').upper()}"
        if variable not in environ or name in apart:
            continue
        value: object = environ[variable]
        if action.nargs == 0:
            value = _switch(variable, environ[variable])
        given = _joined(given, action, _level(parser, name, action, value, variable))
    return given


def _joined(
    given: dict[str, Any], action: argparse.Action, found: dict[str, Any]
) -> dict[str, Any]:
    """Add the values of an option. Values that it implies for other options yield to given ones."""
    own = {name: value for name, value in found.items() if name == action.dest}
    return found | given | own


def _switch(variable: str, text: str) -> bool:
    word = text.strip().lower()
    if word in _ON or word in _OFF:
        return word in _ON
    raise UsageError(f"{variable}: '{text}' is neither 1 nor 0")


def _of_file(parser: ArgumentParser, file: str, file_options: dict[str, Any]) -> dict[str, Any]:
    options = options_of(parser)
    given: dict[str, Any] = {}
    for name, value in file_options.items():
        if name not in options:
            close = difflib.get_close_matches(name, options, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise UsageError(f"{file}: there is no option '{name}'{hint}")
        if _alias(options[name]) in file_options and name != _alias(options[name]):
            _refuse(f"{file}: {name}", f"excludes {_alias(options[name])}")
        found = _level(parser, name, options[name], value, f"{file}: {name}")
        given = _joined(given, options[name], found)
    return given


def _read(file: str) -> dict[str, Any]:
    try:
        text = Path(file).read_text(encoding="utf-8-sig")
        # A TOML file does not begin with a brace.
        return _kept_in(file, text) if text.lstrip().startswith("{") else tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"--workload: {error_text(error)}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no TOML: it is no text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{file} is no TOML: {error}") from None


def _kept_in(file: str, text: str) -> dict[str, Any]:
    """Return the workload of a document in JSON."""
    try:
        workload = json.loads(text).get("workload")
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is no JSON: {error}") from None
    if not isinstance(workload, dict):
        raise UsageError(f"{file} has no workload: it is no result of a measurement")
    return workload


def _level(
    parser: ArgumentParser, name: str, action: argparse.Action, value: object, where: str
) -> dict[str, Any]:
    """Return the values of one key or variable; ``where`` begins the message of an error."""
    if action.nargs == 0:
        if not isinstance(value, bool):
            _refuse(where, "takes true or false")
        return {action.dest: value}
    values = value if isinstance(value, list) and isinstance(action.default, list) else [value]
    words: list[str] = []
    for one in values:
        if isinstance(one, bool) or not isinstance(one, (str, int, float)):
            _refuse(where, "takes text or a number")
        # No option takes an exponent, which a float's text may have.
        text = format(Decimal(str(one)), "f") if isinstance(one, float) else str(one)
        words += ["--", text] if name == _URL else [f"--{name}={text}"]
    try:
        return given_by(parser, words) if words else {action.dest: []}
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from None


def _refuse(where: str, why: str) -> NoReturn:
    raise UsageError(f"{where}: the option {why}")


def _toml(value: object) -> str:
    """Return a value as TOML writes it; JSON writes the types that both have in the same way."""
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
