"""Facts straight from the text, where no message has to meet one of another split.

A task folds its split as the local backend does a file, so that a table of seconds by
latencies leaves it and no row of a message or run. Facts that depend on the splits before
are apart: whether a receipt is behind an earlier one of another split is looked at again
only where a split begins with one that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.figures.run_filter import Sieve
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.read.local import analyze_runs
from quiver_fast.analysis.tables.order import ClockTimes, Order
from quiver_fast.records import formats
from quiver_fast.records.transfers import RunBatch, Streamed
from spark_analysis import fact_names, schema
from spark_analysis.columns import together
from spark_analysis.files import RecordFile, Split, by_splits

_FACTS = schema.to_arrow(schema.FACTS)
# A fact of each split, for the order of the receipts over splits.
_FIRST_STAMP = "first stamp"
# Runs in one batch, as the parser has it.
_BATCH_RUNS = 1 << 15

# Where a split begins: its run, its arrow and its place in the file.
_Place = tuple[str, str, int]


@contextmanager
def folded_facts(
    spark: SparkSession, splits: Sequence[Split], bounds: Mapping[str, RunBounds]
) -> Iterator[DataFrame]:
    """Give rows of ``FACTS``; those that add up are not yet added up over splits.

    They are kept while the context lasts. Only two rows of a split come to the driver.

    Args:
        spark: the session.
        splits: of files that :func:`.files.can_be_folded`, in the order of each file.
        bounds: the bounds of each run, by its name.
    """
    by_place = {(split.file.run, split.file.arrow, split.start): split for split in splits}
    folded = by_splits(spark, splits, lambda one: _fold(one, one.records(), bounds), schema.FACTS)
    kept = [folded.persist()]
    try:
        again = _begin_behind(_stamps(folded), {})
        if again:
            late = by_splits(
                spark,
                [by_place[place] for place in again],
                lambda one: _count_behind(one, one.records(), bounds, again),
                schema.FACTS,
            )
            kept.append(late.persist())
        yield together(kept)
    finally:
        for table in kept:
            table.unpersist()


@contextmanager
def folded_records(
    records: DataFrame,
    files: Sequence[RecordFile],
    bounds: Mapping[str, RunBounds],
    tops: Mapping[tuple[str, str], int],
) -> Iterator[DataFrame]:
    """Give the facts of :func:`folded_facts`, of records that were read before.

    Args:
        records: rows of ``RECORDS`` of runs that can be folded; a task has whole splits.
        files: the files that they are from.
        bounds: the bounds of each run, by its name.
        tops: by run and arrow, the largest send time of a receiver's records before these.
    """
    of_number = {file.number: file for file in files}

    def facts(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for split, found in _by_split(batches, of_number):
            yield from _fold(split, found, bounds)

    kept = [records.mapInArrow(facts, schema.FACTS).persist()]
    try:
        again = _begin_behind(_stamps(kept[0]), tops)

        def late(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for split, found in _by_split(batches, of_number):
                if (split.file.run, split.file.arrow, split.start) in again:
                    yield from _count_behind(split, found, bounds, again)

        if again:
            kept.append(records.mapInArrow(late, schema.FACTS).persist())
        yield together(kept)
    finally:
        for table in kept:
            table.unpersist()


def top_stamps(facts: DataFrame) -> dict[tuple[str, str], int]:
    """Return the largest send time of each receiver whose splits were folded."""
    tops = facts.where(F.col("fact") == fact_names.TOP).groupBy("run", "arrow")
    return {
        (row.run, row.arrow): row.top for row in tops.agg(F.max("value").alias("top")).collect()
    }


def _by_split(
    batches: Iterator[pa.RecordBatch], files: Mapping[int, RecordFile]
) -> Iterator[tuple[Split, Iterator[RunBatch]]]:
    """Yield each split with its records, which are to be taken before the next."""
    pieces = (piece for batch in batches for piece in _pieces(batch))
    for (number, start), of_split in groupby(pieces, key=itemgetter(0)):
        file = files[number]
        yield Split(file, start, start), (_as_runs(rows, file) for _, rows in of_split)


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[tuple[int, int], pa.RecordBatch]]:
    """Yield parts of a batch with the number of their file and the place of their split."""
    if batch.num_rows == 0:
        return
    columns = [batch.column(name).to_numpy() for name in ("file", "split")]
    fresh = np.zeros(batch.num_rows, np.bool_)
    fresh[::_BATCH_RUNS] = True
    for column in columns:
        fresh[1:] |= np.diff(column) != 0
    starts = np.flatnonzero(fresh).tolist()
    for start, end in pairwise([*starts, batch.num_rows]):
        key = int(columns[0][start]), int(columns[1][start])
        yield key, batch.slice(start, end - start)


def _as_runs(rows: pa.RecordBatch, file: RecordFile) -> RunBatch:
    """Return rows of ``RECORDS`` of a file without ids as the parser gave them."""
    kind = rows.column("kind")
    transfers, streams, bad, cut, extents = (
        rows.filter(pc.equal(kind, name))
        for name in (schema.TRANSFER, schema.STREAM, schema.BAD, schema.TRUNCATED, schema.EXTENT)
    )
    nothing = np.zeros(0, np.int64)
    first = [(row["position"], row["text"]) for row in extents.to_pylist() if row["text"]]
    sends = file.operation == formats.SEND
    return RunBatch(
        record_format=file.record_format,
        operation=file.operation,
        sent=_numbers(transfers, "sent"),
        received=None if sends else _numbers(transfers, "received"),
        count=_numbers(transfers, "n"),
        ids=None,
        settled_ids=nothing,
        settled_times=nothing,
        settled_sampled=nothing.astype(np.bool_),
        settled_count=nothing,
        ids_hashed=False,
        lines=int(_numbers(extents, "n").sum()),
        malformed=int(_numbers(bad, "n").sum()),
        first_malformed=first[0] if first else None,
        truncated=cut.num_rows > 0,
        streamed=_streamed(streams) if streams.num_rows else None,
    )


def _streamed(rows: pa.RecordBatch) -> Streamed:
    sent, first, time, size = (
        _numbers(rows, name) for name in ("sent", "received", "settled", "n")
    )
    whole = rows.column("sampled").to_numpy(zero_copy_only=False).astype(np.bool_)
    return Streamed(sent=sent, first=first, time=time, whole=whole, size=size)


def _numbers(rows: pa.RecordBatch, name: str) -> Int64Array:
    numbers: Int64Array = rows.column(name).to_numpy(zero_copy_only=False)
    return numbers


def _fold(
    split: Split, batches: Iterator[RunBatch], bounds: Mapping[str, RunBounds]
) -> Iterator[pa.RecordBatch]:
    run = bounds[split.file.run]
    stamps, sieve, clock = _Stamps(), Sieve(run), ClockTimes()
    own = _own(split, _timed(batches, clock), sieve)
    found = analyze_runs(stamps.watched(own), unit=split.file.unit)
    yield from _histogram(split, found)
    place = split.start
    streams = found.streams
    one: list[tuple[str, int | None, int | None, int | None, str | None]] = [
        (fact_names.LINES, place, stamps.lines, None, None),
        (fact_names.FIRST, place, found.first_time, None, None),
        (fact_names.LAST, place, found.last_time, None, None),
        (fact_names.LOWEST, place, clock.lowest, None, None),
        (fact_names.HIGHEST, place, clock.highest, None, None),
        (fact_names.SET_BACK, place, clock.set_back or None, None, None),
        (_FIRST_STAMP, place, stamps.first, None, None),
        (fact_names.TOP, place, stamps.top, None, None),
        (fact_names.MALFORMED, None, None, found.malformed, None),
        (fact_names.TRUNCATED, None, None, int(found.truncated), None),
        (fact_names.REORDERED, None, None, found.reordered, None),
        (fact_names.OLDER, None, None, sieve.older, None),
    ]
    if streams is not None:
        for part in streams.first_byte.parts():
            yield _batch(split, fact_names.FIRST_BYTE, None, part.values, part.counts)
        one.append((fact_names.BODY_BYTES, None, None, streams.body_bytes, None))
        one.append((fact_names.STREAM_START, place, streams.start, None, None))
        one.append((fact_names.STREAM_END, place, streams.end, None, None))
    if found.first_malformed is not None:
        line, text = found.first_malformed
        one.append((fact_names.FIRST_BAD, place, line, None, text))
    rows = [row for row in one if row[2] is not None or row[3] is not None]
    facts, seconds, values, counts, texts = zip(*rows, strict=True)
    yield _batch(split, facts, seconds, values, counts, texts)


def _timed(batches: Iterator[RunBatch], clock: ClockTimes) -> Iterator[RunBatch]:
    for batch in batches:
        clock.add(batch.sent if batch.received is None else batch.received)
        yield batch


def _own(split: Split, batches: Iterator[RunBatch], sieve: Sieve) -> Iterator[RunBatch]:
    return (sieve.own(batch, split.file.unit) for batch in batches)


def _histogram(split: Split, found: FileAnalysis) -> Iterator[pa.RecordBatch]:
    if found.histogram is not None:
        for part in found.histogram.parts():
            columns = (part.seconds, part.latencies, part.counts)
            yield _batch(split, fact_names.LATENCY, *columns)
    else:
        yield _batch(split, fact_names.SENT, found.seconds.values, None, found.seconds.counts)


class _Stamps:
    """Counts over one split: its lines, and the first and the largest send time."""

    def __init__(self) -> None:
        self.lines = 0
        self.first: int | None = None
        self.top: int | None = None

    def watched(self, batches: Iterator[RunBatch]) -> Iterator[RunBatch]:
        for batch in batches:
            self.lines += batch.lines
            if len(batch):
                self.first = int(batch.sent[0]) if self.first is None else self.first
                self.top = max(int(batch.sent.max()), self.top or 0)
            yield batch


def _stamps(facts: DataFrame) -> pa.Table:
    return facts.where(F.col("fact").isin(_FIRST_STAMP, fact_names.TOP)).toArrow()


def _begin_behind(stamps: pa.Table, tops: Mapping[tuple[str, str], int]) -> dict[_Place, int]:
    """Return the splits whose first send time is below an earlier one's, and which that is.

    Args:
        stamps: the first and the largest send times of splits.
        tops: by run and arrow, the largest send time before these splits.
    """
    firsts, largest = (_by_place(stamps, fact) for fact in (_FIRST_STAMP, fact_names.TOP))
    before = dict(tops)
    found = {}
    for place in sorted(largest):
        run, arrow, _ = place
        top = before.get((run, arrow))
        if top is not None and firsts[place] < top:
            found[place] = top
        before[run, arrow] = largest[place] if top is None else max(top, largest[place])
    return found


def _by_place(table: pa.Table, fact: str) -> dict[_Place, int]:
    rows = table.filter(pc.equal(table["fact"], fact)).to_pylist()
    return {(row["run"], row["arrow"], row["second"]): row["value"] for row in rows}


def _count_behind(
    split: Split,
    batches: Iterator[RunBatch],
    bounds: Mapping[str, RunBounds],
    tops: Mapping[_Place, int],
) -> Iterator[pa.RecordBatch]:
    """Count the receipts that are behind only because of the splits before."""
    alone, after = Order(), Order()
    top = tops[split.file.run, split.file.arrow, split.start]
    after.add(np.array([top]), None, None)
    for batch in _own(split, batches, Sieve(bounds[split.file.run])):
        for order in (alone, after):
            order.add(batch.sent, None, batch.count)
    yield _batch(split, fact_names.REORDERED, None, None, [after.behind - alone.behind])


def _batch(
    split: Split,
    fact: str | Sequence[str],
    seconds: Int64Array | Sequence[int | None] | None,
    values: Int64Array | Sequence[int | None] | None,
    counts: Int64Array | Sequence[int | None],
    texts: Sequence[str | None] | None = None,
) -> pa.RecordBatch:
    size = len(counts)
    words = [split.file.run, split.file.arrow, fact]
    arrays = [
        pa.repeat(pa.scalar(word), size) if isinstance(word, str) else pa.array(word)
        for word in words
    ]
    kinds = [field.type for field in _FACTS][3:]
    for column, kind in zip((seconds, values, counts, texts), kinds, strict=True):
        arrays.append(pa.nulls(size, kind) if column is None else pa.array(column, kind))
    return pa.RecordBatch.from_arrays(arrays, schema=_FACTS)
