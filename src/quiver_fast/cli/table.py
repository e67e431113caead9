"""The live table of `quiver`: pure functions from snapshots to lines of upstream's layout."""

from __future__ import annotations

from quiver_fast.cli.snapshots import Snapshot

__all__ = ["HEADING", "ROWS_PER_HEADING", "STREAMING_HEADING", "table_row"]

ROWS_PER_HEADING = 20

_SIDE = "{:>8}  {:>13}  {:>10}  {:>7}  {:>7}"
_GROUPS = "{:-^53}  {:-^53}  {:-^8}"
_SIDE_NAMES = ("Time [s]", "Count [m]", "Rate [m/s]", "CPU [%]", "RSS [M]")
_UNKNOWN = ("-",) * len(_SIDE_NAMES)
# Upstream's megabyte; scripts compare these figures.
_RSS_UNIT = 1000 * 1024

HEADING = "\n".join(
    (
        _GROUPS.format(" Sender ", " Receiver ", ""),
        f"{_SIDE}  {_SIDE}  {{:>8}}".format(*_SIDE_NAMES, *_SIDE_NAMES, "Lat [ms]"),
        _GROUPS.format("", "", ""),
    )
)
"""The three lines above the first row and again above every twentieth."""

_THROUGHPUT = "{:>10}  {:>10}"
STREAMING_HEADING = "\n".join(
    f"{line}  {more}"
    for line, more in zip(
        HEADING.splitlines(),
        (
            "{:-^22}".format(" Bodies [MB/s] "),
            _THROUGHPUT.format("Sender", "Receiver"),
            "{:-^22}".format(""),
        ),
        strict=True,
    )
)
"""The same where bodies are streamed: two columns more."""


def table_row(start: int, sender: Snapshot | None, receiver: Snapshot) -> str:
    """Return one row, without a line end.

    Args:
        start: when the run began, epoch milliseconds.
        sender: its snapshot of the same moment, or None if there is none to show.
        receiver: its snapshot.
    """
    left = _UNKNOWN if sender is None else _fields(start, sender)
    latency = f"{receiver.latency:,d}" if receiver.period_count else "-"
    row = f"{_SIDE}  {_SIDE}  {{:>8}}".format(*left, *_fields(start, receiver), latency)
    if receiver.period_bytes is None:
        return row
    return f"{row}  {_THROUGHPUT.format(_throughput(sender), _throughput(receiver))}"


def _throughput(snapshot: Snapshot | None) -> str:
    if snapshot is None or snapshot.period_bytes is None or snapshot.period <= 0:
        return "-"
    return f"{snapshot.period_bytes / snapshot.period / 1000:,.1f}"


def _fields(start: int, snapshot: Snapshot) -> tuple[str, ...]:
    time = f"{(snapshot.timestamp - start) / 1000:,.1f}"
    count = f"{snapshot.count:,d}"
    rss = f"{snapshot.rss / _RSS_UNIT:,.1f}"
    if snapshot.period <= 0:
        return time, count, "-", "-", rss
    rate = f"{snapshot.period_count * 1000 / snapshot.period:,.0f}"
    cpu = f"{snapshot.period_cpu_time * 100 / snapshot.period:,.0f}"
    return time, count, rate, cpu, rss
