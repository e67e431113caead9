"""The live table of `quiver` in upstream's layout: pure functions to lines, and their printer."""

from __future__ import annotations

from collections.abc import Callable

from quiver_fast.analysis.model.units import three_digits
from quiver_fast.cli.arrow.snapshots import Snapshot

ROWS_PER_HEADING = 20

_SIDE = "{:>8}  {:>13}  {:>10}  {:>7}  {:>7}"
_SIDE_WIDTH = 53
_SIDE_NAMES = ("Time [s]", "Count [m]", "Rate [m/s]", "CPU [%]", "RSS [M]")
_UNKNOWN = ("-",) * len(_SIDE_NAMES)
# Upstream's megabyte; scripts compare these figures.
_RSS_UNIT = 1000 * 1024
_LATENCY_WIDTH = 8
_SETTLEMENT = "  {:>11}"
_SETTLEMENT_WIDTH = 13
_THROUGHPUT = "{:>10}  {:>10}"


def heading(unit: str, streaming: bool = False, settlement: bool = False) -> str:
    """Return the three lines above the first row and again above every twentieth.

    Args:
        unit: the unit of the records; the column of latencies has "us" for "ns".
        streaming: bodies are streamed: two columns more.
        settlement: the sender records settlements: one column more of the sender.
    """
    shown = "ms" if unit == "ms" else "us"
    sender, width = _SIDE.format(*_SIDE_NAMES), _SIDE_WIDTH
    if settlement:
        sender, width = sender + _SETTLEMENT.format(f"Settle [{shown}]"), width + _SETTLEMENT_WIDTH
    groups = f"{{:-^{width}}}  {{:-^{_SIDE_WIDTH}}}  {{:-^{_LATENCY_WIDTH}}}"
    receiver = _SIDE.format(*_SIDE_NAMES)
    lines = [
        groups.format(" Sender ", " Receiver ", ""),
        f"{sender}  {receiver}  Lat [{shown}]",
        groups.format("", "", ""),
    ]
    if streaming:
        more = ("{:-^22}".format(" Bodies [MB/s] "), _THROUGHPUT.format("Sender", "Receiver"),
                "{:-^22}".format(""))  # fmt: skip
        lines = [f"{line}  {columns}" for line, columns in zip(lines, more, strict=True)]
    return "\n".join(lines)


def table_row(
    start: int,
    unit: str,
    sender: Snapshot | None,
    receiver: Snapshot,
    settlement: bool = False,
) -> str:
    """Return one row, without a line end.

    Args:
        start: when the run began, epoch milliseconds.
        unit: as :func:`heading` takes it.
        sender: its snapshot of the same moment, or None if there is none to show.
        receiver: its snapshot.
        settlement: as :func:`heading` takes it.
    """
    left = _SIDE.format(*(_UNKNOWN if sender is None else _fields(start, sender)))
    if settlement:
        left += _SETTLEMENT.format(_settlement(sender, unit))
    right = _SIDE.format(*_fields(start, receiver))
    row = f"{left}  {right}  {_latency(receiver, unit):>{_LATENCY_WIDTH}}"
    if receiver.period_bytes is None:
        return row
    return f"{row}  {_THROUGHPUT.format(_throughput(sender), _throughput(receiver))}"


def _latency(snapshot: Snapshot, unit: str) -> str:
    """Return the mean of the period: whole milliseconds, or at least three digits of us."""
    if snapshot.latency_us is None:
        return "-"
    if unit == "ms":
        return f"{snapshot.latency:,d}"
    text = _microseconds(snapshot.latency_us)
    return text if len(text) <= _LATENCY_WIDTH else text.replace(",", "")


def _settlement(snapshot: Snapshot | None, unit: str) -> str:
    """Return the mean of the period's sampled settlements in the same way."""
    if snapshot is None or snapshot.settlement_us is None:
        return "-"
    return f"{snapshot.latency:,d}" if unit == "ms" else _microseconds(snapshot.settlement_us)


def _microseconds(latency: float) -> str:
    return f"{latency:,.0f}" if abs(latency) >= 100 else three_digits(latency)


def _throughput(snapshot: Snapshot | None) -> str:
    speed = None if snapshot is None else snapshot.bytes_per_second
    return "-" if speed is None else f"{speed / 1e6:,.1f}"


def _fields(start: int, snapshot: Snapshot) -> tuple[str, ...]:
    time = f"{(snapshot.timestamp - start) / 1000:,.1f}"
    count = f"{snapshot.count:,d}"
    rss = f"{snapshot.rss / _RSS_UNIT:,.1f}"
    rate = "-" if snapshot.rate is None else f"{snapshot.rate:,.0f}"
    if snapshot.period <= 0:
        return time, count, rate, "-", rss
    cpu = f"{snapshot.period_cpu_time * 100 / snapshot.period:,.0f}"
    return time, count, rate, cpu, rss


class UpstreamView:
    """Prints one row for each snapshot of the receiver."""

    def __init__(
        self, show: Callable[[str], None], unit: str, settlement: bool, start: int
    ) -> None:
        """Prepare a table.

        Args:
            show: prints one row, or a heading of several lines.
            unit: as :func:`heading` takes it.
            settlement: as :func:`heading` takes it.
            start: as :func:`table_row` takes it.
        """
        self._show = show
        self._settlement = settlement
        self._unit = unit
        self._start = start
        self._sender: Snapshot | None = None
        self._rows = 0

    def open(self) -> None:
        """Upstream shows nothing before the first row."""

    def close(self) -> None:
        """Upstream shows nothing after the last row."""

    def begin(self) -> None:
        """Both arrows have been started: upstream shows nothing of it."""

    def state(self, words: str) -> None:
        """Upstream shows no state."""

    def tick(self) -> None:
        """Upstream draws nothing again."""

    def add(self, snapshots: dict[str, Snapshot]) -> None:
        """Print a row, if the receiver is among ``snapshots``."""
        self._sender = snapshots.get("sender", self._sender)
        receiver = snapshots.get("receiver")
        if receiver is None:
            return
        if self._sender is None and not self._rows and not receiver.count:
            return  # The receiver failed before the run began: one line says why.
        if self._rows % ROWS_PER_HEADING == 0:
            streaming = receiver.period_bytes is not None
            self._show(heading(self._unit, streaming, self._settlement))
        self._show(table_row(self._start, self._unit, self._sender, receiver, self._settlement))
        self._sender = None
        self._rows += 1
