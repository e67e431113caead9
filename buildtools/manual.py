"""Write the manual pages and the completions of all commands, from their parsers, into a folder.

    python -m buildtools.manual DIR

The build of a wheel does so; the files are below ``share/`` of the installation.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from argparse_manpage.manpage import Manpage

from quiver_fast.cli.analyze import command as analyze
from quiver_fast.cli.arrow import command as arrow
from quiver_fast.cli.bench import command as bench
from quiver_fast.cli.conform import command as conform
from quiver_fast.cli.fleet import command as fleet
from quiver_fast.cli.pair import command as pair
from quiver_fast.cli.queue import command as queue
from quiver_fast.cli.server import command as server
from quiver_fast.cli.shared.common import ArgumentParser
from quiver_fast.cli.shared.completion import completion

PARSERS: dict[str, Callable[[], ArgumentParser]] = {
    "quiver": pair.make_parser,
    "quiver-analyze": analyze.make_parser,
    "quiver-arrow": arrow.make_parser,
    "quiver-bench": bench.make_parser,
    "quiver-conform": conform.make_parser,
    "quiver-fleet": fleet.make_parser,
    "quiver-queue": queue.make_parser,
    "quiver-server": server.make_parser,
}

# The place of each shell's completions, below share/ of a prefix.
_COMPLETIONS = {
    "bash": "bash-completion/completions/{name}",
    "zsh": "zsh/site-functions/_{name}",
    "fish": "fish/vendor_completions.d/{name}.fish",
}


def files() -> dict[Path, str]:
    """Return the text of each file, by its path below ``share/``."""
    found = {}
    for name, make_parser in PARSERS.items():
        found[Path("man/man1") / f"{name}.1"] = manual_page(make_parser())
        for shell, place in _COMPLETIONS.items():
            found[Path(place.format(name=name))] = completion(make_parser(), shell)
    return found


def manual_page(parser: ArgumentParser) -> str:
    """Return the manual page of a command, in roff."""
    parser.format_help()
    notes, parser.epilog = parser.epilog or "", None
    page = Manpage(parser)
    page.description = _first_sentence(parser.description or "").rstrip(".")
    page.source, page.manual, page.date = "quiver-fast", "Quiver", ""
    words = ["[OPTION ...]", *(_argument(one) for one in parser._actions if not one.option_strings)]
    page.synopsis = [parser.prog, *words]
    page.add_section("notes", ">", f".nf\n{_escaped(_anywhere(notes))}\n.fi")
    # A quote at the beginning of a line is a request, like a full stop.
    return re.sub(r"^(?=')", r"\\&", str(page), flags=re.MULTILINE)


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=\.) ", " ".join(text.split()), maxsplit=1)[0]


def _argument(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest)
    forms = {"?": "[{}]", "*": "[{} ...]", "+": "{} ..."}
    return forms.get(str(action.nargs), "{}").format(name)


def _anywhere(notes: str) -> str:
    """Return the notes of ``--help`` without the facts of this machine."""
    return re.sub(r"^  \* (is installed here\. )?", lambda m: "  " if m[1] else "    ", notes,
                  flags=re.MULTILINE).strip("\n")  # fmt: skip


def _escaped(text: str) -> str:
    r"""Return text as roff: with literal backslashes and hyphens, and without requests."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^(?=[.'])", r"\\&", escaped, flags=re.MULTILINE)


def main() -> int:
    """Write all files into the folder that is the argument, and remove all other files in it."""
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    for place, text in files().items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
