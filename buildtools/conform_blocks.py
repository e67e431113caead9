"""The rows of docs/internals/conformance.md that cases of quiver-conform judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial

from buildtools.not_kept import NOT_KEPT
from quiver_fast.cli.conform.text import order
from quiver_fast.conform.case import Case
from quiver_fast.conform.cases import CASES

# The first words of the ids below each title of the page.
_TITLES = {
    "clauses 1": ("1",),
    "clauses 2.2-2.3": ("2.2", "2.3"),
    "clauses 2.4": ("2.4",),
    "clauses 2.5": ("2.5",),
    "clauses 2.6": ("2.6",),
    "clauses 2.7-2.8": ("2.7", "2.8"),
    "clauses 3.1-3.2": ("3.1", "3.2"),
    "clauses 3.3-3.4": ("3.3", "3.4"),
    "clauses 3.5": ("3.5",),
    "clauses 4": ("4",),
    "clauses 5": ("5",),
    "clauses of the anonymous terminus": ("anonterm",),
    "clauses of the contract": ("contract",),
}
_WHO = {"server": "server", "client": "arrow", "arrow": "arrow"}
HEADS = ("Clause", "Requirement", "Level", "Who", "Ours")


def rows_of(cases: Iterable[Case], beginnings: Iterable[str]) -> list[tuple[str, ...]]:
    """Return a row for each id that begins with one of these, in the order of the standard."""
    pattern = "|".join(map(re.escape, beginnings))
    groups: dict[str, list[Case]] = {}
    for case in cases:
        if re.match(rf"(?:{pattern})[./]", case.id):
            groups.setdefault(case.id, []).append(case)
    return [_row(name, groups[name]) for name in sorted(groups, key=order)]


def _row(name: str, cases: list[Case]) -> tuple[str, ...]:
    judged = dict.fromkeys(_WHO[case.who] for case in cases)
    who = "both" if len(judged) > 1 else next(iter(judged))
    return name, cases[0].words, cases[0].level, who, _ours(name, who)


def _ours(name: str, who: str) -> str:
    row = NOT_KEPT.get(name)
    if row is None or (row.who not in (who, "both") and who != "both"):
        return "kept"
    one = f" by the {row.who}" if row.who != who and row.who != "both" else ""
    return f"**not kept**{one}: {row.reason}"


def _block(beginnings: tuple[str, ...], table: Callable[..., str]) -> str:
    rows = rows_of(CASES, beginnings)
    return table(HEADS, rows) if rows else ""


def blocks(table: Callable[..., str]) -> dict[str, Callable[[], str]]:
    """Return the blocks by name; ``table`` makes a table in Markdown."""
    return {name: partial(_block, first, table) for name, first in _TITLES.items()}
