"""The statistics of one run, made in a task where its facts are."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)
from pyspark.sql.types import BinaryType, StructField, StructType

from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.figures.run_data import AnalysedRun, RunData
from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.figures.warmup import measured_since
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.read.sources import Wanted
from quiver_fast.errors import QuiverError
from spark_analysis import fact_names, schema
from spark_analysis.digests import thinned_facts
from spark_analysis.files import RecordFile
from spark_analysis.results import file_analysis

# The result of a task for one run: an AnalysedRun, or the error in its records.
_ANSWER = StructType([StructField("answer", BinaryType(), nullable=False)])


def analysed(
    found: DataFrame,
    analyse: Callable[[pa.Table], AnalysedRun],
    described: Sequence[RecordFile],
    wanted: Wanted,
    bounds: RunBounds,
) -> AnalysedRun:
    """Have a task make the statistics of the facts of a run.

    Args:
        found: rows of ``FACTS``.
        analyse: makes them of its facts.
        described: the files of the run, the sender's first.
        wanted: the outputs that are wanted of it.
        bounds: its bounds.

    Raises:
        QuiverError: ``analyse`` did.
        OSError: likewise.
        PySparkException: Spark failed.
    """

    def statistics(table: pa.Table) -> AnalysedRun | Exception:
        try:
            return analyse(table)
        except (QuiverError, OSError) as error:
            return error

    def answers(table: pa.Table) -> pa.Table:
        return pa.table({"answer": [pickle.dumps(statistics(table))]})

    since = None if wanted.window_seconds is None else _since(found, described, bounds)
    with thinned_facts(found, statistics, wanted.window_seconds, since) as few:
        rows = few.groupBy("run").applyInArrow(answers, _ANSWER).collect()
    if not rows:  # all files are empty
        return analyse(schema.to_arrow(schema.FACTS).empty_table())
    # Our own executor pickled this, as it does with everything that Python computes for Spark.
    answer: AnalysedRun | Exception = pickle.loads(rows[0].answer)  # noqa: S301
    if isinstance(answer, Exception):
        raise answer
    return answer


def _since(found: DataFrame, described: Sequence[RecordFile], bounds: RunBounds) -> int | None:
    """Return the epoch second with which the figures begin; None for the first one."""
    if not bounds.warmup:
        return None
    begins = found.where(F.col("fact") == fact_names.FIRST).toArrow()
    # The sender comes first, where there is one.
    return measured_since(file_analysis(described[0], begins, bounds), bounds)


def with_statistics(run: RunData, wanted: Wanted) -> AnalysedRun:
    """Return a run with its statistics in place of its tables, which are large."""
    statistics = run_statistics(run, wanted.interval_seconds, wanted.window_seconds)
    small = shallow(run) | {"histogram": None, "settlement": None}
    return AnalysedRun(**small, statistics=statistics, figures=run_figures(run))


def shallow(run: RunData) -> dict[str, Any]:
    """Return the fields of a run by name, not copied."""
    return {field.name: getattr(run, field.name) for field in fields(run)}
