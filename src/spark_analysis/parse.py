"""One split of a file to rows of ``PARSED``: the work of an executor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from quiver_fast.records import formats
from quiver_fast.records.parser import read_transfers
from quiver_fast.records.transfers import Transfers
from spark_analysis import schema
from spark_analysis.splits import RecordFile, Split, Text, split_text

__all__ = ["parse_split"]

Int64Array = NDArray[np.int64]

# Bad lines are all counted; so many of a split are kept, so much of each.
_KEPT_LINES = 100
_EXCERPT = 200
_BATCH_ROWS = 1 << 16


def parse_split(split: Split) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split as rows of ``PARSED``.

    _Settlements are joined with their sends here, so that only those at the edges of
    splits are left for a shuffle.

    Raises:
        OSError: the file cannot be read.
        RecordError: zstd data is damaged.
    """
    yield from _gathered(_parse(split))


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join small batches: each costs a message from Python to Spark."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(batch.num_rows for batch in waiting) >= _BATCH_ROWS:
            yield pa.concat_batches(waiting)
            waiting.clear()
    if waiting:
        yield pa.concat_batches(waiting)


def _parse(split: Split) -> Iterator[pa.RecordBatch]:
    rows = _Rows(split)
    pending = _Pending()
    lines = transfers = kept = 0
    with _Memory() as memory:
        for text in split_text(split):
            parsed = memory.parse(text, split.file)
            yield from rows.transfers(parsed, transfers)
            transfers += len(parsed)
            settled = _settlements(parsed)
            if parsed.ids is not None and settled is not None:
                yield from rows.settlements(*pending.settle(parsed.ids, parsed.sent, settled))
            if parsed.malformed:
                bad = _bad_lines(text, split, lines, _KEPT_LINES - kept)
                kept += len(bad)
                yield rows.bad(bad, parsed.malformed)
            if parsed.truncated:
                yield rows.truncated(lines)
            lines += len(parsed) + parsed.malformed + (0 if settled is None else len(settled.ids))
    yield from rows.unmatched(pending)


def _settlements(parsed: Transfers) -> _Settlements | None:
    ids, times, sampled = parsed.settled_ids, parsed.settled_times, parsed.settled_sampled
    if ids is None or times is None or sampled is None:
        return None
    return _Settlements(ids, times, sampled.astype(np.bool_))


class _Memory:
    """A file in memory for the parser, which reads files; its pages are used again."""

    def __init__(self) -> None:
        self._file = os.memfd_create("quiver-split", os.MFD_CLOEXEC)

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_exception: object) -> None:
        os.close(self._file)

    def parse(self, text: Text, file: RecordFile) -> Transfers:
        os.lseek(self._file, 0, os.SEEK_SET)
        size = sum(_write(self._file, part) for part in text)
        os.ftruncate(self._file, size)
        return read_transfers(
            f"/proc/self/fd/{self._file}",
            record_format=_format(file),
            operation=file.operation,
        )


def _format(file: RecordFile) -> str | None:
    """v1 and v2 differ in nothing but settlements, which may come at any time."""
    if file.operation == formats.SEND and file.record_format == formats.V1:
        return formats.V2
    return file.record_format


def _write(file: int, data: bytes | memoryview) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    return len(data)


def _bad_lines(text: Text, split: Split, before: int, limit: int) -> list[tuple[int, str]]:
    """Return number in the split (from 0) and beginning of the first bad lines."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(b"".join(text).split(b"\n")[:-1]):
        if len(found) >= limit:
            break
        if _is_bad(line, split.file):
            found.append((before + number, line[:_EXCERPT].decode("utf-8", "backslashreplace")))
    return found


def _is_bad(line: bytes, file: RecordFile) -> bool:
    record_format = _format(file)
    return record_format is None or formats.detect(line, record_format, file.operation) is None


@dataclass(frozen=True)
class _Settlements:
    """Settlement lines as columns of equal length."""

    ids: Int64Array
    times: Int64Array
    sampled: NDArray[np.bool_]

    def where(self, chosen: NDArray[np.bool_]) -> _Settlements:
        """Return those that ``chosen`` says."""
        return _Settlements(self.ids[chosen], self.times[chosen], self.sampled[chosen])


class _Pending:
    """Sends of a split without a settlement so far, and settlements without a send."""

    def __init__(self) -> None:
        self.sends: list[tuple[Int64Array, Int64Array]] = []
        self.settlements: list[_Settlements] = []

    def settle(
        self, ids: Int64Array, sent: Int64Array, settled: _Settlements
    ) -> tuple[Int64Array, Int64Array, NDArray[np.bool_]]:
        """Take a text's sends and settlements; return (sent, settled, sampled) of pairs."""
        self.sends.append((ids, sent))
        if len(settled.ids) == 0:
            return settled.ids, settled.times, settled.sampled
        ids, sent = self._sorted_sends()
        places = np.searchsorted(ids, settled.ids)
        found = np.zeros(len(places), np.bool_)
        inside = places < len(ids)
        found[inside] = ids[places[inside]] == settled.ids[inside]
        unsettled = np.ones(len(ids), np.bool_)
        unsettled[places[found]] = False
        self.sends = [(ids[unsettled], sent[unsettled])]
        if not found.all():
            self.settlements.append(settled.where(~found))
        paired = settled.where(found)
        return sent[places[found]], paired.times, paired.sampled

    def _sorted_sends(self) -> tuple[Int64Array, Int64Array]:
        ids = np.concatenate([ids for ids, _ in self.sends])
        sent = np.concatenate([sent for _, sent in self.sends])
        if np.all(ids[1:] >= ids[:-1]):
            return ids, sent
        order = np.argsort(ids, kind="stable")
        return ids[order], sent[order]


class _Rows:
    """Makes rows of ``PARSED`` for one split."""

    def __init__(self, split: Split) -> None:
        self._fixed = {"file": split.file.number, "split": split.start}

    def transfers(self, parsed: Transfers, before: int) -> Iterator[pa.RecordBatch]:
        if len(parsed) == 0:
            return
        columns = [parsed.sent]
        if parsed.received is not None:
            columns.append(parsed.received)
        if parsed.ids is not None:
            # Ids that count up by one have one difference to their place.
            columns.append(parsed.ids - np.arange(len(parsed)))
        starts, n = _runs(columns)
        yield self._batch(
            schema.TRANSFER,
            position=starts + before,
            id=None if parsed.ids is None else parsed.ids[starts],
            sent=parsed.sent[starts],
            received=None if parsed.received is None else parsed.received[starts],
            n=n,
        )

    def settlements(
        self, sent: Int64Array, settled: Int64Array, sampled: NDArray[np.bool_]
    ) -> Iterator[pa.RecordBatch]:
        if len(sent) == 0:
            return
        starts, n = _runs([sent, settled, sampled])
        yield self._batch(
            schema.SETTLED,
            position=starts,
            sent=sent[starts],
            settled=settled[starts],
            sampled=sampled[starts],
            n=n,
        )

    def unmatched(self, pending: _Pending) -> Iterator[pa.RecordBatch]:
        for late in pending.settlements:
            yield self._batch(
                schema.UNMATCHED,
                position=np.arange(len(late.ids)),
                id=late.ids,
                settled=late.times,
                sampled=late.sampled,
                n=np.ones(len(late.ids), np.int64),
            )
        for ids, sent in pending.sends:
            if len(ids) == 0:
                continue
            starts, n = _runs([sent, ids - np.arange(len(ids))])
            yield self._batch(
                schema.UNSETTLED, position=starts, id=ids[starts], sent=sent[starts], n=n
            )

    def bad(self, lines: list[tuple[int, str]], count: int) -> pa.RecordBatch:
        """The kept lines count one each, and a row without text the others."""
        others = count - len(lines)
        numbers = [number for number, _ in lines] + [-1] * (others > 0)
        texts: list[str | None] = [text for _, text in lines]
        return self._batch(
            schema.BAD,
            position=np.array(numbers, np.int64),
            n=np.array([1] * len(lines) + [others] * (others > 0), np.int64),
            text=texts + [None] * (others > 0),
        )

    def truncated(self, lines: int) -> pa.RecordBatch:
        return self._batch(schema.TRUNCATED, position=np.array([lines]), n=np.array([1]))

    def _batch(self, kind: str, **columns: Any) -> pa.RecordBatch:
        size = len(columns["n"])
        values = {**columns, **{name: _repeated(x, size) for name, x in self._fixed.items()}}
        values["kind"] = pa.repeat(pa.scalar(kind), size)
        return pa.RecordBatch.from_arrays(
            [_column(values.get(field.name), size, field.type) for field in schema.PARSED_ARROW],
            schema=schema.PARSED_ARROW,
        )


def _runs(columns: list[NDArray[Any]]) -> tuple[Int64Array, Int64Array]:
    """Return where runs of equal neighbours begin, and their lengths. Not empty."""
    fresh = np.zeros(len(columns[0]), np.bool_)
    fresh[0] = True
    for column in columns:
        fresh[1:] |= column[1:] != column[:-1]
    starts = np.flatnonzero(fresh)
    return starts, np.diff(starts, append=len(fresh))


def _repeated(value: int, size: int) -> Int64Array:
    return np.full(size, value, np.int64)


def _column(values: Any, size: int, kind: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(size, kind)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)
