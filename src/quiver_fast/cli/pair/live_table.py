"""The live table on a terminal: rows that scroll, and a line of state below them.

The table fits the width, and colours striking figures.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from quiver_fast.analysis.model.units import latency_text, short_text
from quiver_fast.cli.arrow.progress import Limits
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.pair.table import (
    GAP,
    UNKNOWN,
    Cell,
    Column,
    Period,
    View,
    groups_of,
    names_line,
    of_side,
    width_of,
)
from quiver_fast.errors import one_line

# A queue grows when it gains more than this part of the messages sent in the period.
_GROWING = 0.1
# From here on an arrow has next to no CPU left: it may be the limit, not the server.
_BUSY_PERCENT = 95

_WARN = "yellow"
_BAD = "red"
# Drawing the line of state takes CPU time from the measurement.
_INTERVAL = 0.2
_LEAST_ROWS = 8
_BAR_WIDTH = 30
_LEAST_WIDTH_WITH_BAR = 50
# A sender is behind its schedule when it has sent less than this part of the messages due ...
_ON_SCHEDULE = 0.99
# ... some seconds ago: its records come in blocks.
_BLOCK_SECONDS = 1.0
_SHOW_CURSOR, _HIDE_CURSOR = b"\033[?25h", b"\033[?25l"


def table_columns(peer_to_peer: bool, settlement: bool, streaming: bool) -> list[Column]:
    """Return all columns that a run has, from left to right.

    Args:
        peer_to_peer: no queue lies between the arrows.
        settlement: the sender records settlements.
        streaming: bodies are streamed.
    """
    columns = [
        Column("time", "Time", 8, lambda period: (_clock(period.elapsed), ""), 3),
        Column("sender", "Sent/s", 9, _sent, 4),
        Column("sender", "Bodies/s", 9, of_side("sender", _throughput), 5),
        Column("sender", "Sent", 9, of_side("sender", _count), 10),
        Column("sender", "Settled", 9, of_side("sender", _settlement), 6),
        Column("sender", "CPU", 5, of_side("sender", _cpu), 9),
        Column("sender", "RSS", 8, of_side("sender", _rss), 11),
        Column("receiver", "Received/s", 10, _received, 0),
        Column("receiver", "Bodies/s", 9, of_side("receiver", _throughput), 5),
        Column("receiver", "Received", 9, of_side("receiver", _count), 10),
        Column("receiver", "CPU", 5, of_side("receiver", _cpu), 8),
        Column("receiver", "RSS", 8, of_side("receiver", _rss), 11),
        Column("queue", "In flight" if peer_to_peer else "Queued", 9, _queued, 7),
        Column("latency", "p50", 9, lambda period: _latency(period, "latency_p50_us"), 1),
        Column("latency", "p99", 9, lambda period: _latency(period, "latency_p99_us"), 2),
    ]
    left_out = {"Settled"} if not settlement else set()
    left_out |= {"Bodies/s"} if not streaming else set()
    return [column for column in columns if column.name not in left_out]


def fitting(columns: Sequence[Column], width: int) -> list[Column]:
    """Return the most important of ``columns`` that fit into ``width``, at least one, in order."""
    chosen: list[Column] = []
    for column in sorted(columns, key=lambda column: column.rank):
        if chosen and width_of([*chosen, column]) > width:
            break
        chosen.append(column)
    return [column for column in columns if column in chosen]


def heading(columns: Sequence[Column], rule: str = "─") -> list[Text]:
    """Return the two lines above the rows: groups, and names.

    Args:
        columns: those that fit.
        rule: the character of the line beside a group's name.
    """
    groups = GAP.join(_group(name, span, rule) for name, span in groups_of(columns))
    return [Text(groups.rstrip(), "dim"), Text(names_line(columns), "bold")]


def line(columns: Sequence[Column], period: Period) -> Text:
    """Return the row of ``period``."""
    text = Text()
    for index, column in enumerate(columns):
        shown, style = column.cell(period)
        text.append(GAP if index else "")
        text.append(shown.rjust(column.width), style)
    return text


def _group(name: str, columns: Sequence[Column], rule: str) -> str:
    """Return the head above columns of one group; a single column has its name alone."""
    width = width_of(columns)
    return f" {name} ".center(width, rule) if len(columns) > 1 else " " * width


def _sent(period: Period) -> Cell:
    rate = None if period.sender is None else period.sender.rate
    if rate is None:
        return UNKNOWN
    return short_text(rate), _BAD if period.behind else ""


def _received(period: Period) -> Cell:
    rate = period.receiver.rate
    if rate is None:
        return UNKNOWN
    return short_text(rate), _BAD if rate == 0 and period.queued else "bold"


def _queued(period: Period) -> Cell:
    if period.queued is None:
        return UNKNOWN
    gained = period.queued - (period.queued_before or 0)
    sent = 0 if period.sender is None else period.sender.period_count
    return short_text(period.queued), _WARN if gained > _GROWING * sent > 0 else ""


def _count(snapshot: Snapshot, _period: Period) -> Cell:
    return short_text(snapshot.count), ""


def _cpu(snapshot: Snapshot, _period: Period) -> Cell:
    if snapshot.period <= 0:
        return UNKNOWN
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
        return UNKNOWN
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


class LiveView(View):
    """The table and the line of state of one run.

    Between :meth:`open` and :meth:`close` standard error is printed above the line of state.
    """

    def __init__(
        self, console: Console, unit: str, limits: Limits, *, rate: float = 0,
        peer_to_peer: bool = False, settlement: bool = False,
    ) -> None:  # fmt: skip
        """Prepare a view.

        Args:
            console: the terminal.
            unit: the unit of the records' times.
            limits: the count and the duration that end the run.
            rate: the asked messages per second; 0 for as many as possible.
            peer_to_peer: no queue lies between the arrows.
            settlement: the sender records settlements.
        """
        super().__init__()
        self._console = console
        self._unit = unit
        self._limits = limits
        self._rate = rate
        self._kinds = (peer_to_peer, settlement)
        self._state = "Starting"
        self._next = 0.0
        self._started = time.monotonic()
        self._first: Snapshot | None = None
        self._sent = 0
        self._queued: int | None = None
        self._received = 0
        self._shown: list[Column] = []
        self._watched: dict[int, Any] = {}
        self._live = Live(
            console=console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=console.is_terminal,
        )

    def open(self) -> None:
        """Begin to show the line of state."""
        self._live.start()
        # A shell's job control: the cursor is the shell's while we are stopped.
        self._watch(signal.SIGTSTP, self._stop)
        self._watch(signal.SIGCONT, self._go_on)
        self.tick()

    def close(self) -> None:
        """Remove the line of state, and give the cursor back."""
        while self._watched:
            signal.signal(*self._watched.popitem())
        self._live.stop()

    def _watch(self, number: int, handler: Callable[[int, FrameType | None], None]) -> None:
        # A signal that is ignored stays ignored.
        if self._console.is_terminal and signal.getsignal(number) == signal.SIG_DFL:
            self._watched[number] = signal.signal(number, handler)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._write(_SHOW_CURSOR)
        signal.signal(number, signal.SIG_DFL)
        # We stop here, until the shell sends SIGCONT.
        signal.raise_signal(number)
        signal.signal(number, self._stop)

    def _go_on(self, _number: int, _frame: FrameType | None) -> None:
        if self._is_in_foreground():
            self._write(_HIDE_CURSOR)
            self._next = 0.0

    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._console.file.fileno()) == os.getpgrp()
        except OSError:  # not the terminal of our session
            return True

    def _write(self, control: bytes) -> None:
        # The signal may have interrupted a write to the same file object.
        with suppress(OSError):
            os.write(self._console.file.fileno(), control)

    def begin(self) -> None:
        """Note that both arrows have been started: limits count from now."""
        self._started = time.monotonic()
        self.state("Running")

    def state(self, words: str) -> None:
        """Show the state of the run in words."""
        if words != self._state:
            self._state, self._next = words, 0.0
            self.tick()

    def tick(self) -> None:
        """Draw the line of state, if it is time to."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _INTERVAL
            self._live.update(self._state_line(now - self._started), refresh=True)

    def tell(self, line: str) -> None:
        """See :meth:`.View.tell`."""
        self._console.print(Text(one_line(line), _WARN))

    def _show_row(self, sender: Snapshot | None, receiver: Snapshot) -> None:
        self._received = receiver.count
        period = self._period(sender, receiver)
        for text in self._lines(period, receiver.period_bytes is not None):
            self._console.print(text, no_wrap=True, overflow="crop", crop=True)
        self._queued = period.queued

    def _period(self, sender: Snapshot | None, receiver: Snapshot) -> Period:
        if sender is not None:
            self._sent = sender.count
            self._first = self._first or sender
        return Period(
            elapsed=round((time.monotonic() - self._started) * 1000),
            unit=self._unit,
            behind=self._is_behind(sender),
            sender=sender,
            receiver=receiver,
            queued=max(self._sent - receiver.count, 0) if self._sent else None,
            queued_before=self._queued,
        )

    def _is_behind(self, sender: Snapshot | None) -> bool:
        """Say whether the sender has sent too little since its first snapshot."""
        if sender is None or self._first is None:
            return False
        seconds = (sender.timestamp - self._first.timestamp) / 1000 - _BLOCK_SECONDS
        sent = sender.count - self._first.count
        return sent < _ON_SCHEDULE * self._rate * seconds

    def _lines(self, period: Period, streaming: bool) -> list[Text]:
        columns = fitting(table_columns(*self._kinds, streaming), self._console.width)
        names = [column.name for column in columns]
        rows_per_heading = max(self._console.height - 4, _LEAST_ROWS)
        begins = names != [column.name for column in self._shown]
        self._shown = columns
        if begins or self._rows >= rows_per_heading:
            self._rows = 0
            rule = "-" if self._console.options.ascii_only else "─"
            return [*heading(columns, rule), line(columns, period)]
        return [line(columns, period)]

    def _state_line(self, elapsed: float) -> Table:
        done, words = self._limits.progress(self._received, elapsed)
        grid = Table.grid(padding=(0, 2))
        parts: list[Text | ProgressBar] = [Text(one_line(self._state), "cyan")]
        if self._console.width >= _LEAST_WIDTH_WITH_BAR:
            parts.append(ProgressBar(1.0, done, width=_BAR_WIDTH))
        grid.add_row(*parts, Text(words, "dim"))
        return grid
