"""Few rows for the last step of a run, however many different latencies it has.

A clock of microseconds gives nearly every message a latency of its own. Many tasks find the figures
that statistics ask for: the percentiles of each second by second, those of the
run, its sums and its rounded distribution by latency. The task that has the whole run then
has some rows for each second, and every figure is the one that all rows would give.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, islice, pairwise
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)
from pyspark.sql.types import LongType, StringType, StructField, StructType

from quiver_fast.analysis.model import ranks
from quiver_fast.analysis.model.distribution import Distribution, neighbours
from quiver_fast.analysis.tables.digests import Extent, asking, thinned
from quiver_fast.analysis.tables.latencies import COARSE_BINS, coarse_step
from quiver_fast.analysis.tables.spilled import LatencyRows
from spark_analysis import fact_names, schema
from spark_analysis.columns import together
from spark_analysis.schema import ARROW, as_facts

MOST_ROWS = 1 << 18
"""Rows of latencies that a task may have of a run."""

WHOLE: Extent = (-(2**63), 2**63 - 1)
_LARGE = (fact_names.LATENCY, fact_names.SETTLED, fact_names.SAMPLED)

# A batch of few rows costs as much as one of many.
_SECONDS_AT_ONCE = 1024
# Buckets of latencies for each doubling.
_PER_DOUBLING = 2048

_ASKED = StructType([StructField("asked", StringType(), nullable=False)])
_PARTS = StructType(
    [
        StructField("key", LongType(), nullable=False),
        StructField("run", StringType(), nullable=False),
        StructField("arrow", StringType(), nullable=False),
        StructField("of", StringType(), nullable=False),
        StructField("begin", LongType(), nullable=False),
        StructField("end", LongType(), nullable=False),
    ]
)
_SUMS = StructType(
    [
        StructField("key", LongType(), nullable=False),
        StructField("text", StringType(), nullable=False),
    ]
)
_SAMPLES = StructType(
    [
        StructField("key", LongType(), nullable=False),
        StructField("index", LongType(), nullable=False),
        StructField("value", LongType(), nullable=False),
    ]
)
_FACTS = schema.to_arrow(schema.FACTS)

Batches: TypeAlias = Iterator[pa.RecordBatch]
Analyse = Callable[[pa.Table], object]
"""Makes the statistics of a run of its facts: in a task."""


@dataclass(frozen=True)
class _Part:
    """A distribution that is asked for."""

    key: int
    run: str
    arrow: str
    of: str
    extent: Extent

    @property
    def name(self) -> str:
        """The key that tells it from the others of its arrow."""
        return json.dumps([self.of, *self.extent])


def part_named(name: str) -> tuple[str, Extent]:
    """Return the fact and the extent of a distribution, by its name."""
    of, first, last = json.loads(name)
    return of, (first, last)


@contextmanager
def thinned_facts(
    found: DataFrame,
    analyse: Analyse,
    window_seconds: int | None = None,
    since: int | None = None,
) -> Iterator[DataFrame]:
    """Give facts of which the last step of no run has many rows, kept while the context lasts.

    Args:
        found: rows of ``FACTS``, which are read several times.
        analyse: the last step.
        window_seconds: the length of the windows that it makes; None for none.
        since: the epoch second with which they begin; None for the first.
    """
    rows = found.where(F.col("fact").isin(*_LARGE))
    runs = _large_runs(rows)
    if not runs:
        yield found
        return
    of_runs = F.col("run").isin(*runs)
    rest = found.where(~(of_runs & F.col("fact").isin(*_LARGE)))
    latencies = rows.where(of_runs).persist()
    few = _by_seconds(latencies, window_seconds, since).persist()
    kept = [latencies, few]
    try:
        parts = _asked(rest.unionByName(few).where(of_runs), latencies, analyse)
        values = _values(latencies, parts).persist()
        kept.append(values)
        digests = _digests(values, parts)
        yield together([rest, few, *digests])
    finally:
        for table in kept:
            table.unpersist()


def _large_runs(rows: DataFrame) -> list[str]:
    if rows.count() <= MOST_ROWS:
        return []
    counts = rows.groupBy("run").count().where(F.col("count") > MOST_ROWS)
    return [row.run for row in counts.collect()]


def _by_seconds(latencies: DataFrame, window_seconds: int | None, since: int | None) -> DataFrame:
    """Return thinned latencies of each second, and of each window."""
    seconds = latencies.where(F.col("fact") == fact_names.LATENCY).select(
        *ARROW, F.lit(fact_names.THINNED).alias("fact"), "second", "value", "n", "text"
    )
    tables = [seconds]
    if window_seconds is not None:
        length = F.lit(window_seconds)
        start = F.col("second") - F.pmod(F.col("second"), length)
        # A window that begins within a warm-up has the messages after it.
        measured = seconds if since is None else seconds.where(F.col("second") >= since)
        windows = measured.withColumn("fact", F.lit(fact_names.WINDOWED)).withColumn(
            "second", start
        )
        tables.append(windows)
    keys = [*ARROW, "fact", "second"]
    sorted_rows = together(tables).repartition(*keys).sortWithinPartitions(*keys)
    return sorted_rows.mapInArrow(_thin, schema.FACTS)


def _thin(batches: Batches) -> Batches:
    """Thin the latencies of each second, whose rows follow each other."""
    seconds = _thin_seconds(batches)
    while some := list(islice(seconds, _SECONDS_AT_ONCE)):
        sizes = [len(few) for *_, few in some]
        words = ([second[n] for second in some] for n in range(4))
        columns = [np.repeat(np.array(column, object), sizes) for column in words]
        for name in ("values", "counts"):
            columns.append(np.concatenate([getattr(few, name) for *_, few in some]))
        columns.append(np.full(sum(sizes), None))
        arrays = [pa.array(c, field.type) for c, field in zip(columns, _FACTS, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_FACTS)


def _thin_seconds(batches: Batches) -> Iterator[tuple[str, str, str, int, Distribution]]:
    asked = sorted({0, *ranks.PER_SECOND.values()})
    for (run, arrow, fact, second), pieces in groupby(_stretches(batches), key=itemgetter(0)):
        together = LatencyRows()
        for _, rows in pieces:
            together.add(rows.column("value").to_numpy(), rows.column("n").to_numpy())
        yield run, arrow, fact, second, thinned(together.total(), asked)


def _stretches(batches: Batches) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    """Yield rows that follow each other with equal run, arrow, fact and second, and these."""
    keys = (*ARROW, "fact", "second")
    for batch in batches:
        if batch.num_rows == 0:
            continue
        fresh = np.zeros(batch.num_rows, np.bool_)
        fresh[0] = True
        for key in keys:
            column = batch.column(key)
            values = column if key == "second" else column.dictionary_encode().indices
            fresh[1:] |= np.diff(values.to_numpy()) != 0
        starts = np.flatnonzero(fresh).tolist()
        for start, end in pairwise([*starts, batch.num_rows]):
            rows = batch.slice(start, end - start)
            yield tuple(rows.column(key)[0].as_py() for key in keys), rows


def _asked(facts: DataFrame, latencies: DataFrame, analyse: Analyse) -> list[_Part]:
    """Return the distributions that the last steps of runs need."""

    def ask(table: pa.Table) -> pa.Table:
        with asking() as asked:
            analyse(table)
        run = table["run"][0].as_py()
        rows = [
            json.dumps([run, arrow, fact_names.LATENCY, extent]) for arrow, extent in sorted(asked)
        ]
        return pa.table({"asked": pa.array(rows, pa.string())})

    answers = facts.groupBy("run").applyInArrow(ask, _ASKED).collect()
    found = [tuple(json.loads(row.asked)) for row in answers]
    settled = latencies.where(F.col("fact") != fact_names.LATENCY).select(*ARROW, "fact").distinct()
    for row in settled.collect():
        found.append((row.run, row.arrow, fact_names.ALL_SETTLED, WHOLE))
        if row.fact == fact_names.SAMPLED:
            found.append((row.run, row.arrow, fact_names.SAMPLED, WHOLE))
    each = sorted({(run, arrow, of, tuple(extent)) for run, arrow, of, extent in found})
    return [_Part(key, *part) for key, part in enumerate(each)]


def _values(latencies: DataFrame, parts: Sequence[_Part]) -> DataFrame:
    """Return (key, value, n): how often each value is in each part."""
    rows = [(part.key, part.run, part.arrow, part.of, *part.extent) for part in parts]
    asked = F.broadcast(latencies.sparkSession.createDataFrame(rows, _PARTS))
    fact, of = F.col("fact"), F.col("of")
    within = F.col("second").isNull() | F.col("second").between(F.col("begin"), F.col("end"))
    settled = (of == fact_names.ALL_SETTLED) & (fact != fact_names.LATENCY)
    chosen = latencies.join(asked, list(ARROW)).where(((fact == of) | settled) & within)
    return chosen.groupBy("key", "value").agg(F.sum("n").alias("n"))


def _digests(values: DataFrame, parts: Sequence[_Part]) -> list[DataFrame]:
    """Return the facts of the digest of each part."""
    sums = _sums(values)
    samples = _samples(values, {key: _indices(found["total"]) for key, found in sums.items()})
    rows = []
    for part in parts:
        document = sums[part.key] | {"name": part.name, "samples": samples[part.key]}
        rows.append(
            (part.run, part.arrow, fact_names.DIGEST, None, None, None, json.dumps(document))
        )
    spark = values.sparkSession
    steps = [
        (
            part.key,
            part.run,
            part.arrow,
            part.name,
            _step(sums[part.key]),
            part.of != fact_names.LATENCY,
        )
        for part in parts
    ]
    columns = "key bigint, run string, arrow string, name string, step bigint, upwards boolean"
    known = values.join(F.broadcast(spark.createDataFrame(steps, columns)), "key")
    rounded = known.withColumn("value", _rounded(F.col("value")))
    total = rounded.groupBy(*ARROW, "name", "value").agg(F.sum("n").alias("n"))
    rounded = as_facts(
        total, fact_names.DIGEST_VALUES, value=F.col("value"), n=F.col("n"), text=F.col("name")
    )
    return [spark.createDataFrame(rows, schema.FACTS), rounded]


def _rounded(value: Column) -> Column:
    step = F.col("step")
    down, up = value - F.pmod(value, step), value + F.pmod(-value, step)
    return F.when(F.col("upwards"), up).otherwise(down)


def _step(sums: Mapping[str, int]) -> int:
    if sums["distinct"] <= COARSE_BINS:
        return 1
    return coarse_step(sums["minimum"], sums["maximum"])


def _indices(total: int) -> list[int]:
    """Return which samples the percentiles of a run may be between."""
    asked = {*ranks.RANKS, *ranks.PER_SECOND.values()}
    return sorted({index for low, high, _ in neighbours(total, asked) for index in (low, high)})


def _sums(values: DataFrame) -> dict[int, dict[str, int]]:
    """Return the sums of each part, and its smallest and largest value."""
    found: dict[int, dict[str, int]] = {}
    for row in values.mapInArrow(_partial_sums, _SUMS).collect():
        _add(found, row.key, json.loads(row.text))
    return found


def _partial_sums(batches: Batches) -> Batches:
    found: dict[int, dict[str, int]] = {}
    for batch in batches:
        columns = [batch.column(name).to_numpy() for name in ("key", "value", "n")]
        for key in np.unique(columns[0]).tolist():
            value, n = (column[columns[0] == key] for column in columns[1:])
            part = Distribution.of_counted(value, n)
            sums = {
                "total": part.total,
                "distinct": len(part),
                "negative": part.below(0),
                "first": part.sum(),
                "second": part.squares(),
                "minimum": part.minimum,
                "maximum": part.maximum,
            }
            _add(found, key, sums)
    texts = [json.dumps(sums) for sums in found.values()]
    columns = [pa.array(list(found), pa.int64()), pa.array(texts, pa.string())]
    yield pa.RecordBatch.from_arrays(columns, ["key", "text"])


def _add(found: dict[int, dict[str, int]], key: int, more: dict[str, int]) -> None:
    """Add sums over some values of a part to those over others: no value is in both."""
    before = found.setdefault(key, more)
    if before is more:
        return
    how: dict[str, Callable[[int, int], int]] = {"minimum": min, "maximum": max}
    for name, value in more.items():
        before[name] = how.get(name, int.__add__)(before[name], value)


def _samples(values: DataFrame, wanted: Mapping[int, Sequence[int]]) -> dict[int, dict[int, int]]:
    """Return the values at some indices of each part in ascending order.

    How many are in each of many buckets tells in which bucket one is; only the values of such
    buckets are put in order.
    """
    known = values.withColumn("bucket", _bucket(F.col("value")))
    sizes = known.groupBy("key", "bucket").agg(F.sum("n").alias("n")).toArrow()
    places = _places(sizes, wanted)
    rows = [(key, bucket) for key, bucket in places]
    spark = values.sparkSession
    chosen = F.broadcast(spark.createDataFrame(rows, "key bigint, bucket bigint"))

    def choose(table: pa.Table) -> pa.Table:
        key, bucket = (table[name][0].as_py() for name in ("key", "bucket"))
        before, indices = places[key, bucket]
        one = Distribution.of_counted(table["value"].to_numpy(), table["n"].to_numpy())
        found = one.order_statistics([index - before for index in indices])
        samples = [found[index - before] for index in indices]
        return pa.table({"key": [key] * len(indices), "index": indices, "value": samples})

    near = known.join(chosen, ["key", "bucket"], "semi").groupBy("key", "bucket")
    found: dict[int, dict[int, int]] = {key: {} for key in wanted}
    for row in near.applyInArrow(choose, _SAMPLES).collect():
        found[row.key][row["index"]] = row.value
    return found


def _bucket(value: Column) -> Column:
    """Return a number that never falls as values rise."""
    size = F.floor(F.lit(_PER_DOUBLING) * F.log2(F.abs(value.cast("double")) + 1))
    return F.when(value < 0, -size).otherwise(size).cast("bigint")


def _places(
    sizes: pa.Table, wanted: Mapping[int, Sequence[int]]
) -> dict[tuple[int, int], tuple[int, list[int]]]:
    """Return by (key, bucket) how many samples are before the bucket, and which are wanted."""
    found = {}
    keys, buckets, counts = (sizes[name].to_numpy() for name in ("key", "bucket", "n"))
    for key, indices in wanted.items():
        chosen = np.flatnonzero(keys == key)
        chosen = chosen[np.argsort(buckets[chosen])]
        ends = np.cumsum(counts[chosen])
        for number, of_bucket in groupby(
            indices, key=lambda index: int(np.searchsorted(ends, index, "right"))
        ):
            before = int(ends[number] - counts[chosen[number]])
            found[key, int(buckets[chosen[number]])] = before, list(of_bucket)
    return found
