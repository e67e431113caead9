"""A run of many ends: its files are read on Spark, and merged as the local backend merges them.

Many tasks add up the latencies and settlements of a side, which have many rows, as those of one
more arrow. The rest is small, and :mod:`quiver_fast.analysis` adds it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.figures.delivery import BY_IDS
from quiver_fast.analysis.figures.each_end import EndFacts
from quiver_fast.analysis.figures.ends import Owners, Shares, all_of
from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.figures.latency import exact_latency
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.end_records import (
    EndRecords,
    end_records,
    hides_ends,
    known_bounds,
    of_both_sides,
    queues_told,
    sent_alone,
)
from quiver_fast.analysis.read.ends import MergedEnds, ReceivedEnds, SentEnds
from spark_analysis import fact_names, schema
from spark_analysis.columns import together
from spark_analysis.files import RecordFile
from spark_analysis.results import (
    by_end,
    delivery_of,
    file_analysis,
    histogram_of,
    ledger_of,
    steps_found,
)
from spark_analysis.schema import RECEIVER, SENDER

# The facts that are added up for a side, and the arrow that has the sums.
_OF_SIDES = {
    RECEIVER: (fact_names.LATENCY,),
    SENDER: (fact_names.SETTLED, fact_names.SAMPLED),
}


def of_all(file: RecordFile) -> RecordFile:
    """Return all files of the side of ``file``, as one."""
    return replace(file, arrow=file.role)


def ends_and_bounds(files: RunFiles) -> tuple[list[EndRecords], RunBounds]:
    """Return the ends of a run, and the bounds that the summaries beside their records tell.

    Raises:
        RecordError: one side has no file, or a summary is damaged.
        OSError: a summary cannot be read.
    """
    ends = [end_records(path) for path in files.paths]
    return ends, known_bounds(*of_both_sides(files.name, ends))


def with_sides(
    facts: DataFrame, files: Sequence[RecordFile], ends: Sequence[EndRecords]
) -> DataFrame:
    """Return facts with the sums of each side, and of each queue of several.

    Args:
        facts: rows of ``FACTS`` of one run.
        files: its files.
        ends: the ends of each.
    """
    tables = [facts]
    for role, names in _OF_SIDES.items():
        arrows = [file.arrow for file in files if file.role == role]
        rows = facts.where(F.col("arrow").isin(arrows) & F.col("fact").isin(*names))
        total = rows.groupBy("run", "fact", "second", "value").agg(F.sum("n").alias("n"))
        tables.append(_of_arrow(total, F.lit(role)))
    queues = _queues(files, ends)
    if queues:
        named = facts.sparkSession.createDataFrame(queues, "arrow string, queue string")
        rows = facts.where(F.col("fact") == fact_names.LATENCY).join(F.broadcast(named), "arrow")
        total = rows.groupBy("run", "queue", "fact", "value").agg(F.sum("n").alias("n"))
        total = total.withColumn("second", F.lit(0).cast("bigint"))
        tables.append(_of_arrow(total, F.col("queue")))
    return together(tables)


def _of_arrow(total: DataFrame, arrow: Column) -> DataFrame:
    nothing = F.lit(None).cast("string").alias("text")
    rows = total.select("run", arrow.alias("arrow"), "fact", "second", "value", "n", nothing)
    return rows.select(*schema.FACTS.fieldNames())


def _queues(files: Sequence[RecordFile], ends: Sequence[EndRecords]) -> list[tuple[str, str]]:
    """Return the arrows of receivers and the arrow of the queue of each; none of a single queue."""
    receivers = [(end, file) for end, file in zip(ends, files, strict=True) if _receives(end)]
    queues = queues_told([end for end, _ in receivers])
    return [
        (
            file.arrow if end.members == 1 else fact_names.end_arrow(RECEIVER, number),
            fact_names.queue_arrow(number % queues),
        )
        for end, file in receivers
        for number in end.numbers
        if queues
    ]


def _receives(end: EndRecords) -> bool:
    return end.role == RECEIVER


def ends_run(
    table: pa.Table,
    name: str,
    ends: Sequence[EndRecords],
    described: Sequence[RecordFile],
    run: RunBounds,
) -> RunData:
    """Return a run of many ends, as :func:`.ends.load_ends` does.

    Args:
        table: the facts of the run, :func:`with_sides`.
        name: the name of the run.
        ends: its ends: senders, then receivers.
        described: the file of each of them.
        run: the bounds that the summaries of all ends tell.

    Raises:
        RecordError: the records of the ends do not fit each other.
        OSError: a file cannot be read.
    """
    senders, receivers = of_both_sides(name, ends)
    sends, receipts = ([f for f in described if f.role == role] for role in (SENDER, RECEIVER))
    sent = _sent(table, senders, sends, run)
    found = [file_analysis(file, table, run, sent.all) for file in receipts]
    steps = steps_found(table, receipts[0], sent.all, run)
    every = replace(all_of(found), histogram=histogram_of(of_all(receipts[0]), table), steps=steps)
    delivery = delivery_of(table, sent.each, found, run)
    ledger = ledger_of(table, sent.all, every, delivery, run)
    by_ids = delivery["method"] == BY_IDS
    by_ids = by_ids and not sent.hidden
    if (not by_ids and not sent.alone) or hides_ends(receivers):
        delivery["reordered"] = None
    delivered, arrived, reordered = (
        _by_number(table, ends, files, fact)
        for ends, files, fact in (
            (senders, sends, fact_names.DELIVERED),
            (receivers, receipts, fact_names.ARRIVED),
            (receivers, receipts, fact_names.REORDERED),
        )
    )
    shares = Shares(delivered, arrived, reordered) if by_ids else None
    members = [
        _members(table, end, file, run, sent.all)
        for end, file in zip(receivers, receipts, strict=True)
    ]
    queues = {}
    for number in range(queues_told(receivers)):
        file = replace(receipts[0], arrow=fact_names.queue_arrow(number))
        latencies = histogram_of(file, table).distribution()
        queues[number] = exact_latency(latencies, every.time_unit)
    received = ReceivedEnds(found, members, every, delivery, shares, queues, ledger)
    return MergedEnds(name, senders, receivers, sent, received, run).data()


def _by_number(
    table: pa.Table, ends: Sequence[EndRecords], files: Sequence[RecordFile], fact: str
) -> dict[int, int]:
    found: dict[int, int] = {}
    for end, file in zip(ends, files, strict=True):
        found |= by_end(file, table, end.first, fact)
    return found


def _members(
    table: pa.Table,
    end: EndRecords,
    file: RecordFile,
    run: RunBounds,
    sender: FileAnalysis | None = None,
) -> list[EndFacts] | None:
    """Return the facts of each end of a file; None where it has one, or does not tell them."""
    if end.members == 1 or hides_ends([end]):
        return None
    found = []
    for number in end.numbers:
        arrow = fact_names.end_arrow(end.role, number)
        one = file_analysis(replace(file, arrow=arrow, compressed=False), table, run, sender)
        found.append(EndFacts.of(number, one))
    return found


def _sent(
    table: pa.Table, senders: Sequence[EndRecords], files: Sequence[RecordFile], run: RunBounds
) -> SentEnds:
    found = [file_analysis(file, table, run) for file in files]
    every = all_of(found)
    if every.settlement is not None:
        side = _settlements(files[0], table, run).settlement
        if side is not None:
            parts = side.all, side.sampled
            settlement = replace(every.settlement, all=parts[0], sampled=parts[1])
            every = replace(every, settlement=settlement)
    members = [_members(table, end, file, run) for end, file in zip(senders, files, strict=True)]
    return SentEnds(found, members, every, Owners(), sent_alone(senders), hides_ends(senders))


def _settlements(file: RecordFile, table: pa.Table, run: RunBounds) -> FileAnalysis:
    return file_analysis(of_all(file), table, run)
