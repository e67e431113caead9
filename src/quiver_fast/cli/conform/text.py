"""Results as text: a line for each case, and below a broken one the frames that show it."""

from __future__ import annotations

from collections.abc import Iterator

from quiver_fast.conform.case import BROKEN, DISPUTED_, KEPT, MUST, SHOULD, UNOBSERVABLE, Case
from quiver_fast.conform.runner import Report, Result
from quiver_fast.conform.wire.trace import Traced, shown

_PARTS = {
    "1": "Types", "2": "Transport", "3": "Messages and nodes", "4": "Transactions",
    "5": "Security", "anonterm": "The anonymous terminus", "contract": "The contract of arrows",
}  # fmt: skip
# The frames of a case that are shown; the last ones tell most.
_FRAMES_MAX = 40


def part_of(case: Case) -> str:
    """Return the title of the part of the standard that a case is about."""
    return _PARTS.get(case.id.partition(".")[0].partition("/")[0], "")


def listed(case: Case, verbose: bool) -> str:
    """Return the line of a case in the list."""
    fault = f"\n{'':24}fails if {case.breaks.words}" if verbose else ""
    return f"{case.id:<16}{case.level:<8}{case.words}{fault}"


def result_lines(result: Result, verbose: bool) -> Iterator[str]:
    """Yield the lines of a result."""
    case, shows = result.case, result.verdict in (BROKEN, DISPUTED_) or verbose
    why = f"  ({result.reason})" if result.reason and not shows else ""
    yield f"{case.id:<16}{case.level:<8}{result.verdict:<14}{case.words}{why}"
    if not shows:
        return
    for name in ("reason", "expected", "found"):
        if value := getattr(result, name):
            yield f"    {name:<10} {value}"
    frames = result.trace[-_FRAMES_MAX:]
    several = len({frame.connection for frame in frames}) > 1
    yield from (_frame_line(frame, several) for frame in frames)


def _frame_line(frame: Traced, several: bool) -> str:
    number = f"{frame.connection + 1} " if several else ""
    return f"    {number}{'->' if frame.sent else '<-'} {shown(frame)}"


def counts(report: Report) -> str:
    """Return the line that counts the verdicts."""
    musts, shoulds = report.count(BROKEN, MUST), report.count(BROKEN, SHOULD)
    kinds = [f"{musts} MUST"] * bool(musts) + [f"{shoulds} SHOULD"] * bool(shoulds)
    broken = f"{report.count(BROKEN)} broken" + (f" ({', '.join(kinds)})" if kinds else "")
    return (
        f"{len(report.results)} clauses: {report.count(KEPT)} kept, {broken}, "
        f"{report.count(DISPUTED_)} disputed, {report.count(UNOBSERVABLE)} not observable here"
    )
