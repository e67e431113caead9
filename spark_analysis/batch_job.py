"""A job over files that are whole: its results replace earlier ones whole, or not at all."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.errors import UsageError
from spark_analysis import schema
from spark_analysis.columns import together
from spark_analysis.facts import added_up, facts
from spark_analysis.file_systems import settings_for
from spark_analysis.files import (
    RecordFile,
    discover,
    foldable_runs,
    parts_of,
    splits_of,
)
from spark_analysis.fold import folded_facts
from spark_analysis.job_folder import (
    MARK,
    RECORDS,
    check_free,
    write_records,
    write_statistics,
    write_table,
)
from spark_analysis.record_rows import read_records
from spark_analysis.replacement import new_part, recover, replace
from spark_analysis.results import arrow_statistics, bounds_of_runs
from spark_analysis.session import fit_partitions


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
        _write_results(spark, part / RECORDS, part, files, bases)
        (part / MARK).touch()
        replace(part, output)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _write_results(
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
    with _all_facts(records, files, bounds) as table:
        write_table(table, target / "facts", "fact")
    known = spark.read.schema(schema.FACTS).parquet(str(target / "facts"))
    with arrow_statistics(known.select(*schema.FACTS.fieldNames()), files, bounds) as arrows:
        write_statistics(spark, arrows, target, bases)


@contextmanager
def _all_facts(
    records: DataFrame,
    files: Sequence[RecordFile],
    bounds: Mapping[str, RunBounds],
) -> Iterator[DataFrame]:
    """Give the facts of all runs: folded from the text where that can be, else from the rows.

    Args:
        records: rows of ``RECORDS``.
        files: the files that they are from.
        bounds: the bounds of each run, by its name.
    """
    alone = foldable_runs(files)
    with ExitStack() as stack:
        tables = []
        if alone:
            splits = [split for file in files if file.run in alone for split in splits_of(file)]
            found = stack.enter_context(folded_facts(records.sparkSession, splits, bounds))
            tables.append(added_up(found))
        rest = [file for file in files if file.run not in alone]
        if rest:
            met = records.where(~F.col("run").isin(*alone))
            tables.append(stack.enter_context(facts(met, rest, bounds)))
        yield together(tables)
