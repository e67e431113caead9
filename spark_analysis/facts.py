"""Which facts a set of files needs, as one table: the work of one Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.read.discovery import end_of
from spark_analysis import fact_names, schema, transforms
from spark_analysis.columns import together
from spark_analysis.delivery import (
    delivery,
    facts_of_ends,
    in_ranges,
    own_facts,
    reordered_alone,
    sends_and_receipts,
    shares,
)
from spark_analysis.files import RecordFile, receivers_of, runs_with_both_ends
from spark_analysis.ledger import ledger_facts
from spark_analysis.rate_steps import facts_of_steps, numbered, steps_of_runs
from spark_analysis.reconcile import distinct_ids, filters_of, reconciled
from spark_analysis.run_filter import at_sent_ticks, ends_of_runs, receipt, timely
from spark_analysis.schema import RECEIVER, SENDER

_ARROWS = "file bigint, run string, arrow string"


def added_up(rows: DataFrame) -> DataFrame:
    """Return facts, each (second, value, text) once."""
    keys = [name for name in schema.FACTS.fieldNames() if name != "n"]
    return rows.groupBy(*keys).agg(F.sum("n").alias("n")).select(*schema.FACTS.fieldNames())


@contextmanager
def facts(
    records: DataFrame,
    files: Sequence[RecordFile],
    bounds: Mapping[str, RunBounds],
    skew: Column | None = None,
    *,
    ledgers: bool = False,
) -> Iterator[DataFrame]:
    """Give the rows of ``FACTS`` of all arrows and runs.

    Facts that no file can have are left out of the plan. Tables that are read twice are kept while
    the context lasts, in memory or, where that is short, on disk.

    Args:
        records: rows of ``RECORDS``.
        files: the files that they are from.
        bounds: the bounds of each run, by its name.
        skew: as of :func:`.delivery.in_ranges`, of runs with both ends.
        ledgers: with the facts of ledgers, which do not add up.
    """
    kept = [records.persist()]
    tables = [transforms.extents(records)]
    if any(file.role == SENDER and file.has_ids for file in files):
        tables.append(transforms.settlements_across(records))
    if any(file.role == RECEIVER for file in files):
        receipts, found = _receipts(records, files, bounds, skew, ledgers)
        kept += found
        tables += receipts
    else:
        tables.append(transforms.streams(records.where(F.col("kind") == schema.STREAM)))
    tables.append(transforms.sums(records.where(~receipt())))
    try:
        yield together(tables)
    finally:
        for table in kept:
            table.unpersist()


def _receipts(
    records: DataFrame,
    files: Sequence[RecordFile],
    bounds: Mapping[str, RunBounds],
    skew: Column | None,
    ledgers: bool,
) -> tuple[list[DataFrame], list[DataFrame]]:
    """Return the tables of the facts of receivers, and those that are to be kept."""
    runs = ends_of_runs(records, bounds).persist()
    receipts = timely(records.where(receipt()), receivers_of(files), bounds, runs).persist()
    kept = [runs, receipts]
    of_runs = receipts.where("timely").drop("timely")
    tables = [transforms.counted(receipts.where("not timely"), fact_names.OLDER)]
    paired = runs_with_both_ends(files)
    tables.append(transforms.streams(_own_streams(records, files, bounds, runs)))
    if paired:
        both = of_runs.where(F.col("run").isin(paired))
        sends = records.where(F.col("run").isin(paired))
        steps = steps_of_runs(runs, bounds)
        messages = sends_and_receipts(sends, both)
        messages = messages if steps is None else numbered(messages, steps)
        found = reconciled(in_ranges(messages, runs, skew=skew), filters_of(bounds)).persist()
        kept.append(found)
        if steps is not None:
            tables += facts_of_steps(sends, found, steps)
        rows = [(file.number, file.run, file.arrow) for file in files if file.role == RECEIVER]
        arrows = records.sparkSession.createDataFrame(rows, _ARROWS)
        tables += [delivery(found, runs), own_facts(found, arrows)]
        many = [file for file in files if end_of(file.location) is not None]
        if many:
            rows = [(file.number, file.run, file.arrow) for file in many]
            tables.append(shares(found, records.sparkSession.createDataFrame(rows, _ARROWS)))
        if any(file.members > 1 for file in files):
            transfers = sends.where((F.col("kind") == schema.TRANSFER) & ~receipt())
            tables.append(facts_of_ends(found, transfers))
        tables += ledger_facts(records, of_runs, files, bounds) if ledgers else []
        # The sender sent nothing then: somebody else sent the received messages.
        strange = both.join(F.broadcast(runs.select("run")), "run", "left_anti")
        tables.append(transforms.counted(strange, fact_names.FOREIGN))
    alone = [file for file in files if file.role == RECEIVER and file.run not in paired]
    if alone:
        rest = of_runs.where(~F.col("run").isin(paired))
        tables += [transforms.sums(rest), transforms.edges(rest), reordered_alone(rest)]
        if any(file.has_ids for file in alone):
            tables.append(distinct_ids(rest))
    return tables, kept


def _own_streams(
    records: DataFrame,
    files: Sequence[RecordFile],
    bounds: Mapping[str, RunBounds],
    runs: DataFrame,
) -> DataFrame:
    """Return the lines of streaming mode that are of their runs."""
    lines = records.where(F.col("kind") == schema.STREAM)
    sending = F.col("role") == SENDER
    own = (
        timely(lines.where(~sending), receivers_of(files), bounds, runs)
        .where("timely")
        .drop("timely")
    )
    paired = F.col("run").isin(runs_with_both_ends(files))
    known = at_sent_ticks(own.where(paired), records, runs)
    return together([lines.where(sending), own.where(~paired), known])
