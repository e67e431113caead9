"""The live table of `quiver`: its columns, and the view in upstream's layout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from quiver_fast.analysis.model.units import three_digits
from quiver_fast.cli.arrow.snapshots import Snapshot

ROWS_PER_HEADING = 20
GAP = "  "
UNKNOWN = ("-", "")

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
        start: when the run began, epoch milliseconds.
    """

    elapsed: int
    unit: str
    behind: bool
    sender: Snapshot | None
    receiver: Snapshot
    queued: int | None = None
    queued_before: int | None = None
    start: int = 0


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        group: the name above it and its neighbours.
        name: its own name.
        width: characters.
        cell: makes its text of a period.
        rank: a terminal that is too narrow loses the columns of the highest ranks first.
    """

    group: str
    name: str
    width: int
    cell: Callable[[Period], Cell]
    rank: int = 0


def of_side(side: str, cell: Callable[[Snapshot, Period], Cell]) -> Callable[[Period], Cell]:
    """Return the cell of one side's snapshot; unknown where a period has none."""

    def of(period: Period) -> Cell:
        snapshot = period.sender if side == "sender" else period.receiver
        return UNKNOWN if snapshot is None else cell(snapshot, period)

    return of


def width_of(columns: Sequence[Column]) -> int:
    """Return the characters of columns, with the gaps between them."""
    return sum(column.width for column in columns) + len(GAP) * (len(columns) - 1)


def groups_of(columns: Sequence[Column]) -> list[tuple[str, list[Column]]]:
    """Return neighbours of one group, with its name."""
    return [(name, list(span)) for name, span in groupby(columns, lambda column: column.group)]


def names_line(columns: Sequence[Column]) -> str:
    """Return the line with the names of the columns."""
    return GAP.join(column.name.rjust(column.width) for column in columns)


def upstream_columns(unit: str, streaming: bool = False, settlement: bool = False) -> list[Column]:
    """Return upstream's columns, and those of streamed bodies and of a sender's settlements.

    The mean latency of records in "ms" is in whole milliseconds, else in microseconds.
    """
    shown = "ms" if unit == "ms" else "us"
    columns = []
    for side in ("sender", "receiver"):
        columns += [
            Column(side.capitalize(), name, width, of_side(side, cell))
            for name, width, cell in _OF_EACH_SIDE
        ]
        if settlement and side == "sender":
            columns.append(Column("Sender", f"Settle [{shown}]", 11, of_side(side, _settlement)))
    columns.append(Column("", f"Lat [{shown}]", 8, of_side("receiver", _latency)))
    if streaming:
        columns += [
            Column("Bodies [MB/s]", side.capitalize(), 10, of_side(side, _throughput))
            for side in ("sender", "receiver")
        ]
    return columns


def heading(columns: Sequence[Column]) -> str:
    """Return the three lines above the first row and again above every twentieth."""
    spans = [(name and f" {name} ", width_of(span)) for name, span in groups_of(columns)]
    groups = GAP.join(f"{name:-^{width}}" for name, width in spans)
    return f"{groups}\n{names_line(columns)}\n{GAP.join('-' * width for _, width in spans)}"


def table_row(columns: Sequence[Column], period: Period) -> str:
    """Return one row, without a line end."""
    return GAP.join(column.cell(period)[0].rjust(column.width) for column in columns)


def _time(snapshot: Snapshot, period: Period) -> Cell:
    return f"{(snapshot.timestamp - period.start) / 1000:,.1f}", ""


def _rate(snapshot: Snapshot, _period: Period) -> Cell:
    return UNKNOWN if snapshot.rate is None else (f"{snapshot.rate:,.0f}", "")


def _cpu(snapshot: Snapshot, _period: Period) -> Cell:
    if snapshot.period <= 0:
        return UNKNOWN
    return f"{snapshot.period_cpu_time * 100 / snapshot.period:,.0f}", ""


def _settlement(snapshot: Snapshot, period: Period) -> Cell:
    return _mean(snapshot.settlement_us, period.unit)


def _latency(snapshot: Snapshot, period: Period) -> Cell:
    text, style = _mean(snapshot.latency_us, period.unit)
    return text if len(text) <= 8 else text.replace(",", ""), style


def _mean(microseconds: float | None, unit: str) -> Cell:
    """Return a mean of the period: whole milliseconds, or at least three digits of us."""
    if microseconds is None:
        return UNKNOWN
    if unit == "ms":
        return f"{int(microseconds / 1000):,d}", ""
    whole = abs(microseconds) >= 100
    return f"{microseconds:,.0f}" if whole else three_digits(microseconds), ""


def _throughput(snapshot: Snapshot, _period: Period) -> Cell:
    speed = snapshot.bytes_per_second
    return UNKNOWN if speed is None else (f"{speed / 1e6:,.1f}", "")


_OF_EACH_SIDE = (
    ("Time [s]", 8, _time),
    ("Count [m]", 13, lambda snapshot, _: (f"{snapshot.count:,d}", "")),
    ("Rate [m/s]", 10, _rate),
    ("CPU [%]", 7, _cpu),
    # Upstream's megabyte; scripts compare these figures.
    ("RSS [M]", 7, lambda snapshot, _: (f"{snapshot.rss / 1000 / 1024:,.1f}", "")),
)


class View:
    """A view of a run while it goes on; this one shows nothing but rows."""

    def __init__(self) -> None:
        self._sender: Snapshot | None = None
        self._rows = 0

    def open(self) -> None:
        """Begin to show."""

    def close(self) -> None:
        """Leave the terminal as it was."""

    def begin(self) -> None:
        """Note that both arrows have been started."""

    def state(self, words: str) -> None:
        """Show the state of the run in words."""

    def tick(self) -> None:
        """Draw the view again, if it is time to."""

    def tell(self, line: str) -> None:
        """Show a line between the rows."""

    def add(self, snapshots: dict[str, Snapshot]) -> None:
        """Show a row with the snapshots of one moment, by role, if the receiver is among them."""
        self._sender = snapshots.get("sender", self._sender)
        receiver = snapshots.get("receiver")
        if receiver is None or (self._sender is None and not self._rows and not receiver.count):
            # The receiver failed before the run began: one line says why.
            return
        self._show_row(self._sender, receiver)
        self._sender = None
        self._rows += 1

    def _show_row(self, sender: Snapshot | None, receiver: Snapshot) -> None:
        raise NotImplementedError


class UpstreamView(View):
    """Prints one row for each snapshot of the receiver, and nothing else."""

    def __init__(
        self, show: Callable[[str], None], unit: str, settlement: bool, start: int
    ) -> None:
        """Prepare a table.

        Args:
            show: prints one row, or a heading of several lines.
            unit: that of the records.
            settlement: the sender records settlements.
            start: when the run began, epoch milliseconds.
        """
        super().__init__()
        self._show = show
        self._settlement = settlement
        self._unit = unit
        self._start = start

    def tell(self, line: str) -> None:
        """See :meth:`View.tell`."""
        self._show(line)

    def _show_row(self, sender: Snapshot | None, receiver: Snapshot) -> None:
        streaming = receiver.period_bytes is not None
        columns = upstream_columns(self._unit, streaming, self._settlement)
        if self._rows % ROWS_PER_HEADING == 0:
            self._show(heading(columns))
        period = Period(0, self._unit, False, sender, receiver, start=self._start)
        self._show(table_row(columns, period))
