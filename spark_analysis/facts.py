"""Which facts a set of files needs, as one table: the work of one Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from spark_analysis import transforms
from spark_analysis.delivery import delivery, distinct_ids, reconciled, reordered_alone
from spark_analysis.files import RECEIVER, SENDER, RecordFile

__all__ = ["facts", "runs_with_both_ends"]


@contextmanager
def facts(records: DataFrame, files: Sequence[RecordFile]) -> Iterator[DataFrame]:
    """Give the rows of ``FACTS`` of all arrows and runs.

    What no file can have is left out of the plan. What is read more than once is kept
    while the context lasts, in memory or, where that is short, on disk.

    Args:
        records: rows of ``RECORDS``.
        files: the files that they are from.
    """
    kept = [records.persist()]
    tables = [transforms.sums(records), transforms.extents(records)]
    if any(file.role == SENDER and file.has_ids for file in files):
        tables.append(transforms.settlements_across(records))
    paired = runs_with_both_ends(files)
    if paired:
        both = records.where(F.col("run").isin(paired))
        kept.append(reconciled(both).persist())
        tables.append(delivery(both, kept[-1]))
    alone = [file for file in files if file.role == RECEIVER and file.run not in paired]
    if alone:
        rest = records.where(F.col("role") == RECEIVER).where(~F.col("run").isin(paired))
        tables.append(reordered_alone(rest))
        if any(file.has_ids for file in alone):
            tables.append(distinct_ids(rest))
    try:
        yield transforms.together(tables)
    finally:
        for table in kept:
            table.unpersist()


def runs_with_both_ends(files: Sequence[RecordFile]) -> list[str]:
    """Return the runs that have a sender and a receiver."""
    ends = {role: {f.run for f in files if f.role == role} for role in (SENDER, RECEIVER)}
    return sorted(ends[SENDER] & ends[RECEIVER])
