"""Write the blocks of the documents that follow from the code and from measured figures.

A block stands between `<!-- generated: NAME -->` and `<!-- end -->`. Run `make docs` after a
change; a test compares.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from quiver_fast.cli import bench, pair
from quiver_fast.options.arrow import ARROW_OPTIONS
from quiver_fast.options.option import Option, default_text, key_text
from quiver_fast.options.server import SERVER_OPTIONS

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"(<!-- generated: ([^>]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
# What every command has, and nobody looks up in a document.
_EVERYWHERE = {"--help", "--version", "--completion", "--init-only"}


def main() -> int:
    """Rewrite the blocks of all pages."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = rewritten(text)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(f"written: {page.relative_to(ROOT)}")
    return 0


def rewritten(text: str) -> str:
    """Return a page with all its blocks as they should be."""
    return _BLOCK.sub(lambda match: f"{match[1]}\n{BLOCKS[match[2]]()}\n{match[4]}", text)


def blocks_in(text: str) -> list[str]:
    """Return the names of the blocks of a page."""
    return [match[2] for match in _BLOCK.finditer(text)]


def options_table(parser: argparse.ArgumentParser, without: Iterable[str] = ()) -> str:
    """Return a table of the options of a command.

    Args:
        parser: the command's.
        without: flags to leave out.
    """
    rows = []
    for action in parser._actions:
        flags = action.option_strings
        if flags and not {*_EVERYWHERE, *without} & set(flags):
            rows.append((_option_text(action), str(action.help).replace(" (see below)", "")))
    return table(("option", "meaning (default)"), rows)


def _option_text(action: argparse.Action) -> str:
    value = "" if action.nargs == 0 else f" {action.metavar or ','.join(action.choices or ())}"
    return ", ".join(f"`{flag}`" for flag in action.option_strings[:-1]) + (
        f"{', ' if action.option_strings[1:] else ''}`{action.option_strings[-1]}{value}`"
    )


def keys_table(options: Iterable[Option], command: str) -> str:
    """Return a table of the keys of a contract, and the flags of `command` that set them."""
    rows = []
    for option in options:
        if option.key:
            meaning = option.about + (f"; 0: {option.zero}" if option.zero else "")
            flag = f"`{option.flag}`" if option.flag else ""
            rows.append((f"`{key_text(option)}`", default_text(option), flag, meaning))
    return table(("key", "default", f"`{command}`", "meaning"), rows)


def table(heading: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [heading, ("---",) * len(heading), *rows]
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<queue>", "QUEUE")


def _of_bench() -> str:
    shared = {flag for action in pair.make_parser()._actions for flag in action.option_strings}
    return options_table(bench.make_parser(), shared - {"--cert", "--key"})


BLOCKS: dict[str, Callable[[], str]] = {
    "options of quiver": lambda: options_table(pair.make_parser()),
    "options of quiver-bench": _of_bench,
    "keys of the arrow": lambda: keys_table(ARROW_OPTIONS, "quiver-arrow"),
    "keys of the server": lambda: keys_table(SERVER_OPTIONS, "quiver-server"),
}


if __name__ == "__main__":
    sys.exit(main())
