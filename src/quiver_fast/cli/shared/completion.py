"""Scripts that complete a command's options in bash, zsh and fish, made from its parser."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable

from quiver_fast.cli.shared.implementations import (
    ARROW_ALIASES,
    DEFAULT_IMPLEMENTATION,
    SERVER_ALIASES,
)

_BASH = """\
{function}() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}"
    case "${{COMP_WORDS[COMP_CWORD-1]}}" in
{cases}
    esac
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W {flags} -- "$word"))
    fi
}}
complete -o default -F {function} {command}
"""

# zsh has a function that completes as bash does; the script loads it if needed.
_ZSH = """\
(( $+functions[compdef] )) || { autoload -U +X compinit && compinit; }
(( $+functions[complete] )) || { autoload -U +X bashcompinit && bashcompinit; }
"""


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return a script for one of :data:`SHELLS`: the options of ``parser``, and their values."""
    return SHELLS[shell](parser)


def _zsh(parser: argparse.ArgumentParser) -> str:
    return _ZSH + _bash(parser)


def _bash(parser: argparse.ArgumentParser) -> str:
    cases: dict[str, list[str]] = {}
    flags: list[str] = []
    for action in parser._actions:
        flags += [flag for flag in action.option_strings if flag.startswith("--")]
        if action.option_strings and action.nargs != 0:
            cases.setdefault(_values(parser.prog, action), []).extend(action.option_strings)
    lines = [
        f"        {'|'.join(options)}) COMPREPLY=({values}); return ;;"
        for values, options in cases.items()
    ]
    return _BASH.format(
        function="_" + parser.prog.replace("-", "_"),
        command=parser.prog,
        cases="\n".join(lines),
        flags=shlex.quote(" ".join(sorted(flags))),
    )


def _values(command: str, action: argparse.Action) -> str:
    """Return the shell's command that lists the values of an option; empty if any value will do."""
    words = _words(command, action)
    if words:
        return f'$(compgen -W {shlex.quote(words)} -- "$word")'
    kind = {"FILE": "-f", "DIR": "-d"}.get(str(action.metavar))
    return f'$(compgen {kind} -- "$word")' if kind else ""


def _words(command: str, action: argparse.Action) -> str:
    """Return the values that an option takes; empty if they are not from a list."""
    if action.metavar != "IMPL":
        return " ".join(map(str, action.choices or ()))
    names = SERVER_ALIASES if command == "quiver-server" else ARROW_ALIASES
    return " ".join([DEFAULT_IMPLEMENTATION, *names])


def _fish(parser: argparse.ArgumentParser) -> str:
    lines = [
        f"complete -c {parser.prog} {_fish_option(parser, action)}"
        for action in parser._actions
        if action.option_strings
    ]
    return "\n".join(lines) + "\n"


def _fish_option(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    names = [
        f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
        for flag in action.option_strings
    ]
    help_text = parser._get_formatter()._expand_help(action)
    about = _fish_quoted(re.split(r"[.;:(]", help_text, maxsplit=1)[0].strip())
    return " ".join([*names, *_fish_value(parser.prog, action), f"-d {about}"])


def _fish_value(command: str, action: argparse.Action) -> list[str]:
    """Return fish's arguments for an option's value: a list of words, a file or a folder."""
    if action.nargs == 0:
        return []
    words = _words(command, action)
    if words:
        return [f"-x -a {_fish_quoted(words)}"]
    of_kind = {"FILE": "-r -F", "DIR": "-x -a '(__fish_complete_directories)'"}
    return [of_kind.get(str(action.metavar), "-x")]


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS: dict[str, Callable[[argparse.ArgumentParser], str]] = {
    "bash": _bash,
    "zsh": _zsh,
    "fish": _fish,
}
"""The function that makes the script of each shell."""
