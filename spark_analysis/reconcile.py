"""Comparing sends and receipts, a range of keys at a time: the work of executors.

Messages stay runs of ids, which the arithmetic of :mod:`quiver_fast.analysis.tables.key_runs`
compares without looking at one of them; the counts of all ranges add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.model.matching import Matching
from quiver_fast.analysis.tables.id_table import IdTable, balance
from quiver_fast.analysis.tables.key_runs import UInt64Array, as_keys, disjoint
from quiver_fast.analysis.tables.tally import located_pieces
from quiver_fast.analysis.tables.ticks import Ticks
from quiver_fast.records.ids import comparable
from spark_analysis import fact_names, schema
from spark_analysis.columns import ID_BITS, cut_at_ranges, id_high
from spark_analysis.schema import ARROW, as_facts

_RECONCILED = schema.to_arrow(schema.RECONCILED)
_RESULT = schema.to_arrow(schema.RESULT)

# The counts of :class:`.id_table.IdBalance` that add up over receivers.
_SUMMED = ("filtered", "unmatched", "duplicate", "negative_latency")
# Rows that are compared at a time, where ranges allow.
_ENOUGH_ROWS = 1 << 17
# A range of ticks is shorter than 2 to this power.
_GROUP_BITS = 32

Batches: TypeAlias = Iterator[pa.RecordBatch]
Columns = dict[str, Any]
Filters: TypeAlias = Mapping[str, Matching | None]
# Counts, the receipts of messages that were sent, and rows on the order of the messages.
_Compared = tuple[dict[str, int], Columns, list[Columns]]


def reconciled(rows: DataFrame, filters: Filters) -> DataFrame:
    """Return the rows of ``RECONCILED``, which are read more than once.

    Args:
        rows: :func:`.delivery.in_ranges` of all messages of runs with both ends.
        filters: those of the receivers of each run, by its name.
    """
    return by_ranges(rows, "run").mapInArrow(partial(_reconcile, filters), schema.RECONCILED)


def reconciled_ranges(
    rows: DataFrame, touched: Mapping[str, Set[int]] | None, filters: Filters
) -> DataFrame:
    """Return the rows of ``RECONCILED``, each with its range.

    Args:
        rows: :func:`.delivery.in_ranges` of all messages of these ranges.
        touched: the ranges of each run that are compared; None for all.
        filters: as of :func:`reconciled`.
    """
    made = _reconcile_ranges(touched, filters)
    return by_ranges(rows, "run").mapInArrow(made, schema.RECONCILED)


def filters_of(bounds: Mapping[str, RunBounds]) -> Filters:
    """Return the filters of the receivers of runs, by their names."""
    return {name: run.matching for name, run in bounds.items() if run.matching is not None}


def distinct_ids(records: DataFrame) -> DataFrame:
    """Return the facts of how many different ids receivers have.

    Args:
        records: of receivers.
    """
    rows = records.where((F.col("kind") == schema.TRANSFER) & F.col("id").isNotNull()).select(
        *ARROW, "position", F.lit(True).alias("by_ids"), F.col("id").alias("key"), "n",
        id_high().alias("high"), F.lit(ID_BITS).alias("bits"),
    )  # fmt: skip
    counted = by_ranges(cut_at_ranges(rows), *ARROW).mapInArrow(_count_ids, schema.RESULT)
    total = counted.groupBy(*ARROW).agg(F.sum("n").alias("n"))
    return as_facts(total, fact_names.DISTINCT_IDS, n=F.col("n"))


def by_ranges(rows: DataFrame, *keys: str) -> DataFrame:
    """Bring each range together, in the order of ``keys``, which have ranges of their own."""
    return rows.repartition(*keys, "range").sortWithinPartitions(*keys, "range")


def _reconcile(filters: Filters, batches: Batches) -> Batches:
    """Compare sends and receipts that are sorted by run and range, whole ranges at a time."""
    for (run,), columns in whole_parts(batches, "run"):
        yield from _compared(columns, {"run": run}, filters.get(run))


def _reconcile_ranges(
    touched: Mapping[str, Set[int]] | None, filters: Filters
) -> Callable[[Batches], Batches]:
    """Return a function like :func:`_reconcile` whose rows also name their range.

    Args:
        touched: the ranges of each run that are compared; None for all.
        filters: as of :func:`reconciled`.
    """

    def rows(batches: Batches) -> Batches:
        for (run,), columns in whole_parts(batches, "run"):
            starts = np.flatnonzero(_changed(columns, "range")).tolist()
            for start, end in pairwise([*starts, len(columns["n"])]):
                number = int(columns["range"][start])
                if touched is None or number in touched[run]:
                    part = {name: values[start:end] for name, values in columns.items()}
                    yield from _compared(part, {"run": run, "range": number}, filters.get(run))

    return rows


def _compared(columns: Columns, fixed: dict[str, str | int], matching: Matching | None) -> Batches:
    sends, receipts = _ends(columns)
    by_ids = columns["by_ids"][0]
    compare = partial(_by_ids, matching=matching) if by_ids else _by_ticks
    counts, own, tables = compare(sends, receipts)
    names = {"name": list(counts), "n": np.array(list(counts.values()), np.int64)}
    for table in (names, *tables, *_facts(receipts, own)):
        if len(table["n"]):
            yield _batch(_RECONCILED, fixed, table)


def _count_ids(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the different ids of rows that are sorted by arrow and range."""
    for (run, arrow), columns in whole_parts(batches, "run", "arrow"):
        ids = IdTable()
        ids.add(columns["key"], columns["n"])
        yield _batch(_RESULT, {"run": run, "arrow": arrow}, {"n": [ids.distinct]})


def whole_parts(
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
            # Within these ranges one number tells an id, also one that is a hash.
            (numbers,) = comparable((columns["range"], columns["key"]))
            columns["key"] = numbers.view(np.int64)
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
        # A range that does not end here is looked at again when it has doubled.
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


def _by_ids(sends: Columns, receipts: Columns, matching: Matching | None) -> _Compared:
    runs = _SendRuns(sends)
    own, row = runs.known(receipts)
    sent = IdTable()
    sent.add(sends["key"], sends["n"])
    counts = _counts(sends, own) | dict.fromkeys(_SUMMED, 0)
    copies = int(sends["copies"][0]) if "copies" in sends and len(sends["n"]) else 0
    arrivals = []
    # Receivers of copies are compared with the sends one by one.
    for part in _receivers(own) if copies else [np.arange(len(own["n"]))]:
        received, one = IdTable(), _where(own, part)
        received.add(one["key"], one["n"], one["latency"] < 0)
        found = balance(sent, received, matching)
        for name in _SUMMED:
            counts[name] += getattr(found, name)
        arrivals.append(runs.first_arrivals(one, row[part]))
    # For each receiver: unreceived - duplicate = sent - filtered - (received - unmatched).
    missing = (copies or 1) * counts["sent"] - counts["filtered"]
    missing -= counts["received"] - counts["unmatched"]
    return counts | {"unreceived": missing + counts["duplicate"]}, own, arrivals


def _receivers(own: Columns) -> list[NDArray[np.intp]]:
    """Return the places of the receipts of each receiver."""
    order = np.lexsort((np.arange(len(own["n"])), own["member"], own["file"]))
    fresh = _changed(_where(own, order), "file", "member")
    return np.split(order, np.flatnonzero(fresh)[1:])


class _SendRuns:
    """The sends of a range as runs of ids that ascend; of an id that was sent again, the first."""

    def __init__(self, sends: Columns) -> None:
        self._sends = sends
        firsts, lengths, origin, offset = disjoint(as_keys(sends["key"]), as_keys(sends["n"]))
        self._firsts, self._lengths = firsts, lengths
        self._origin, self._offset = origin, offset.astype(np.int64)

    def known(self, receipts: Columns) -> tuple[Columns, NDArray[np.int64]]:
        """Return the receipts of these ids, cut where runs of them end, and the run of each."""
        keys = as_keys(receipts["key"])
        pieces, sizes, of, place = located_pieces(
            self._firsts, self._lengths, keys, as_keys(receipts["n"])
        )
        cut = _where(receipts, of)
        cut["position"] = cut["position"] + (pieces - keys[of]).astype(np.int64)
        cut["key"], cut["n"] = pieces.view(np.int64), sizes.view(np.int64)
        return _where(cut, place >= 0), place[place >= 0]

    def first_arrivals(self, own: Columns, row: NDArray[np.int64]) -> Columns:
        """Return where the ids arrived first, and from where they were sent.

        A duplicate is no reordering.
        """
        firsts, sizes, piece, further = disjoint(as_keys(own["key"]), as_keys(own["n"]))
        return _joined(
            self._places(row[piece], firsts)
            | {
                "file": own["file"][piece].astype(np.int64),
                "receiver": own["member"][piece],
                "split": own["split"][piece],
                "position": own["position"][piece] + further.astype(np.int64),
                "length": sizes.astype(np.int64),
                "n": np.ones(len(firsts), np.int64),
            }
        )

    def _places(self, row: NDArray[np.int64], firsts: UInt64Array) -> Columns:
        """Return from where ids, each in a run of these, were sent."""
        send = self._origin[row]
        within = self._offset[row] + (firsts - self._firsts[row]).astype(np.int64)
        return {
            "source": self._sends["file"][send].astype(np.int64),
            "sender": self._sends["member"][send],
            "send_split": self._sends["split"][send],
            "value": self._sends["position"][send] + within,
        }


def _joined(arrivals: Columns) -> Columns:
    """Join arrivals that go on where the one before ends, in the receipt and in the sending.

    At low rates each message is a row of its own, of its own time; those that arrive in order
    are one row again before they are shuffled to where the order of all is looked at.
    """
    size = len(arrivals["n"])
    fresh = _changed(arrivals, "file", "split", "source", "sender", "receiver", "send_split")
    for name in ("position", "value"):
        fresh[1:] |= arrivals[name][1:] != arrivals[name][:-1] + arrivals["length"][:-1]
    starts = np.flatnonzero(fresh)
    joined = _where(arrivals, starts)
    if size:
        joined["length"] = np.add.reduceat(arrivals["length"], starts)
    return joined


def _by_ticks(sends: Columns, receipts: Columns) -> _Compared:
    own = _where(receipts, np.isin(receipts["key"], sends["key"]))
    sent, received = Ticks(), Ticks()
    sent.add(sends["key"], sends["n"])
    received.add(own["key"], own["n"])
    unreceived, duplicate = sent.balance(received)
    counts = _counts(sends, own) | {
        "unreceived": unreceived,
        "duplicate": duplicate,
        "negative_latency": int(own["n"][own["latency"] < 0].sum()),
    }
    return counts, own, [_in_order(own)]


def _in_order(own: Columns) -> Columns:
    """Return arrivals by ticks; those that follow each other in order are one row.

    All arrivals of a range of ticks are here. What overtook one of them is among them, or was
    sent after all of the range. So a row that is cut where arrivals begin or cease to be
    behind an earlier one is behind as a whole or not at all, and its last tick stands for it.
    """
    own = _where(own, np.lexsort((own["member"], own["file"], own["range"])))
    size = len(own["n"])
    groups = _changed(own, "file", "range", "member")
    group = np.cumsum(groups)
    least = np.minimum.reduceat(own["key"], np.flatnonzero(groups)) if size else own["key"]
    # A group is above all those before it: no running maximum reaches into it.
    places = (group << _GROUP_BITS) + own["key"] - least[group - 1]
    furthest = np.maximum.accumulate(places)
    behind = np.zeros(size, np.bool_)
    behind[1:] = places[1:] < furthest[:-1]
    fresh = groups | _changed(own | {"behind": behind}, "split", "behind")
    fresh[1:] |= own["position"][1:] != own["position"][:-1] + own["n"][:-1]
    fresh[1:] |= own["key"][1:] < own["key"][:-1]
    starts = np.flatnonzero(fresh)
    nothing = np.zeros(len(starts), np.int64)
    return {
        "source": nothing,
        "sender": nothing,
        "receiver": own["member"][starts],
        "file": own["file"][starts].astype(np.int64),
        "split": own["split"][starts],
        "position": own["position"][starts],
        "send_split": nothing,
        "value": own["key"][np.append(starts[1:], size)[: len(starts)] - 1],
        "length": nothing + 1,
        "n": np.add.reduceat(own["n"], starts) if size else own["n"],
    }


def _changed(columns: Columns, *names: str) -> NDArray[np.bool_]:
    """Say of each row whether one of these columns differs from the row before."""
    fresh = np.ones(len(columns["n"]), np.bool_)
    fresh[1:] = False
    for name in names:
        fresh[1:] |= columns[name][1:] != columns[name][:-1]
    return fresh


def _counts(sends: Columns, own: Columns) -> dict[str, int]:
    return {"sent": int(sends["n"].sum()), "received": int(own["n"].sum())}


def _facts(receipts: Columns, own: Columns) -> Iterator[Columns]:
    """Yield the facts of the receipts of each file; the own ones are in order."""
    for file in np.unique(receipts["file"]):
        of_file = _where(own, own["file"] == file)
        foreign = receipts["n"][receipts["file"] == file].sum() - of_file["n"].sum()
        yield _fact(fact_names.FOREIGN, file, n=[foreign])
        if len(of_file["n"]) == 0:
            continue
        seconds = of_file["received"] // of_file["ticks"]
        table = SecondHistogram.from_rows(seconds, of_file["latency"], of_file["n"], "")
        yield _fact(
            fact_names.LATENCY, file, split=table.seconds, value=table.latencies, n=table.counts
        )
        yield from _steps(file, of_file)
        yield from _of_ends(file, of_file)


def _of_ends(file: int, receipts: Columns) -> Iterator[Columns]:
    """Yield the first and the last receipt of each end of a file, late ones, and latencies."""
    member = receipts["member"]
    ends, firsts = np.unique(member, return_index=True)
    lasts = len(member) - 1 - np.unique(member[::-1], return_index=True)[1]
    for name, places in ((fact_names.FIRST, firsts), (fact_names.LAST, lasts)):
        edge = {key: receipts[key][places] for key in ("split", "position")}
        value = receipts["received"][places]
        yield _fact(name, file, receiver=ends, value=value, n=np.zeros(len(ends)), **edge)
    late = _where(receipts, receipts["late"])
    ends, end = np.unique(late["member"], return_inverse=True)
    for place, number in enumerate(ends.tolist()):
        some = _where(late, end == place)
        latest, n = some["received"].max(), some["n"].sum()
        yield _fact(fact_names.LATE, file, receiver=[number], value=[latest], n=[n])
    some = _where(receipts, member >= 0)
    table = SecondHistogram.from_rows(some["member"], some["latency"], some["n"], "")
    yield _fact(schema.END, file, receiver=table.seconds, value=table.latencies, n=table.counts)


def _steps(file: int, receipts: Columns) -> Iterator[Columns]:
    """Yield the latencies of each step, where the rate of a run changed."""
    if "step" not in receipts:
        return
    some = _where(receipts, receipts["step"] >= 0)
    table = SecondHistogram.from_rows(some["step"], some["latency"], some["n"], "")
    yield _fact(schema.STEP, file, split=table.seconds, value=table.latencies, n=table.counts)


def _fact(name: str, file: int, **columns: Any) -> Columns:
    size = len(columns["n"])
    return columns | {"name": [name] * size, "file": np.full(size, file, np.int64)}


def _ends(columns: Columns) -> tuple[Columns, Columns]:
    """Return the sends and the receipts, each in the order of the records."""
    order = np.lexsort((columns["position"], columns["split"], columns["file"]))
    ordered = {name: values[order] for name, values in columns.items()}
    receipt = ordered["receipt"]
    return _where(ordered, ~receipt), _where(ordered, receipt)


def _where(columns: Columns, rows: NDArray[Any]) -> Columns:
    """Return the rows of a mask, or with these numbers."""
    return {name: values[rows] for name, values in columns.items()}


def _batch(
    columns_of: pa.Schema, fixed: Mapping[str, str | int], columns: dict[str, Any]
) -> pa.RecordBatch:
    size = len(columns["n"])
    arrays = []
    for field in columns_of:
        if field.name in fixed:
            arrays.append(pa.repeat(pa.scalar(fixed[field.name], field.type), size))
        elif field.name in columns:
            arrays.append(pa.array(columns[field.name], field.type))
        else:
            arrays.append(pa.nulls(size, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=columns_of)
