"""Summary documents of upstream's shape, from the few figures of each arrow.

Only tables with a row per arrow or run come to the driver.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.delivery import BY_IDS, BY_TIMES
from quiver_fast.analysis.latency import NINES, QUARTILES
from quiver_fast.analysis.units import PER_SECOND, per_millisecond
from quiver_fast.errors import RecordError
from spark_analysis import schema, transforms
from spark_analysis.delivery import delivery
from spark_analysis.splits import RecordFile, is_cut_short

__all__ = ["RANKS", "figures", "summaries"]

RANKS = (0, 25, 50, 75, 90, 99, 99.9, 99.99, 99.999, 100)
_METHODS = {
    "ms": BY_TIMES,
    "us": "per-microsecond lower bound",
    "ns": "per-nanosecond lower bound",
}

Key = tuple[str, str]


def figures(records: DataFrame, histogram: DataFrame) -> DataFrame:
    """Return one row per arrow: count, rate, and for receivers the latency figures.

    Columns: run, arrow, unit, role, n, first, last, rate, count, negative, mean, stddev,
    percentiles (an array, by ``RANKS``). ``rate`` = n / (last - first), messages/s.
    """
    extents = transforms.extents(records)
    span = (F.col("last") - F.col("first")) / transforms.ticks_per_second()
    keys = list(transforms.ARROW)
    return (
        extents.withColumn("rate", F.when(span > 0, F.col("n") / span))
        .join(transforms.moments(histogram), keys, "left")
        .join(transforms.percentiles(histogram, RANKS), keys, "left")
    )


def summaries(
    records: DataFrame, arrows: DataFrame, files: Sequence[RecordFile]
) -> dict[Key, dict[str, Any]]:
    """Return the summary document of each arrow, by (run, arrow).

    Args:
        records: rows of ``RECORDS``.
        arrows: :func:`figures` of them.
        files: the files that they were read from.

    Raises:
        RecordError: zstd data is damaged.
    """
    found = {(row.run, row.arrow): row for row in arrows.collect()}
    deliveries = {row.run: row for row in delivery(records).collect()}
    settlements = _settlements(records)
    faults = _faults(records)
    documents: dict[Key, dict[str, Any]] = {}
    for file in files:
        key = (file.run, file.arrow)
        row = found.get(key)
        document = {"config": _config(file), "results": _results(row, file)}
        if row is not None and row.percentiles is not None:
            document["latency"] = _latency(row, row.unit)
        if file.operation == "receive" and file.run in deliveries:
            document["delivery"] = _delivery(deliveries[file.run])
        if key in settlements:
            document["settlement"] = settlements[key]
        document["records"] = _records(file, key in settlements, faults.get(key))
        documents[key] = document
    return documents


def _config(file: RecordFile) -> dict[str, Any]:
    """Return the configuration of the summary beside the records, or what is known."""
    path = Path(file.path)
    beside = path.with_name(f"{file.arrow}-summary.json")
    if not beside.is_file():
        return {"operation": file.operation, "output_dir": str(path.parent)}
    try:
        config = json.loads(beside.read_text())["config"]
    except (ValueError, KeyError, TypeError) as error:
        raise RecordError(f"{beside}: not a summary: {error}") from None
    return dict(config)


def _results(row: Row | None, file: RecordFile) -> dict[str, Any]:
    """Return upstream's results; times and latencies in milliseconds, truncated."""
    results: dict[str, Any] = {
        "first_send_time": None,
        "last_send_time": None,
        "first_receive_time": None,
        "last_receive_time": None,
        "message_count": 0 if row is None else row.n,
        "message_rate": None,
        "latency_average": None,
        "latency_quartiles": None,
        "latency_nines": None,
    }
    if row is None:
        return results
    ticks = per_millisecond(row.unit)
    event = "send" if file.operation == "send" else "receive"
    results[f"first_{event}_time"] = row["first"] // ticks
    results[f"last_{event}_time"] = row["last"] // ticks
    if row["last"] > row["first"]:
        seconds = (row["last"] - row["first"]) / PER_SECOND[row.unit]
        results["message_rate"] = round(row.n / seconds)
    if row.percentiles is not None:
        by_rank = dict(zip(RANKS, row.percentiles, strict=True))
        results["latency_average"] = row.mean / ticks
        results["latency_quartiles"] = [int(by_rank[rank] / ticks) for rank in QUARTILES]
        results["latency_nines"] = [int(by_rank[rank] / ticks) for rank in NINES]
    return results


def _latency(row: Row, unit: str) -> dict[str, Any]:
    """Return what :func:`quiver_fast.analysis.latency.exact_latency` does."""
    return {
        "unit": unit,
        "count": row["count"],
        "negative": row.negative,
        "mean": row["mean"],
        "stddev": row.stddev,
        "percentiles": dict(zip(map(str, RANKS), row.percentiles, strict=True)),
    }


def _delivery(row: Row) -> dict[str, Any]:
    counts = row.asDict()
    names = ("sent", "received", "foreign", "lost", "duplicate", "reordered", "negative_latency")
    method = BY_IDS if row.by_ids else _METHODS[row.unit]
    return {"method": method, **{name: counts[name] for name in names}}


def _settlements(records: DataFrame) -> dict[Key, dict[str, Any]]:
    residuals = transforms.settlement_residuals(records).cache()
    histogram = transforms.settlement_histograms(records, residuals).cache()
    found: dict[Key, dict[str, Any]] = {}
    for name, chosen in (("all", histogram), ("sampled", histogram.where("sampled"))):
        keys = list(transforms.ARROW)
        ranked = transforms.percentiles(chosen, RANKS)
        for row in transforms.moments(chosen).join(ranked, keys).collect():
            found.setdefault((row.run, row.arrow), {})[name] = _latency(row, row.unit)
    for section in found.values():
        section.update(unsettled=0, unmatched=0)
    for row in transforms.unsettled(residuals).collect():
        section = found.setdefault((row.run, row.arrow), {})
        section.update(unsettled=row.unsettled, unmatched=row.unmatched)
    residuals.unpersist()
    histogram.unpersist()
    return found


def _faults(records: DataFrame) -> dict[Key, dict[str, int]]:
    rows = records.where(F.col("kind").isin(schema.BAD, schema.TRUNCATED))
    counted = rows.groupBy("run", "arrow", "kind").agg(F.sum("n").alias("n")).collect()
    found: dict[Key, dict[str, int]] = {}
    for row in counted:
        found.setdefault((row.run, row.arrow), {})[row.kind] = row.n
    return found


def _records(file: RecordFile, settles: bool, faults: dict[str, int] | None) -> dict[str, Any]:
    faults = faults or {}
    return {
        "format": "v2" if settles else file.record_format,
        "time_unit": file.unit,
        "malformed": faults.get(schema.BAD, 0),
        "truncated": schema.TRUNCATED in faults or is_cut_short(file),
    }
