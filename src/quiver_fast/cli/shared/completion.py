"""What completes the options of a command in bash, made from its parser."""

from __future__ import annotations

import argparse
import shlex

from quiver_fast.cli.shared.implementations import (
    ARROW_ALIASES,
    DEFAULT_IMPLEMENTATION,
    SERVER_ALIASES,
)

__all__ = ["bash_completion"]

_SCRIPT = """\
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


def bash_completion(parser: argparse.ArgumentParser) -> str:
    """Return a script for bash: the options of ``parser``, and the values of each."""
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
    return _SCRIPT.format(
        function="_" + parser.prog.replace("-", "_"),
        command=parser.prog,
        cases="\n".join(lines),
        flags=shlex.quote(" ".join(sorted(flags))),
    )


def _values(command: str, action: argparse.Action) -> str:
    """Return the command that makes the values of an option; empty where any will do."""
    words = " ".join(map(str, action.choices or ()))
    if action.metavar == "IMPL":
        names = SERVER_ALIASES if command == "quiver-server" else ARROW_ALIASES
        words = " ".join([DEFAULT_IMPLEMENTATION, *names])
    if words:
        return f'$(compgen -W {shlex.quote(words)} -- "$word")'
    kind = {"FILE": "-f", "DIR": "-d"}.get(str(action.metavar))
    return f'$(compgen {kind} -- "$word")' if kind else ""
