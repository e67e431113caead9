"""The results of the parser: records of a file as columns, or sums over new records."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Streamed:
    """The lines of streaming mode (:func:`.formats.is_streamed`), k of them.

    Times are those of :class:`Transfers`.

    Attributes:
        sent: int64[k], send time of the message.
        first: int64[k], time of its first byte.
        time: int64[k], time of the line.
        size: int64[k], bytes of the body since the line before of the same message.
        whole: bool[k], whether the message is whole with it.
    """

    sent: NDArray[np.int64]
    first: NDArray[np.int64]
    time: NDArray[np.int64]
    size: NDArray[np.int64]
    whole: NDArray[np.bool_]

    def __len__(self) -> int:
        """Return k, the number of lines."""
        return len(self.sent)

    def only(self, lines: NDArray[np.bool_]) -> Streamed:
        """Return some of the lines, by mask."""
        return Streamed(
            self.sent[lines],
            self.first[lines],
            self.time[lines],
            self.size[lines],
            self.whole[lines],
        )

    @property
    def body_bytes(self) -> int:
        """Bytes of bodies, those of messages that never became whole among them."""
        return int(self.size.sum())

    @property
    def start(self) -> int:
        """Time of the earliest first byte; of one line at least."""
        return int(self.first.min())

    @property
    def end(self) -> int:
        """Time of the latest line; of one line at least."""
        return int(self.time.max())

    @property
    def first_byte_latencies(self) -> NDArray[np.int64]:
        """First byte minus send time of each whole message, int64."""
        latencies: NDArray[np.int64] = (self.first - self.sent)[self.whole]
        return latencies


@dataclass(frozen=True, eq=False)
class Transfers:
    """The records of one file, n transfers and m settlements, in the file's order.

    Times are in ``time_unit`` since the epoch and signed, so that a receive time before
    its send time shows as a negative latency.

    An id is one number or two halves of a hash of its bytes (the writer's percent-encoding
    undone), which can be compared with those of the same key (:mod:`.ids`).

    Attributes:
        record_format: ``"v1"``, ``"v2"`` or ``"v3"``; None where no line tells it and
            the caller did not.
        operation: ``"send"`` or ``"receive"``; None likewise.
        time_unit: ``"ms"``, ``"us"`` or ``"ns"``, by the digits of the first time that
            the arrow itself took; lines with one in another unit are malformed.
        sent: int64[n], send times.
        received: int64[n], receive times; None unless the operation is receive.
        ids: int64[n], message ids, or the lower halves of their hashes; None for v3.
        ids_hashed: Whether some id, of a transfer or settlement, is a hash; an empty one is none.
        settled_ids: int64[m], ids of the settlements; None unless v2 and send.
        settled_times: int64[m], settlement times; None likewise.
        settled_sampled: bool[m], whether the line had the prefix ``S``; None likewise.
        malformed: Number of whole lines that are no record of this format and operation.
        first_malformed: Number (from 1) and beginning of the first such line, or None.
        truncated: Whether the file ends within a line, which then is not among the
            records, or within a zstd frame.
        streamed: The lines of streaming mode; None without any.
        ends: int64[n], the number of the end that wrote each; -1 where none was told yet, and
            None where the file tells none.
        ids_high: int64[n], the upper halves, below 0, of ids that are hashes, and 0 of
            numbers; None where all are numbers.
        settled_ids_high: int64[m], those of the settlements likewise.
    """

    record_format: str | None
    operation: str | None
    time_unit: str
    sent: NDArray[np.int64]
    received: NDArray[np.int64] | None
    ids: NDArray[np.int64] | None
    ids_hashed: bool
    settled_ids: NDArray[np.int64] | None
    settled_times: NDArray[np.int64] | None
    settled_sampled: NDArray[np.bool_] | None
    malformed: int
    first_malformed: tuple[int, str] | None
    truncated: bool
    streamed: Streamed | None = None
    ends: NDArray[np.int64] | None = None
    ids_high: NDArray[np.int64] | None = None
    settled_ids_high: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        """Return n, the number of transfers."""
        return len(self.sent)


@dataclass(frozen=True)
class TailBatch:
    """Sums over the records that a growing file gained since the last look.

    Attributes:
        count: Number of transfers.
        first_time: Time of the first of them, the send time for a sender and the
            receive time for a receiver; None where there is none.
        last_time: The same of the last.
        latency_sum: Sum of the latencies (signed, in ``time_unit``); 0 for a sender.
        settled: Number of settlements.
        malformed: Number of whole lines that are no record.
        time_unit: ``"ms"``, ``"us"`` or ``"ns"``; ``"ms"`` until the first record.
        body_bytes: Bytes of bodies in streaming mode.
        sampled: Number of ``S`` lines whose send is known, if the tail joins them.
        sampled_sum: Sum of their settlement latencies (in ``time_unit``).
    """

    count: int
    first_time: int | None
    last_time: int | None
    latency_sum: int
    settled: int
    malformed: int
    time_unit: str
    body_bytes: int = 0
    sampled: int = 0
    sampled_sum: int = 0


@dataclass(frozen=True, eq=False)
class RunBatch:
    """Run-length records of a part of a file, without loss, in the file's order.

    A run is ``count`` transfers, one after the other, with equal times and, where there
    are ids, with ids that count up by one: ``ids[i]``, ``ids[i] + 1``, ... Settlements
    form runs of their own in the same way. A hash is a run of one. n and m are at most 32,768.

    Times and ids are those of :class:`Transfers`.

    Attributes:
        record_format: ``"v1"``, ``"v2"`` or ``"v3"``; None where no line has told it yet
            and the caller did not.
        operation: ``"send"`` or ``"receive"``; None likewise.
        sent: int64[n], send times.
        received: int64[n], receive times; None unless the operation is receive.
        count: int64[n], transfers in each run, at least 1.
        ids: int64[n], the first id of each run; None for v3.
        settled_ids: int64[m], the first id of each run of settlements.
        settled_times: int64[m], settlement times.
        settled_sampled: bool[m], whether the lines had the prefix ``S``.
        settled_count: int64[m], settlements in each run, at least 1.
        ids_hashed: Whether some id, up to here, is a hash; an empty one is none.
        lines: Number of whole lines, malformed ones included, of this batch.
        malformed: Number of those that are no record of this format and operation.
        first_malformed: Number (from 1, where the scan began) and beginning of the first
            malformed line up to here, or None.
        truncated: Whether the scan ended within a line or within a zstd frame.
        streamed: The lines of streaming mode in this batch; None without any.
        ends: int64[n], as of :class:`Transfers`; a run is of one end.
        next_end: The end that the lines behind those parsed so far are of; -1 where none was told.
        ids_high: int64[n], likewise.
        settled_ids_high: int64[m], likewise.
        id_texts: The ids that are hashes, in order; None without any, or where they are not
            kept. Batches made of some rows of another have all of them.
        settled_id_texts: Those of the settlements likewise.
    """

    record_format: str | None
    operation: str | None
    sent: NDArray[np.int64]
    received: NDArray[np.int64] | None
    count: NDArray[np.int64]
    ids: NDArray[np.int64] | None
    settled_ids: NDArray[np.int64]
    settled_times: NDArray[np.int64]
    settled_sampled: NDArray[np.bool_]
    settled_count: NDArray[np.int64]
    ids_hashed: bool
    lines: int
    malformed: int
    first_malformed: tuple[int, str] | None
    truncated: bool
    streamed: Streamed | None = None
    ends: NDArray[np.int64] | None = None
    next_end: int = -1
    ids_high: NDArray[np.int64] | None = None
    settled_ids_high: NDArray[np.int64] | None = None
    id_texts: list[bytes] | None = None
    settled_id_texts: list[bytes] | None = None

    def __len__(self) -> int:
        """Return n, the number of runs of transfers."""
        return len(self.sent)

    def only(self, rows: NDArray[np.bool_] | NDArray[np.intp]) -> RunBatch:
        """Return the batch with some of its runs of transfers, by mask or by number."""
        return replace(
            self,
            sent=self.sent[rows],
            received=None if self.received is None else self.received[rows],
            count=self.count[rows],
            ends=None if self.ends is None else self.ends[rows],
            ids=None if self.ids is None else self.ids[rows],
            ids_high=None if self.ids_high is None else self.ids_high[rows],
        )
