"""Which step of a rate each message is of: :mod:`quiver_fast.analysis.figures.steps` on Spark.

The steps of a run are facts of two more arrows: messages sent, and latencies, by the number of the
step in place of the second.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from quiver_fast.analysis.figures.steps import step_begins
from quiver_fast.analysis.model.bounds import RunBounds
from spark_analysis import fact_names, schema
from spark_analysis.columns import quotient, ticks_per_second
from spark_analysis.schema import ARROW, as_facts

_STEPS = StructType(
    [
        StructField("run", StringType(), nullable=False),
        StructField("begins", ArrayType(LongType(), containsNull=False), nullable=False),
        StructField("warmup_ms", LongType(), nullable=False),
    ]
)


def steps_of_runs(runs: DataFrame, bounds: Mapping[str, RunBounds]) -> DataFrame | None:
    """Return (run, begins, warmup_ms, first, end_ticks) of runs with steps; None without any.

    Args:
        runs: :func:`.run_filter.ends_of_runs` of them.
        bounds: the bounds of each run, by its name.
    """
    rows = [
        (name, step_begins(run.steps), int(run.warmup * 1000))
        for name, run in bounds.items()
        if run.steps
    ]
    if not rows:
        return None
    asked = runs.sparkSession.createDataFrame(rows, _STEPS)
    return runs.select("run", "first", "end_ticks").join(F.broadcast(asked), "run")


def numbered(rows: DataFrame, steps: DataFrame) -> DataFrame:
    """Return rows with ``step``: the number of the step of each send time; -1 for none.

    Args:
        rows: with ``run``, ``sent`` and ``unit``.
        steps: :func:`steps_of_runs`.
    """
    known = rows.join(
        F.broadcast(steps.withColumnRenamed("end_ticks", "sender_ticks")), "run", "left"
    )
    ticks, theirs = ticks_per_second(), F.col("sender_ticks")
    first = _in_ticks(F.col("first"), theirs, ticks)
    end_of_warmup = F.col("first") + F.col("warmup_ms") * quotient(theirs, F.lit(1000))
    second = quotient(end_of_warmup + theirs - 1, theirs)
    since = F.when(F.col("warmup_ms") > 0, F.greatest(second * ticks, first)).otherwise(first)
    begun = F.filter("begins", lambda begin: first + begin * ticks <= F.col("sent"))
    number = F.when(F.col("sent") >= since, F.size(begun) - 1)
    return known.select(*rows.columns, F.coalesce(number, F.lit(-1)).cast("bigint").alias("step"))


def _in_ticks(time: Column, theirs: Column, ticks: Column) -> Column:
    """Return a time of one clock in ticks of another."""
    # The branch that is not taken must not divide by zero either.
    coarser = quotient(time, F.greatest(quotient(theirs, ticks), F.lit(1)))
    return F.when(ticks >= theirs, time * quotient(ticks, theirs)).otherwise(coarser)


def facts_of_steps(records: DataFrame, found: DataFrame, steps: DataFrame) -> list[DataFrame]:
    """Return the facts of the messages that were sent in each step, and of their latencies.

    Args:
        records: rows of ``RECORDS``.
        found: the rows of :func:`.reconcile.reconciled`.
        steps: :func:`steps_of_runs`.
    """
    sends = records.where((F.col("kind") == schema.TRANSFER) & F.col("received").isNull())
    sent = (
        numbered(sends, steps).where("step >= 0").withColumn("arrow", F.lit(fact_names.STEPS_SENT))
    )
    total = sent.groupBy(*ARROW, "step").agg(F.sum("n").alias("n"))
    received = found.where(F.col("name") == schema.STEP).withColumn(
        "arrow", F.lit(fact_names.STEPS_RECEIVED)
    )
    each = received.groupBy(*ARROW, "split", "value").agg(F.sum("n").alias("n"))
    return [
        as_facts(total, fact_names.SENT, second=F.col("step"), n=F.col("n")),
        as_facts(
            each, fact_names.LATENCY, second=F.col("split"), value=F.col("value"), n=F.col("n")
        ),
    ]
