"""The facts of one file of records: data alone, from which all figures of a run are made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from quiver_fast.analysis.figures.settlement import Settlement
from quiver_fast.analysis.figures.streams import Streams
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.tables.id_table import IdTable
from quiver_fast.analysis.tables.latencies import Histogram, Latencies
from quiver_fast.analysis.tables.ticks import Ticks

if TYPE_CHECKING:
    from quiver_fast.analysis.figures.ledger_lines import LedgerTables


@dataclass(frozen=True, eq=False)
class Steps:
    """The steps of a run in its records, by their numbers from 0.

    Attributes:
        sent: messages that the sender sent.
        latencies: of the messages that were received, with the step in place of the second.
    """

    sent: Distribution
    latencies: Histogram


@dataclass(frozen=True, eq=False)
class FileAnalysis:
    """The facts of one file of records; of a receiver, only of the messages of its run.

    Times are in ``time_unit`` since the epoch. An arrow's own time is the send time of a
    sender and the receive time of a receiver. Receipts of messages that are not of the run
    are counted in ``older`` and ``foreign``, and in nothing else.

    Attributes:
        record_format: "v1", "v2" or "v3"; None where no line tells it.
        operation: "send" or "receive"; None likewise.
        time_unit: "ms", "us" or "ns", by the digits of the first own time.
        count: transfers.
        first_time: own time of the first record; None without records.
        last_time: own time of the last record; None without records.
        seconds: messages per epoch second of the own time.
        histogram: the latencies; None unless the operation is receive.
        ids: how often each id occurs, and when first; None for v3, and of the receiver
            where both ends are compared.
        ids_hashed: whether some id is a hash.
        send_ticks: messages per send time, kept for reconciling if that was asked for.
        reordered: receipts with a send time smaller than that of an earlier receipt.
        settlement: settlement latencies; None without settlement lines.
        malformed: whole lines that are no record.
        first_malformed: number (from 1) and beginning of the first such line, or None.
        truncated: whether the file ends within a line or a zstd frame, or lacks a frame.
        streams: bodies and first bytes of streaming mode; None without its lines.
        older: receipts of messages that were sent before the run.
        foreign: receipts of messages that others sent during the run; 0 where the sender's
            records do not tell.
        end: when the sending ended, of a receiver whose run was ended by its duration
            (:func:`.sender_rate.end_of_sending`); else None.
        late: messages received after ``end``.
        latest: own time of the latest of them; None without any.
        missing_bytes: text that a zstd file lacks at its end, at least; None where nothing
            is missing, or nothing tells how much.
        cut: whether the file is compressed and was cut.
        earliest: the smallest own time, of a receiver also of messages that are not of the run;
            None without records.
        set_back: the most by which such a time is below an earlier one in the file.
        steps: those of a run whose sender changed its rate, for a receiver; else None.
        ledger: of senders that connect again, the lines of the run so far; else None.
    """

    record_format: str | None
    operation: str | None
    time_unit: str
    count: int
    first_time: int | None
    last_time: int | None
    seconds: Distribution
    histogram: Histogram | None
    ids: IdTable | None
    ids_hashed: bool
    send_ticks: Ticks
    reordered: int
    settlement: Settlement | None
    malformed: int
    first_malformed: tuple[int, str] | None
    truncated: bool
    streams: Streams | None
    older: int = 0
    foreign: int = 0
    end: int | None = None
    late: int = 0
    latest: int | None = None
    missing_bytes: int | None = None
    cut: bool = False
    earliest: int | None = None
    set_back: int = 0
    steps: Steps | None = None
    ledger: LedgerTables | None = None

    @cached_property
    def latencies(self) -> Latencies:
        """All latencies (receive minus send time, signed, in ``time_unit``); empty of a sender."""
        return Distribution.none() if self.histogram is None else self.histogram.distribution()

    @property
    def rate(self) -> float | None:
        """Messages per second, count / (last - first own time); None when that is no time.

        Where the run was ended by its duration, without those received after ``end``, and
        until ``end``.
        """
        last = self.last_time if self.end is None else self.end
        if self.first_time is None or last is None or last <= self.first_time:
            return None
        seconds = (last - self.first_time) / PER_SECOND[self.time_unit]
        return (self.count - self.late) / seconds
