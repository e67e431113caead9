"""Facts straight from the text, where no message has to meet one of another split.

A task folds its split as the local engine does a file, so that a table of seconds by
latencies leaves it and no row of a message or run. What depends on the splits before is
told apart: whether a receipt is behind an earlier one of another split is looked at again
only where a split begins with one that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.bounds import RunBounds
from quiver_fast.analysis.distribution import Int64Array
from quiver_fast.analysis.local import FileAnalysis, analyze_runs
from quiver_fast.analysis.order import Order
from quiver_fast.analysis.own import Sieve
from quiver_fast.records.transfers import RunBatch
from spark_analysis import schema, transforms
from spark_analysis.files import RecordFile, Split
from spark_analysis.parse import scan_split
from spark_analysis.reading import by_splits

__all__ = ["can_be_folded", "folded_facts"]

_FACTS = schema.to_arrow(schema.FACTS)
# Facts of each split, for the order of the receipts over splits.
_FIRST_STAMP = "first stamp"
_TOP_STAMP = "top stamp"


def can_be_folded(files: Sequence[RecordFile]) -> bool:
    """Say whether no message of ``files`` has to meet another: no ids, and one end each."""
    runs = [file.run for file in files]
    return len(set(runs)) == len(runs) and not any(file.has_ids for file in files)


@contextmanager
def folded_facts(
    spark: SparkSession, splits: Sequence[Split], bounds: Mapping[str, RunBounds]
) -> Iterator[DataFrame]:
    """Give rows of ``FACTS``; those that add up are not yet added up over splits.

    They are kept while the context lasts. Only two rows of a split come to the driver.

    Args:
        spark: the session.
        splits: of files that :func:`can_be_folded`, in the order of each file.
        bounds: what is known of each run.
    """
    folded = by_splits(spark, splits, _folder(bounds), schema.FACTS).persist()
    try:
        stamps = folded.where(F.col("fact").isin(_FIRST_STAMP, _TOP_STAMP)).toArrow()
        again = _begin_behind(stamps, splits)
        if again:
            behind = _fold_behind(again, bounds)
            late = by_splits(spark, [split for split, _ in again], behind, schema.FACTS)
            yield folded.unionByName(late)
        else:
            yield folded
    finally:
        folded.unpersist()


def _folder(bounds: Mapping[str, RunBounds]) -> Callable[[Split], Iterator[pa.RecordBatch]]:
    return lambda split: _fold(split, bounds[split.file.run])


def _own(split: Split, sieve: Sieve) -> Iterator[RunBatch]:
    return (sieve.own(batch, split.file.unit) for batch in scan_split(split))


def _fold(split: Split, run: RunBounds) -> Iterator[pa.RecordBatch]:
    stamps, sieve = _Stamps(), Sieve(run)
    found = analyze_runs(stamps.watched(_own(split, sieve)), unit=split.file.unit)
    yield from _histogram(split, found)
    place = split.start
    streams = found.streams
    one: list[tuple[str, int | None, int | None, int | None, str | None]] = [
        (transforms.LINES, place, stamps.lines, None, None),
        (transforms.FIRST, place, found.first_time, None, None),
        (transforms.LAST, place, found.last_time, None, None),
        (_FIRST_STAMP, place, stamps.first, None, None),
        (_TOP_STAMP, place, stamps.top, None, None),
        (transforms.MALFORMED, None, None, found.malformed, None),
        (transforms.TRUNCATED, None, None, int(found.truncated), None),
        (transforms.REORDERED, None, None, found.reordered, None),
        (transforms.OLDER, None, None, sieve.older, None),
    ]
    if streams is not None:
        for part in streams.first_byte.parts():
            yield _batch(split, transforms.FIRST_BYTE, None, part.values, part.counts)
        one.append((transforms.BODY_BYTES, None, None, streams.body_bytes, None))
        one.append((transforms.STREAM_START, place, streams.start, None, None))
        one.append((transforms.STREAM_END, place, streams.end, None, None))
    if found.first_malformed is not None:
        line, text = found.first_malformed
        one.append((transforms.FIRST_BAD, place, line, None, text))
    rows = [row for row in one if row[2] is not None or row[3] is not None]
    facts, seconds, values, counts, texts = zip(*rows, strict=True)
    yield _batch(split, facts, seconds, values, counts, texts)


def _histogram(split: Split, found: FileAnalysis) -> Iterator[pa.RecordBatch]:
    if found.histogram is not None:
        for part in found.histogram.parts():
            columns = (part.seconds, part.latencies, part.counts)
            yield _batch(split, transforms.LATENCY, *columns)
    else:
        yield _batch(split, transforms.SENT, found.seconds.values, None, found.seconds.counts)


class _Stamps:
    """What passes by in a split: its lines, and the first and the largest send time."""

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


def _begin_behind(table: pa.Table, splits: Sequence[Split]) -> list[tuple[Split, int]]:
    """Return the receivers' splits whose first send time is below an earlier split's."""
    firsts, tops = (_by_place(table, fact) for fact in (_FIRST_STAMP, _TOP_STAMP))
    before: dict[str, int] = {}
    found = []
    for split in splits:
        place = (split.file.run, split.file.arrow, split.start)
        if place not in firsts:
            continue
        top = before.get(split.file.path)
        if top is not None and firsts[place] < top:
            found.append((split, top))
        before[split.file.path] = max(top or 0, tops[place])
    return found


def _by_place(table: pa.Table, fact: str) -> dict[tuple[str, str, int], int]:
    rows = table.filter(pc.equal(table["fact"], fact)).to_pylist()
    return {(row["run"], row["arrow"], row["second"]): row["value"] for row in rows}


def _fold_behind(
    again: Sequence[tuple[Split, int]], bounds: Mapping[str, RunBounds]
) -> Callable[[Split], Iterator[pa.RecordBatch]]:
    tops = {(split.file.number, split.start): top for split, top in again}

    def fold(split: Split) -> Iterator[pa.RecordBatch]:
        """Count what only the splits before make behind: all, less what was counted."""
        alone, after = Order(), Order()
        after.add(np.array([tops[split.file.number, split.start]]), None, None)
        for batch in _own(split, Sieve(bounds[split.file.run])):
            for order in (alone, after):
                order.add(batch.sent, None, batch.count)
        yield _batch(split, transforms.REORDERED, None, None, [after.behind - alone.behind])

    return fold


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
