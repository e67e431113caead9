"""Results as text: a line for each case, and below a broken one the frames that show it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from quiver_fast.cli.conform.document import FRAMES_MAX
from quiver_fast.conform.case import BROKEN, CONTRACT, DISPUTED_, KEPT, UNOBSERVABLE, Case
from quiver_fast.conform.runner import Result
from quiver_fast.conform.wire.trace import shown

_PARTS = {
    "1": "Types", "2": "Transport", "3": "Messages and nodes", "4": "Transactions",
    "5": "Security", "anonterm": "The anonymous terminus", "contract": "The contract of arrows",
}  # fmt: skip
_LEVELS = {"broken_must": "MUST", "broken_should": "SHOULD", "broken_contract": "contract"}


def part_of(name: str) -> str:
    """Return the title of the part of the standard that a clause is in, by its id."""
    return _PARTS.get(name.partition(".")[0].partition("/")[0], "")


def order(name: str) -> list[tuple[int, int, str]]:
    """Return the key that sorts ids as the standard does: 2.6 before 2.10, words last."""
    parts = re.findall(r"\d+|[a-z]+", name)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def listed(case: Case, verbose: bool) -> str:
    """Return the line of a case in the list."""
    fault = f"\n{'':24}fails if {case.breaks.words}" if verbose else ""
    return f"{_beginning(case)}{case.words}{fault}"


def _beginning(case: Case) -> str:
    # The ids of the contract are words, and their lines stand apart from the others.
    width = 26 if case.level == CONTRACT else 16
    return f"{case.id:<{width}}{case.level:<8}{' ' * (case.level == CONTRACT)}"


def result_lines(result: Result, verbose: bool) -> Iterator[str]:
    """Yield the lines of a result."""
    case, shows = result.case, result.verdict in (BROKEN, DISPUTED_) or verbose
    why = f"  ({result.reason})" if result.reason and not shows else ""
    yield f"{_beginning(case)}{result.verdict:<14}{case.words}{why}"
    if not shows:
        return
    for name in ("reason", "expected", "found"):
        if value := getattr(result, name):
            yield f"    {name:<10} {value}"
    frames = result.trace[-FRAMES_MAX:]
    several = len({frame.connection for frame in frames}) > 1
    for frame in frames:
        known = {"connection": frame.connection, "sent": frame.sent, "text": shown(frame)}
        yield f"    {frame_line(known, several)}"


def frame_line(frame: Mapping[str, Any], several: bool) -> str:
    """Return the line of a frame of a document; ``several`` tells its connection too."""
    number = f"{frame['connection'] + 1} " if several else ""
    return f"{number}{'->' if frame['sent'] else '<-'} {frame['text']}"


def counts_line(counts: Mapping[str, int]) -> str:
    """Return the line that counts the verdicts."""
    kinds = [f"{counts[key]} {level}" for key, level in _LEVELS.items() if counts[key]]
    broken = sum(counts[key] for key in _LEVELS)
    levels = f" ({', '.join(kinds)})" if kinds else ""
    return (
        f"{sum(counts.values())} clauses: {counts[KEPT]} kept, {broken} broken{levels}, "
        f"{counts[DISPUTED_]} disputed, {counts[UNOBSERVABLE]} not observable here"
    )
