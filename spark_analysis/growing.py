"""Results that grow with their records: facts of new records are added to those before.

Where no message has to meet another (one end, no ids), only new records are looked at. Other
runs are analysed again, from their Parquet, whenever they have grown by an eighth: so every
record is looked at nine times at most, however long a run is followed. At the end all are.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)

from quiver_fast.analysis.bounds import RunBounds
from spark_analysis import schema, transforms
from spark_analysis.facts import added_up, facts
from spark_analysis.files import RecordFile, parts_of
from spark_analysis.fold import foldable_runs, folded_records, top_stamps
from spark_analysis.output import (
    RECORDS,
    arrow_statistics,
    write_records,
    write_statistics,
    write_table,
)
from spark_analysis.placing import replace
from spark_analysis.results import bounds_of_runs
from spark_analysis.session import fit_partitions

__all__ = ["grow", "renew"]

# Beside the facts that it is of, so that both are replaced in one step.
_STATE = "_state.json"
_PART = ".part"
_FACTS, _ARROWS = "facts", "arrows"
# A run is analysed again when it has grown by one in so many.
_SHARE = 8


@dataclass
class _Run:
    """What is known of a run: its form, its lines, and how many of them its facts are of."""

    form: str = ""
    lines: int = 0
    analysed: int = 0


@dataclass
class _State:
    batch: int = -1
    runs: dict[str, _Run] = field(default_factory=dict)

    @classmethod
    def of(cls, output: Path) -> _State:
        place = output / _FACTS / _STATE
        if not place.exists():
            return cls()
        found = json.loads(place.read_text())
        return cls(found["batch"], {name: _Run(**run) for name, run in found["runs"].items()})

    def write(self, folder: Path) -> None:
        (folder / _STATE).write_text(json.dumps(asdict(self)))


def grow(batch: DataFrame, number: int, files: Sequence[RecordFile], output: Path) -> None:
    """Add the records of a batch to the results in ``output``.

    A batch that came before is not added again; what the results then lack is made.

    Args:
        batch: rows of ``RECORDS``.
        number: of the batch.
        files: all that are followed.
        output: the folder of results.

    Raises:
        OSError: a file cannot be read or written.
        QuiverError: a summary beside the records is damaged.
    """
    state, spark = _State.of(output), batch.sparkSession
    if state.batch >= number:
        _publish(spark, files, output, None)
        return
    folder = output / RECORDS / f"batch={number}"
    write_records(batch, folder)
    extents = _records(spark, folder).where(F.col("kind") == schema.EXTENT)
    for row in extents.groupBy("run").agg(F.sum("n").alias("lines")).collect():
        state.runs.setdefault(row.run, _Run()).lines += row.lines
    state.batch = number
    _Update(spark, files, output, state).make(batch)


def renew(spark: SparkSession, files: Sequence[RecordFile], output: Path) -> None:
    """Bring the results of every run up to its last record, and its summary as it is now."""
    state = _State.of(output)
    if state.runs:
        _Update(spark, files, output, state, at_last=True).make(None)


class _Update:
    """One renewal of the results."""

    def __init__(
        self,
        spark: SparkSession,
        files: Sequence[RecordFile],
        output: Path,
        state: _State,
        *,
        at_last: bool = False,
    ) -> None:
        self._spark, self._output, self._state = spark, output, state
        self._files = [file for file in files if file.run in state.runs]
        self._bounds = bounds_of_runs(self._files)
        # Spark's adaptive execution is off in batches of a stream.
        fit_partitions(spark, parts_of(self._files))
        forms = _forms(self._files, self._bounds)
        runs = state.runs.items()
        same = {name for name, run in runs if run.form in ("", forms[name])}
        grown = {name for name, run in runs if run.lines > run.analysed}
        self._added = grown & same & foldable_runs(self._files)
        due = {name for name, run in runs if _SHARE * (run.lines - run.analysed) >= run.analysed}
        if at_last:
            due = grown
        self._again = (set(state.runs) - same) | ((grown & due) - self._added)
        for name in self._added | self._again:
            run = state.runs[name]
            run.form, run.analysed = forms[name], run.lines

    def make(self, new: DataFrame | None) -> None:
        changed = self._added | self._again
        if changed or new is not None:
            self._write_facts(new)
        # At last also what a job that was killed had not published any more.
        runs = None if new is None else changed
        _publish(self._spark, self._files, self._output, runs)

    def _write_facts(self, new: DataFrame | None) -> None:
        part = self._output / _PART
        shutil.rmtree(part, ignore_errors=True)
        before = _facts_in(self._spark, self._output)
        with ExitStack() as stack:
            rest = F.col("run").isin(*(self._added | self._again))
            tables = [] if before is None else [before.where(~rest)]
            if self._again:
                every = _records(self._spark, self._output / RECORDS)
                mine, of_run = self._of(self._again)
                tables.append(stack.enter_context(facts(every.where(of_run), mine, self._bounds)))
            if self._added and new is not None:
                mine, of_run = self._of(self._added)
                kept = None if before is None else before.where(of_run)
                tops = {} if kept is None else top_stamps(kept)
                more = folded_records(new.where(of_run), mine, self._bounds, tops)
                found = stack.enter_context(more)
                tables.append(added_up(found if kept is None else kept.unionByName(found)))
            table = transforms.together(tables).select(*schema.FACTS.fieldNames())
            write_table(table.coalesce(1), part, "fact")
        self._state.write(part)
        replace(part, self._output / _FACTS)

    def _of(self, runs: set[str]) -> tuple[list[RecordFile], Column]:
        return [file for file in self._files if file.run in runs], F.col("run").isin(*runs)


def _publish(
    spark: SparkSession, files: Sequence[RecordFile], output: Path, changed: set[str] | None
) -> None:
    """Renew the statistics of runs whose facts changed; of all for None."""
    known = _facts_in(spark, output)
    if known is None:
        return
    arrows = output / _ARROWS
    runs = {file.run for file in files} if changed is None or not arrows.exists() else changed
    mine = [file for file in files if file.run in runs]
    of_run = F.col("run").isin(*runs)
    rows = arrow_statistics(known.where(of_run), mine, bounds_of_runs(mine))
    if arrows.exists():
        before = spark.read.schema(schema.ARROWS).parquet(str(arrows))
        rows = rows.unionByName(before.where(~of_run))
    part = output / _PART
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    write_statistics(spark, rows.coalesce(1), part, None)
    for result in part.iterdir():
        replace(result, output / result.name)


def _forms(files: Sequence[RecordFile], bounds: Mapping[str, RunBounds]) -> dict[str, str]:
    """Return in words all that facts of a run depend on besides its records."""
    found: dict[str, list[object]] = {}
    for file in sorted(files, key=lambda file: file.path):
        what = (file.path, file.arrow, file.record_format, file.operation, file.unit)
        found.setdefault(file.run, [bounds[file.run]]).append(what)
    return {run: repr(what) for run, what in found.items()}


def _records(spark: SparkSession, folder: Path) -> DataFrame:
    rows = spark.read.schema(schema.RECORDS).parquet(str(folder))
    return rows.select(*schema.RECORDS.fieldNames())


def _facts_in(spark: SparkSession, output: Path) -> DataFrame | None:
    if not (output / _FACTS).exists():
        return None
    rows = spark.read.schema(schema.FACTS).parquet(str(output / _FACTS))
    return rows.select(*schema.FACTS.fieldNames())
