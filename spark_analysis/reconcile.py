"""Comparing the sends and receipts of a range of keys: the work of an executor.

Messages stay runs of ids, which the arithmetic of :mod:`quiver_fast.analysis.key_runs`
compares without looking at one of them; the counts of all ranges add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql.types import LongType, StringType, StructField, StructType

from quiver_fast.analysis.id_table import IdTable, balance
from quiver_fast.analysis.key_runs import as_keys, disjoint, split_at
from quiver_fast.analysis.ticks import Ticks
from spark_analysis.schema import to_arrow
from spark_analysis.settling import located

__all__ = ["RECONCILED", "RESULT", "count_ids", "reconcile"]

# With a name, n of what it names. Without one, arrivals of messages that were sent:
# ``length`` of them from (file, split, position) of the receiver on, ``n`` times each. They
# were sent by ``source`` from (send_split, value) on; without ids, at the time ``value``.
RECONCILED = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("name", StringType()),
        StructField("source", LongType()),
        StructField("file", LongType()),
        StructField("split", LongType()),
        StructField("position", LongType()),
        StructField("send_split", LongType()),
        StructField("value", LongType()),
        StructField("length", LongType()),
        StructField("n", LongType(), nullable=False),
    ]
)
RESULT = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("arrow", StringType(), nullable=False),
        StructField("n", LongType(), nullable=False),
    ]
)
_RECONCILED = to_arrow(RECONCILED)
_RESULT = to_arrow(RESULT)

# Rows that are compared at a time, where ranges allow.
_ENOUGH_ROWS = 1 << 17

Columns = dict[str, NDArray[Any]]


def reconcile(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compare sends and receipts that are sorted by run and range, whole ranges at a time."""
    for (run,), columns in _parts(batches, "run"):
        compare = _by_ids if columns["by_ids"][0] else _by_ticks
        counts, arrivals = compare(columns)
        names = {"name": list(counts), "n": np.array(list(counts.values()), np.int64)}
        yield _batch(_RECONCILED, {"run": run}, names)
        if len(arrivals["n"]):
            yield _batch(_RECONCILED, {"run": run}, arrivals)


def count_ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the different ids of rows that are sorted by arrow and range."""
    for (run, arrow), columns in _parts(batches, "run", "arrow"):
        ids = IdTable()
        ids.add(columns["key"], columns["n"])
        yield _batch(_RESULT, {"run": run, "arrow": arrow}, {"n": [ids.distinct]})


def _parts(
    batches: Iterator[pa.RecordBatch], *keys: str
) -> Iterator[tuple[tuple[str, ...], Columns]]:
    """Yield whole ranges, many at a time, of one value of ``keys``."""
    for table in _whole_ranges(batches, *keys):
        starts = _changes(table, keys)
        for start, end in zip(starts, [*starts[1:], table.num_rows], strict=True):
            part = table.slice(start, end - start)
            columns = {
                name: part.column(name).to_numpy(zero_copy_only=False)
                for name in part.schema.names
                if name not in keys
            }
            yield tuple(part.column(key)[0].as_py() for key in keys), columns


def _whole_ranges(batches: Iterator[pa.RecordBatch], *keys: str) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    enough = _ENOUGH_ROWS
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) < enough:
            continue
        rows = pa.concat_batches(waiting)
        last = _changes(rows, (*keys, "range"))[-1]
        if last > 0:
            yield rows.slice(0, last)
        waiting = [rows.slice(last)]
        # A range that does not end is not looked at again before it has doubled.
        enough = max(_ENOUGH_ROWS, 2 * waiting[0].num_rows)
    if waiting:
        rows = pa.concat_batches(waiting)
        if rows.num_rows:
            yield rows


def _changes(rows: pa.RecordBatch, keys: tuple[str, ...]) -> list[int]:
    """Return where each series of rows with equal ``keys`` begins. Not for no rows."""
    fresh = np.zeros(rows.num_rows, np.bool_)
    fresh[0] = True
    for key in keys:
        column = rows.column(key)
        values = column.dictionary_encode().indices if key != "range" else column
        fresh[1:] |= np.diff(values.to_numpy()) != 0
    return [int(start) for start in np.flatnonzero(fresh)]


def _by_ids(columns: Columns) -> tuple[dict[str, int], Columns]:
    sends, receipts = _ends(columns)
    own = _where(receipts, receipts["own"])
    sent, received = IdTable(), IdTable()
    sent.add(sends["key"], sends["n"])
    received.add(own["key"], own["n"], own["negative"])
    found = balance(sent, received)
    counts = {
        "sent": int(sends["n"].sum()),
        "received": int(own["n"].sum()) - found.foreign,
        "older": int(receipts["n"].sum() - own["n"].sum()),
        "foreign": found.foreign,
        "unreceived": found.unreceived,
        "duplicate": found.duplicate,
        "negative_latency": found.negative_latency,
    }
    return counts, _first_arrivals(sends, own)


def _first_arrivals(sends: Columns, own: Columns) -> Columns:
    """Return where the ids that were sent arrived first, and from where they were sent."""
    firsts, lengths, origin, offset = disjoint(as_keys(sends["key"]), as_keys(sends["n"]))
    ends, keys = firsts + lengths, as_keys(own["key"])
    borders = np.unique(np.concatenate((firsts, ends)))
    pieces, sizes, of = split_at(keys, as_keys(own["n"]), borders)
    _, known = located(pieces, firsts, ends)
    pieces, of = pieces[known], of[known]
    # A duplicate is no reordering.
    first, size, piece, further = disjoint(pieces, sizes[known])
    of, within = of[piece], (pieces - keys[of])[piece] + further
    row, _ = located(first, firsts, ends)
    send = origin[row]
    return {
        "source": sends["file"][send].astype(np.int64),
        "file": own["file"][of].astype(np.int64),
        "split": own["split"][of],
        "position": own["position"][of] + within.astype(np.int64),
        "send_split": sends["split"][send],
        "value": sends["position"][send] + (offset[row] + first - firsts[row]).astype(np.int64),
        "length": size.astype(np.int64),
        "n": np.ones(len(first), np.int64),
    }


def _by_ticks(columns: Columns) -> tuple[dict[str, int], Columns]:
    sends, receipts = _ends(columns)
    timely = _where(receipts, receipts["own"])
    own = _where(timely, np.isin(timely["key"], sends["key"]))
    sent, received = Ticks(), Ticks()
    sent.add(sends["key"], sends["n"])
    received.add(own["key"], own["n"])
    unreceived, duplicate = sent.balance(received)
    found = {
        "sent": int(sends["n"].sum()),
        "received": int(own["n"].sum()),
        "older": int(receipts["n"].sum() - timely["n"].sum()),
        "foreign": int(timely["n"].sum() - own["n"].sum()),
        "unreceived": unreceived,
        "duplicate": duplicate,
        "negative_latency": int(own["n"][own["negative"]].sum()),
    }
    nothing = np.zeros(len(own["n"]), np.int64)
    arrivals = {
        "source": nothing,
        "file": own["file"].astype(np.int64),
        "split": own["split"],
        "position": own["position"],
        "send_split": nothing,
        "value": own["key"],
        "length": nothing + 1,
        "n": own["n"],
    }
    return found, arrivals


def _ends(columns: Columns) -> tuple[Columns, Columns]:
    """Return the sends and the receipts, each in the order of the records."""
    order = np.lexsort((columns["position"], columns["split"], columns["file"]))
    ordered = {name: values[order] for name, values in columns.items()}
    receipt = ordered["receipt"]
    return _where(ordered, ~receipt), _where(ordered, receipt)


def _where(columns: Columns, rows: NDArray[np.bool_]) -> Columns:
    return {name: values[rows] for name, values in columns.items()}


def _batch(schema: pa.Schema, fixed: dict[str, str], columns: dict[str, Any]) -> pa.RecordBatch:
    size = len(columns["n"])
    arrays = []
    for field in schema:
        if field.name in fixed:
            arrays.append(pa.repeat(pa.scalar(fixed[field.name]), size))
        elif field.name in columns:
            arrays.append(pa.array(columns[field.name], field.type))
        else:
            arrays.append(pa.nulls(size, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
