"""From files to ``RECORDS``: an executor parses each split into rows of ``PARSED``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.tables.order import ClockTimes
from quiver_fast.errors import RecordError
from quiver_fast.records.formats import shown_line
from quiver_fast.records.layout import line_fault
from quiver_fast.records.splits import known_ends
from quiver_fast.records.transfers import RunBatch, Streamed
from spark_analysis import schema
from spark_analysis.bad_lines import bad_lines
from spark_analysis.files import SPLIT_SIZE, RecordFile, Split, by_splits, splits_of
from spark_analysis.selection import EVERYTHING, Selection
from spark_analysis.settlement_join import Sends, Settled, SplitJoin

Columns = dict[str, Any]

_BATCH_ROWS = 1 << 16
_LOOK_BACK = 1 << 20
_SETTLEMENTS = (schema.SETTLED, schema.UNSETTLED, schema.UNMATCHED)


def read_records(
    spark: SparkSession, files: Sequence[RecordFile], split_size: int = SPLIT_SIZE
) -> DataFrame:
    """Return the rows of ``RECORDS`` of all ``files``, read in parallel and lazily.

    Args:
        spark: the session; its executors see the files by the same paths.
        files: the files.
        split_size: bytes of text of each split, about.

    Raises:
        OSError: a file cannot be read.
        RecordError: compressed data is damaged.
    """
    splits = [split for file in files for split in splits_of(file, split_size)]
    return by_splits(spark, splits, as_records, schema.RECORDS)


def as_records(split: Split, wanted: Selection = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """Yield a split's rows of ``PARSED`` with the columns that make them ``RECORDS``.

    Args:
        split: the split.
        wanted: which of its rows and columns.
    """
    fixed = split.file.columns
    fields = [field for field in schema.RECORDS_ARROW if field.name in wanted.needed]
    for batch in parse_split(split, wanted):
        columns = [
            batch.column(field.name)
            if field.name in batch.schema.names
            else pa.repeat(pa.scalar(fixed[field.name], field.type), batch.num_rows)
            for field in fields
        ]
        rows = wanted.rows(pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields)))
        if rows.num_rows:
            yield rows


def parse_split(split: Split, wanted: Selection = EVERYTHING) -> Iterator[pa.RecordBatch]:
    """Yield the records of a split as rows of ``PARSED``.

    Settlements are joined with their sends here, so that only those at the edges of
    splits are left for a shuffle.

    Args:
        split: the split.
        wanted: which kinds and columns to make; its other filters are not applied.

    Raises:
        OSError: the file cannot be read.
        RecordError: compressed data is damaged, or a line is no record and ``wanted`` does not
            allow that.
    """
    for rows in _gathered(_parse(split, wanted)):
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            yield rows.slice(start, _BATCH_ROWS)


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


def _parse(split: Split, wanted: Selection) -> Iterator[pa.RecordBatch]:
    rows, kinds = _Rows(split, wanted), wanted.kinds
    joining = SplitJoin() if any(kind in kinds for kind in _SETTLEMENTS) else None
    lines = malformed = transfers = 0
    truncated = False
    first_bad: tuple[int, str] | None = None
    times: list[int] = []
    clock = ClockTimes()
    some_id: int | None = None
    hashed = False
    end_before = _end_before(split)
    for scanned in split.records():
        batch, end_before = known_ends(scanned, end_before)
        if wanted.fail_fast and batch.first_malformed is not None:
            raise RecordError(_bad_line(split, *batch.first_malformed))
        if len(batch):
            if schema.TRANSFER in kinds:
                yield rows.transfers(batch, transfers)
            own = batch.sent if batch.received is None else batch.received
            times = [times[0] if times else int(own[0]), int(own[-1])]
            clock.add(own)
            transfers += int(batch.count.sum())
            some_id = None if batch.ids is None else int(batch.ids[0])
        if joining is not None and batch.ids is not None and batch.received is None:
            joining.add(batch)
        if batch.streamed is not None and schema.STREAM in kinds:
            yield rows.streamed(batch.streamed)
        lines += batch.lines
        malformed += batch.malformed
        truncated |= batch.truncated
        hashed |= batch.ids_hashed
        first_bad = first_bad or batch.first_malformed
    if joining is not None:
        yield from _settled(rows, joining, kinds)
    if malformed and schema.BAD in kinds:
        yield rows.bad(_bad_lines(split), malformed)
    if truncated and schema.TRUNCATED in kinds:
        yield rows.truncated(lines)
    if clock.set_back and schema.CLOCK in kinds:
        yield rows.clock(clock)
    if schema.EXTENT in kinds:
        yield rows.extent(lines, times, (some_id, hashed), first_bad)


def _end_before(split: Split) -> int:
    """Return the end that wrote the line before a split; -1 of a file that does not tell.

    Arrows tell it after each flush, so that little is read for it.
    """
    if split.file.members == 1 or split.start == 0:
        return -1
    before = [one for one in splits_of(split.file, _LOOK_BACK) if one.start < split.start]
    for one in reversed(before):
        *_, last = replace(one, end=min(one.end, split.start)).records()
        if last.next_end >= 0:
            return last.next_end
    return -1


def _bad_lines(split: Split) -> list[tuple[int, str]]:
    file = split.file
    how = (file.scanned_format, file.operation, file.unit)
    with tempfile.NamedTemporaryFile(prefix="quiver-split-") as text:
        return list(bad_lines(split.place, split.start, split.end, *how, text))


def _bad_line(split: Split, line: int, text: str) -> str:
    """Say where a bad line is; lines before the split are not counted."""
    where = f" after byte {split.start}" if split.start else ""
    file = split.file
    fault = line_fault(text, file.record_format, file.operation, file.unit)
    why = "" if fault is None else f" ({fault})"
    return f"{file.path}: line {line}{where} is no record: {shown_line(text)}{why}"


def _settled(rows: _Rows, joining: SplitJoin, kinds: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield pairs of sends and settlements, and those that have no other half here."""
    for part in joining.parts():
        if len(part.found) and schema.SETTLED in kinds:
            yield rows.settled(part.found, part.sent)
        if len(part.late) and schema.UNMATCHED in kinds:
            yield rows.unmatched(part.late)
        if len(part.left.firsts) and schema.UNSETTLED in kinds:
            yield rows.unsettled(part.left)


class _Rows:
    """Makes rows of ``PARSED`` for one split."""

    def __init__(self, split: Split, wanted: Selection) -> None:
        self._fixed = {"file": split.file.number, "split": split.start}
        fields = [field for field in schema.PARSED_ARROW if field.name in wanted.needed]
        self._schema = pa.schema(fields)

    def transfers(self, batch: RunBatch, before: int) -> pa.RecordBatch:
        return self._batch(
            schema.TRANSFER,
            position=before + np.cumsum(batch.count) - batch.count,
            id=batch.ids,
            id_high=_null_of_numbers(batch.ids_high),
            sent=batch.sent,
            received=batch.received,
            member=batch.ends,
            n=batch.count,
        )

    def settled(self, found: Settled, sent: Int64Array) -> pa.RecordBatch:
        return self._batch(
            schema.SETTLED,
            position=np.arange(len(found)),
            **_halves(found.ids),
            sent=sent,
            settled=found.times,
            sampled=found.sampled,
            n=found.lengths.view(np.int64),
        )

    def unmatched(self, late: Settled) -> pa.RecordBatch:
        return self._batch(
            schema.UNMATCHED,
            position=np.arange(len(late)),
            **_halves(late.ids),
            settled=late.times,
            sampled=late.sampled,
            n=late.lengths.view(np.int64),
        )

    def unsettled(self, left: Sends) -> pa.RecordBatch:
        return self._batch(
            schema.UNSETTLED,
            position=np.arange(len(left.firsts)),
            **_halves(left.ids),
            sent=left.times,
            n=(left.ends - left.firsts).view(np.int64),
        )

    def streamed(self, lines: Streamed) -> pa.RecordBatch:
        """The body's first byte stands as received, and the line's own time as settled."""
        return self._batch(
            schema.STREAM,
            position=np.arange(len(lines)),
            sent=lines.sent,
            received=lines.first,
            settled=lines.time,
            sampled=lines.whole,
            n=lines.size,
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

    def clock(self, times: ClockTimes) -> pa.RecordBatch:
        return self._batch(
            schema.CLOCK,
            position=[0],
            sent=[times.lowest],
            received=[times.highest],
            n=[times.set_back],
        )

    def extent(
        self,
        lines: int,
        times: list[int],
        ids: tuple[int | None, bool],
        first_bad: tuple[int, str] | None,
    ) -> pa.RecordBatch:
        position, text = first_bad or (0, None)
        first, last = times or (None, None)
        some_id, hashed = ids
        return self._batch(
            schema.EXTENT,
            position=[position],
            id=[some_id],
            id_high=[-1 if hashed else None],
            sent=[first],
            received=[last],
            n=[lines],
            text=[text],
        )

    def _batch(self, kind: str, **columns: Any) -> pa.RecordBatch:
        size = len(columns["n"])
        values = {**columns, **{name: np.full(size, x) for name, x in self._fixed.items()}}
        values["kind"] = pa.repeat(pa.scalar(kind), size)
        return pa.RecordBatch.from_arrays(
            [_column(values.get(field.name), size, field.type) for field in self._schema],
            schema=self._schema,
        )


def _halves(ids: tuple[Int64Array | None, Int64Array]) -> Columns:
    high, low = ids
    return {"id": low, "id_high": _null_of_numbers(high)}


def _null_of_numbers(highs: Int64Array | None) -> pa.Array | None:
    return None if highs is None else pa.array(highs, pa.int64(), mask=highs == 0)


def _column(values: Any, size: int, kind: pa.DataType) -> pa.Array:
    if values is None:
        return pa.nulls(size, kind)
    return values if isinstance(values, pa.Array) else pa.array(values, kind)
