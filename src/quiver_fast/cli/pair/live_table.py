"""The live table on a terminal: it fits the width, and colours striking figures.

Pure functions from snapshots to lines of text; :mod:`.live_view` shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from quiver_fast.analysis.model.units import latency_text, short_text
from quiver_fast.cli.arrow.snapshots import Snapshot

_GAP = "  "
# A queue grows when it gains more than this part of the messages sent in the period.
_GROWING = 0.1
# From here on an arrow has next to no CPU left: it may be the limit, not the server.
_BUSY_PERCENT = 95

_WARN = "yellow"
_BAD = "red"

Cell = tuple[str, str]
"""Text and style."""


@dataclass(frozen=True)
class Period:
    """The period that one row shows.

    Attributes:
        elapsed: milliseconds since the run began.
        unit: the unit of the records' times: "ms", "us" or "ns".
        behind: the sender is behind its schedule.
        sender: its snapshot, or None if there is none of this moment.
        receiver: its snapshot.
        queued: messages sent and not received, or None without a snapshot of the sender.
        queued_before: the same of the row before.
    """

    elapsed: int
    unit: str
    behind: bool
    sender: Snapshot | None
    receiver: Snapshot
    queued: int | None
    queued_before: int | None


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        group: the name above it and its neighbours.
        name: its own name.
        width: characters.
        rank: a terminal that is too narrow loses the columns of the highest ranks first.
        cell: makes its text of a period.
    """

    group: str
    name: str
    width: int
    rank: int
    cell: Callable[[Period], Cell]


def table_columns(peer_to_peer: bool, settlement: bool, streaming: bool) -> list[Column]:
    """Return all columns that a run has, from left to right.

    Args:
        peer_to_peer: no queue lies between the arrows.
        settlement: the sender records settlements.
        streaming: bodies are streamed.
    """
    columns = [
        Column("time", "Time", 8, 3, lambda period: (_clock(period.elapsed), "")),
        Column("sender", "Sent/s", 9, 4, _sent),
        Column("sender", "Bodies/s", 9, 5, _of_sender(_throughput)),
        Column("sender", "Sent", 9, 10, _of_sender(_count)),
        Column("sender", "Settled", 9, 6, _of_sender(_settlement)),
        Column("sender", "CPU", 5, 9, _of_sender(_cpu)),
        Column("sender", "RSS", 8, 11, _of_sender(_rss)),
        Column("receiver", "Received/s", 10, 0, _received),
        Column("receiver", "Bodies/s", 9, 5, _of_receiver(_throughput)),
        Column("receiver", "Received", 9, 10, _of_receiver(_count)),
        Column("receiver", "CPU", 5, 8, _of_receiver(_cpu)),
        Column("receiver", "RSS", 8, 11, _of_receiver(_rss)),
        Column("queue", "In flight" if peer_to_peer else "Queued", 9, 7, _queued),
        Column("latency", "p50", 9, 1, lambda period: _latency(period, "latency_p50_us")),
        Column("latency", "p99", 9, 2, lambda period: _latency(period, "latency_p99_us")),
    ]
    left_out = {"Settled"} if not settlement else set()
    left_out |= {"Bodies/s"} if not streaming else set()
    return [column for column in columns if column.name not in left_out]


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the most important of ``columns`` that fit into ``width``, at least one, in order."""
    chosen: list[Column] = []
    for column in sorted(columns, key=lambda column: column.rank):
        if chosen and _width([*chosen, column]) > width:
            break
        chosen.append(column)
    return [column for column in columns if column in chosen]


def heading(columns: Sequence[Column], rule: str = "─") -> list[Text]:
    """Return the two lines above the rows: groups, and names.

    Args:
        columns: those that fit.
        rule: the character of the line beside a group's name.
    """
    names = _GAP.join(column.name.rjust(column.width) for column in columns)
    spans = [list(span) for _name, span in groupby(columns, lambda column: column.group)]
    groups = _GAP.join(_group(span, rule) for span in spans)
    return [Text(groups.rstrip(), "dim"), Text(names, "bold")]


def line(columns: Sequence[Column], period: Period) -> Text:
    """Return the row of ``period``."""
    text = Text()
    for index, column in enumerate(columns):
        shown, style = column.cell(period)
        text.append(_GAP if index else "")
        text.append(shown.rjust(column.width), style)
    return text


def _width(columns: Sequence[Column]) -> int:
    return sum(column.width for column in columns) + len(_GAP) * (len(columns) - 1)


def _group(columns: Sequence[Column], rule: str) -> str:
    """Return the head above columns of one group; a single column has its name alone."""
    width = _width(columns)
    return f" {columns[0].group} ".center(width, rule) if len(columns) > 1 else " " * width


def _of_sender(cell: Callable[[Snapshot, Period], Cell]) -> Callable[[Period], Cell]:
    return lambda period: ("-", "") if period.sender is None else cell(period.sender, period)


def _of_receiver(cell: Callable[[Snapshot, Period], Cell]) -> Callable[[Period], Cell]:
    return lambda period: cell(period.receiver, period)


def _sent(period: Period) -> Cell:
    rate = None if period.sender is None else period.sender.rate
    if rate is None:
        return "-", ""
    return short_text(rate), _BAD if period.behind else ""


def _received(period: Period) -> Cell:
    rate = period.receiver.rate
    if rate is None:
        return "-", ""
    return short_text(rate), _BAD if rate == 0 and period.queued else "bold"


def _queued(period: Period) -> Cell:
    if period.queued is None:
        return "-", ""
    gained = period.queued - (period.queued_before or 0)
    sent = 0 if period.sender is None else period.sender.period_count
    return short_text(period.queued), _WARN if gained > _GROWING * sent > 0 else ""


def _count(snapshot: Snapshot, _period: Period) -> Cell:
    return short_text(snapshot.count), ""


def _cpu(snapshot: Snapshot, _period: Period) -> Cell:
    if snapshot.period <= 0:
        return "-", ""
    percent = snapshot.period_cpu_time * 100 / snapshot.period
    return f"{percent:.0f}%", _WARN if percent >= _BUSY_PERCENT else ""


def _rss(snapshot: Snapshot, _period: Period) -> Cell:
    return f"{short_text(snapshot.rss)}B", ""


def _throughput(snapshot: Snapshot, _period: Period) -> Cell:
    speed = snapshot.bytes_per_second
    return "-" if speed is None else f"{short_text(speed)}B", ""


def _settlement(snapshot: Snapshot, period: Period) -> Cell:
    return _time(snapshot.settlement_us, period.unit)


def _latency(period: Period, name: str) -> Cell:
    return _time(getattr(period.receiver, name), period.unit)


def _time(microseconds: float | None, unit: str) -> Cell:
    if microseconds is None:
        return "-", ""
    ticks = microseconds / 1000 if unit == "ms" else microseconds
    text = latency_text(ticks, "ms" if unit == "ms" else "us")
    # Only clocks that differ make a latency negative.
    return text, _BAD if microseconds < 0 else ""


def _clock(milliseconds: int) -> str:
    """Return ``4.0 s``, or from 100 s on ``1:40`` and ``1:00:00``."""
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
