"""The ledger of a run whose arrows connect again: its sums, distributed.

The lines about the ids of a range meet in one task, which adds them up as
:mod:`quiver_fast.analysis.tables.fates` does in one process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.figures.ledger_lines import copies, lives_of, near, spans_of
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.tables.fates import COPIED, SENT, SETTLED, summed_kinds, totals_of
from spark_analysis import fact_names, schema
from spark_analysis.columns import ID_BITS, cut_at_ranges, together
from spark_analysis.files import RecordFile
from spark_analysis.reconcile import Filters, by_ranges, filters_of, whole_parts
from spark_analysis.schema import SENDER, as_facts

_Batches: TypeAlias = Iterator[pa.RecordBatch]
_Int64: TypeAlias = NDArray[np.int64]

_SUMS = "run string, name string, n bigint"
_LINES = "run string, kind bigint, key bigint, high bigint, n bigint"
# Beside the kinds of lines: times of receipts and of outcomes, which stand as the key.
_RECEIPT_TIME, _OUTCOME_TIME = -11, -10
_TIMES = {_RECEIPT_TIME: fact_names.RECEIPT_TIMES, _OUTCOME_TIME: fact_names.OUTCOME_TIMES}


def ledger_facts(
    records: DataFrame,
    receipts: DataFrame,
    files: Sequence[RecordFile],
    bounds: Mapping[str, RunBounds],
) -> list[DataFrame]:
    """Return the tables of the facts of the ledgers of runs, none where no run has one.

    Args:
        records: rows of ``RECORDS``.
        receipts: those of messages of the runs, as far as send times tell.
        files: the files that they are from.
        bounds: the bounds of each run, by its name.
    """
    runs = [name for name, run in bounds.items() if run.failures is not None]
    if not runs:
        return []
    sends = (F.col("kind") == schema.TRANSFER) & (F.col("role") == SENDER)
    outcomes = F.col("kind").isin(schema.SETTLED, schema.UNMATCHED)
    of_senders = records.where((sends | outcomes) & F.col("id").isNotNull())
    lines = together([of_senders, receipts.where(F.col("id").isNotNull())])
    found = lines.where(F.col("run").isin(runs)).mapInArrow(_lines(files, bounds), _LINES)
    times = F.col("kind").isin(*_TIMES)
    copied = [
        (name, COPIED, first, 0, last - first + 1)
        for name in runs
        for first, last in copies(bounds[name])
    ]
    every = together([found, records.sparkSession.createDataFrame(copied, _LINES)])
    keyed = every.where(~times).select(
        "*", F.lit(True).alias("by_ids"), F.lit(0).alias("position"), F.lit(ID_BITS).alias("bits")
    )
    totals = by_ranges(cut_at_ranges(keyed), "run").mapInArrow(
        partial(_totals, filters_of(bounds)), _SUMS
    )
    sums = totals.groupBy("run", "name").agg(F.sum("n").alias("n")).withColumn("arrow", F.lit(""))
    tables = [as_facts(sums, fact_names.LEDGER, text=F.col("name"), n=F.col("n"))]
    moments = found.where(times).select("run", "kind", "key").distinct()
    for kind, fact in _TIMES.items():
        some = moments.where(F.col("kind") == kind).withColumn("arrow", F.lit(""))
        tables.append(as_facts(some, fact, value=F.col("key")))
    return tables


def _lines(
    files: Sequence[RecordFile], bounds: Mapping[str, RunBounds]
) -> Callable[[_Batches], _Batches]:
    """Return a function that makes rows of ``_LINES`` of rows of ``RECORDS``."""
    of_number = {file.number: file for file in files}

    def rows(batches: _Batches) -> _Batches:
        for batch in batches:
            for number in pc.unique(batch.column("file")).to_pylist():
                some = batch.filter(pc.equal(batch.column("file"), number))
                file = of_number[number]
                of_side = _of_sender if file.role == SENDER else _of_receiver
                for kind, key, high, n in of_side(some, file, bounds[file.run]):
                    kinds = np.broadcast_to(np.int64(kind), len(key))
                    runs = pa.repeat(pa.scalar(file.run), len(key))
                    yield pa.record_batch([runs, *map(pa.array, (kinds, key, high, n))], _NAMES)

    return rows


_NAMES = ["run", "kind", "key", "high", "n"]
_Rows: TypeAlias = Iterator[tuple["_Int64 | int", _Int64, _Int64, _Int64]]


def _of_sender(batch: pa.RecordBatch, file: RecordFile, run: RunBounds) -> _Rows:
    sends = pc.equal(batch.column("kind"), schema.TRANSFER)
    yield SENT, *_ids(batch.filter(sends))
    outcomes = batch.filter(pc.invert(sends))
    yield SETTLED, *_ids(outcomes)
    yield from _near(_OUTCOME_TIME, _numbers(outcomes, "settled"), file, run)


def _of_receiver(batch: pa.RecordBatch, file: RecordFile, run: RunBounds) -> _Rows:
    received = _numbers(batch, "received")
    kinds = lives_of(run, file.unit).kinds(_numbers(batch, "member", file.first), received)
    yield kinds, *_ids(batch)
    yield from _near(_RECEIPT_TIME, received, file, run)


def _near(kind: int, times: _Int64, file: RecordFile, run: RunBounds) -> _Rows:
    kept = near(times, spans_of(run, file.unit))
    nothing = np.zeros(len(kept), np.int64)
    yield kind, kept, nothing, nothing


def _ids(batch: pa.RecordBatch) -> tuple[_Int64, _Int64, _Int64]:
    return _numbers(batch, "id"), _numbers(batch, "id_high"), _numbers(batch, "n")


def _numbers(batch: pa.RecordBatch, name: str, otherwise: int = 0) -> _Int64:
    found: _Int64 = pc.fill_null(batch.column(name), otherwise).to_numpy(zero_copy_only=False)
    return found


def _totals(filters: Filters, batches: _Batches) -> _Batches:
    """Add up lines that are sorted by run and range, whole ranges at a time."""
    for (run,), columns in whole_parts(batches, "run"):
        ones = np.ones(len(columns["key"]), np.int64)
        lines = (0 * ones, columns["key"], columns["n"], columns["kind"], ones)
        totals = totals_of(summed_kinds(np.column_stack(lines)), filters.get(run))
        yield pa.record_batch(
            [pa.repeat(pa.scalar(run), len(totals)), pa.array(totals), pa.array(totals.values())],
            ["run", "name", "n"],
        )
