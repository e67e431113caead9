"""The folder of a job's results: tables, summaries and comparisons."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.compare.sets import changes_of, compare_figures
from quiver_fast.analysis.export.json_text import json_text
from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.errors import UsageError
from spark_analysis import schema

MARK = "_COMMITTED"
RECORDS = "records"
_PARTITIONS = ("run", "role", "kind")


def check_free(output: Path) -> None:
    """See to it that nothing but an earlier job's results is replaced.

    Raises:
        UsageError: something else is there.
    """
    if output.exists() and not output.is_dir():
        raise UsageError(f"'{output}' is not a folder")
    if output.is_dir() and any(output.iterdir()) and not (output / MARK).is_file():
        raise UsageError(f"'{output}' is not empty and not the output of a job")


def write_records(records: DataFrame, folder: Path) -> None:
    """Write rows of ``RECORDS``."""
    write_table(records, folder, *_PARTITIONS)


def write_statistics(
    spark: SparkSession, statistics: DataFrame, target: Path, bases: Sequence[Path]
) -> None:
    """Write rows of ``ARROWS``, summaries and comparisons into ``target``."""
    write_table(statistics, target / "arrows")
    arrows = spark.read.schema(schema.ARROWS).parquet(str(target / "arrows"))
    for row in arrows.select("run", "arrow", "summary").toLocalIterator():
        folder = target / "summaries" / row.run
        folder.mkdir(parents=True, exist_ok=True)
        _write_json(folder / f"{row.arrow}-summary.json", json.loads(row.summary))
    _write_comparisons(spark, target, bases)


def _write_comparisons(spark: SparkSession, target: Path, bases: Sequence[Path]) -> None:
    now = list(_figures(spark, target))
    earlier = [figures for base in bases for figures in _figures(spark, base)]
    if bases:
        _write_json(target / "comparison.json", compare_figures(earlier, now))
    found = changes_of([*earlier, *now])
    if found is not None:
        _write_json(target / "changes.json", found)


def _figures(spark: SparkSession, folder: Path) -> Iterator[RunFigures]:
    """Yield the figures of each run: a row per second, not per message."""
    rows = spark.read.schema(schema.ARROWS).parquet(str(folder / "arrows"))
    chosen = rows.where(F.col("figures").isNotNull()).orderBy("run", "arrow")
    for row in chosen.select("figures").toLocalIterator():
        yield figures_from_json(row.figures)


def write_table(table: DataFrame, folder: Path, *partitions: str) -> None:
    """Write the rows of a table, in folders by the columns ``partitions``."""
    table.write.mode("overwrite").partitionBy(*partitions).parquet(str(folder))


def _write_json(path: Path, document: Any) -> None:
    path.write_text(json_text(document) + "\n")


def figures_to_json(figures: RunFigures) -> str:
    """Return the figures of a run as text."""
    return json.dumps(asdict(figures))


def figures_from_json(text: str) -> RunFigures:
    """Return the figures that :func:`figures_to_json` got."""
    return RunFigures(**json.loads(text))
