"""What a job writes: tables and summaries, whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.compare.sets import changes_of, compare_figures
from quiver_fast.analysis.figures.run_data import RunFigures
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.cli.shared.json_text import json_text
from quiver_fast.errors import UsageError
from spark_analysis import schema
from spark_analysis.facts import all_facts
from spark_analysis.files import RecordFile, discover, parts_of
from spark_analysis.hadoop import settings_for
from spark_analysis.placing import new_part, recover, replace
from spark_analysis.reading import read_records
from spark_analysis.results import arrow_rows, bounds_of_runs, figures_from_json
from spark_analysis.session import fit_partitions
from spark_analysis.thinning import thinned_facts

MARK = "_COMMITTED"
RECORDS = "records"
_PARTITIONS = ("run", "role", "kind")


def analyze(
    spark: SparkSession, paths: Sequence[str], output: Path, bases: Sequence[Path] = ()
) -> None:
    """Analyse all records under ``paths`` into the folder ``output``.

    Args:
        spark: the session; its executors see ``paths`` and ``output`` by the same names.
        paths: files, folders, patterns.
        output: replaced if it is an earlier job's.
        bases: earlier jobs' folders, whose runs are one set to compare with. One that is
            named twice counts once.

    Raises:
        OSError: a file cannot be read or written.
        QuiverError: there are no records, or they are damaged, or ``output`` is taken.
        PySparkException: Spark failed.
    """
    check_free(output)
    for base in bases:
        if not (base / MARK).is_file():
            raise UsageError(f"'{base}' is not the output of a job")
    bases = list(dict.fromkeys(base.resolve() for base in bases))
    files = discover(paths, settings_for(spark, paths))
    output = output.absolute()
    recover(output)
    part = new_part(output)
    try:
        write_records(read_records(spark, files), part / RECORDS)
        write_results(spark, part / RECORDS, part, files, bases)
        (part / MARK).touch()
        replace(part, output)
    finally:
        shutil.rmtree(part, ignore_errors=True)


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


def write_results(
    spark: SparkSession,
    source: Path,
    target: Path,
    files: Sequence[RecordFile],
    bases: Sequence[Path],
) -> None:
    """Compute everything else from the records in ``source`` into ``target``."""
    fit_partitions(spark, parts_of(files))
    columns = schema.RECORDS.fieldNames()
    records = spark.read.schema(schema.RECORDS).parquet(str(source)).select(*columns)
    bounds = bounds_of_runs(files)
    with all_facts(records, files, bounds) as table:
        write_table(table, target / "facts", "fact")
    known = spark.read.schema(schema.FACTS).parquet(str(target / "facts"))
    with arrow_statistics(known.select(*schema.FACTS.fieldNames()), files, bounds) as arrows:
        write_statistics(spark, arrows, target, bases)


def write_statistics(
    spark: SparkSession, statistics: DataFrame, target: Path, bases: Sequence[Path]
) -> None:
    """Write rows of ``ARROWS``, and what follows from them alone, into ``target``."""
    write_table(statistics, target / "arrows")
    arrows = spark.read.schema(schema.ARROWS).parquet(str(target / "arrows"))
    for row in arrows.select("run", "arrow", "summary").toLocalIterator():
        folder = target / "summaries" / row.run
        folder.mkdir(parents=True, exist_ok=True)
        _write_json(folder / f"{row.arrow}-summary.json", json.loads(row.summary))
    _write_comparisons(spark, target, bases)


@contextmanager
def arrow_statistics(
    table: DataFrame, files: Sequence[RecordFile], bounds: Mapping[str, RunBounds]
) -> Iterator[DataFrame]:
    """Give the rows of ``ARROWS``: each run's are made where its facts are.

    Args:
        table: rows of ``FACTS``, which are read several times.
        files: those of the runs.
        bounds: what is known of each run.
    """
    of_run: dict[str, list[RecordFile]] = {}
    for file in files:
        of_run.setdefault(file.run, []).append(file)
    rows = schema.to_arrow(schema.ARROWS)

    def statistics(facts_of_run: pa.Table) -> pa.Table:
        run = facts_of_run["run"][0].as_py()
        return pa.Table.from_pylist(list(arrow_rows(of_run[run], facts_of_run, bounds[run])), rows)

    with thinned_facts(table, statistics) as few:
        yield few.groupBy("run").applyInArrow(statistics, schema.ARROWS)


def _write_comparisons(spark: SparkSession, target: Path, bases: Sequence[Path]) -> None:
    now = list(_figures(spark, target))
    earlier = [figures for base in bases for figures in _figures(spark, base)]
    if bases:
        _write_json(target / "comparison.json", compare_figures(earlier, now))
    found = changes_of([*earlier, *now])
    if found is not None:
        _write_json(target / "changes.json", found)


def _figures(spark: SparkSession, folder: Path) -> Iterator[RunFigures]:
    """Yield what the series needs of each run: a row per second, not per message."""
    rows = spark.read.schema(schema.ARROWS).parquet(str(folder / "arrows"))
    chosen = rows.where(F.col("figures").isNotNull()).orderBy("run", "arrow")
    for row in chosen.select("figures").toLocalIterator():
        yield figures_from_json(row.figures)


def write_table(table: DataFrame, folder: Path, *partitions: str) -> None:
    """Write the rows of a table, in folders by the columns ``partitions``."""
    table.write.mode("overwrite").partitionBy(*partitions).parquet(str(folder))


def _write_json(path: Path, document: Any) -> None:
    path.write_text(json_text(document) + "\n")
