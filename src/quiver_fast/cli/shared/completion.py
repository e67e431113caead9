"""Scripts that complete a command's options in bash, zsh and fish; `shtab` writes them."""

from __future__ import annotations

import argparse
import re

from quiver_fast.cli.shared.implementations import (
    ARROW_ALIASES,
    DEFAULT_IMPLEMENTATION,
    SERVER_ALIASES,
)

SHELLS = ("bash", "zsh", "fish")


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return a script for one of :data:`SHELLS`: the options of ``parser``, and their values.

    The parser's actions are changed for that: it cannot parse or print its help afterwards.
    """
    import shtab  # Only here: no run needs it.

    kinds = {"FILE": shtab.FILE, "DIR": shtab.DIRECTORY}
    aliases = SERVER_ALIASES if parser.prog == "quiver-server" else ARROW_ALIASES
    for action in parser._actions:
        action.help = _first_clause(parser._get_formatter()._expand_help(action))
        if action.metavar == "IMPL":
            action.choices = [DEFAULT_IMPLEMENTATION, *aliases]
        elif str(action.metavar) in kinds or not action.option_strings:
            # Files for a URL too: if a word has no completion, zsh completes no option there.
            kind = kinds.get(str(action.metavar), shtab.FILE)
            action.complete = kind  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell))


def _first_clause(text: str) -> str:
    """Return the beginning of a help text, which fits on a line of a shell's list."""
    return re.split(r"[.;:(]", text, maxsplit=1)[0].strip().replace("%", "%%")
