"""Results that grow with their records: facts of new records are added to those before.

A batch of a run with one end reads its new records, and of ids the earlier ones near them. A batch
of a run with both ends also reads all earlier records near the new ones (range_facts.py). Other
runs, such as those with hashed ids, are analysed again from their Parquet whenever they have grown
by an eighth: each record is then read at most nine times on average, however long a run is
followed. At the end every run is up to date.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (the name that all of Spark uses)
from pyspark.sql.readwriter import DataFrameReader
from pyspark.sql.types import StructType

from quiver_fast.analysis.model.bounds import RunBounds
from spark_analysis import schema, transforms
from spark_analysis.columns import together
from spark_analysis.facts import added_up, facts
from spark_analysis.files import RecordFile, foldable_runs, parts_of, runs_with_both_ends
from spark_analysis.fold import folded_records, top_stamps
from spark_analysis.job_folder import RECORDS, write_records, write_statistics, write_table
from spark_analysis.range_facts import MOST_RANGES, Ends, RangeFacts, can_have_ranges, ends_known
from spark_analysis.replacement import replace
from spark_analysis.results import arrow_statistics, bounds_of_runs
from spark_analysis.schema import RECEIVER, RECONCILED, SENDER
from spark_analysis.session import fit_partitions

# The state lies in the folder of its facts, so that one step replaces both.
_STATE = "_state.json"
_PART = ".part"
_FACTS, _ARROWS = "facts", "arrows"
# The folder of the rows of ranges, beside those of the facts, and the one where they are written.
_RANGES, _RANGES_PART = "_ranges", ".ranges"
# A run is analysed again when it has grown by this fraction: an eighth.
_SHARE = 8
# Flags of a run: each is set once one of its records is of that kind.
_SEEN = ("settles", "idless", "hashed", "streams")


@dataclass
class _Run:
    """The state of a run: its form, its lines, and how many of them its facts cover."""

    form: str = ""
    lines: int = 0
    analysed: int = 0
    # The longest of its rows; whether it has settlements, records without ids, hashed ids,
    # which have no ranges, and lines of streaming mode.
    longest: int = 0
    settles: bool = False
    idless: bool = False
    hashed: bool = False
    streams: bool = False
    # These are for runs that are kept by ranges.
    ends: Ends | None = None

    def add(self, found: Row) -> None:
        """Add the findings in new records."""
        self.lines += found.lines
        self.longest = max(self.longest, found.longest or 0)
        for name in _SEEN:
            setattr(self, name, getattr(self, name) or getattr(found, name))
        # A clock was set back: the facts of ranges are of another start.
        if self.ends is not None and self.ends.is_before(found.earliest):
            self.ends = None


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
        return cls(found["batch"], {name: _run_of(run) for name, run in found["runs"].items()})

    def write(self, folder: Path) -> None:
        (folder / _STATE).write_text(json.dumps(asdict(self)))


def _run_of(found: dict[str, Any]) -> _Run:
    """Return the run of which ``asdict`` made this."""
    ends = found["ends"]
    return _Run(**(found | {"ends": None if ends is None else Ends(**ends)}))


def grow(batch: DataFrame, number: int, files: Sequence[RecordFile], output: Path) -> None:
    """Add the records of a batch to the results in ``output``.

    A batch that came before is not added again; missing results are made then.

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
    # Runs with earlier records that were put off need more than this batch to be up to date.
    current = {name for name, run in state.runs.items() if run.lines == run.analysed}
    for row in _seen(_records(spark, folder)).collect():
        if row.run not in state.runs:
            current.add(row.run)
        state.runs.setdefault(row.run, _Run()).add(row)
    state.batch = number
    _Update(spark, files, output, state, folder, current).make(batch)


def renew(spark: SparkSession, files: Sequence[RecordFile], output: Path) -> None:
    """Bring the results of every run up to its last record, and its summary as it is now."""
    state = _State.of(output)
    if state.runs:
        _Update(spark, files, output, state, None, set()).make(None)


def _seen(records: DataFrame) -> DataFrame:
    """Return the findings for :meth:`_Run.add`, by run."""
    kind, extent = F.col("kind"), F.col("kind") == schema.EXTENT
    hashed = extent & (F.coalesce("id_high", F.lit(0)) < 0)
    sends = (F.col("role") == SENDER) & kind.isin(schema.EXTENT, schema.CLOCK)
    return records.groupBy("run").agg(
        F.sum(F.when(extent, F.col("n"))).alias("lines"),
        F.max(F.when(~extent & F.col("id").isNotNull(), F.col("n"))).alias("longest"),
        F.bool_or(kind.isin(schema.SETTLED, schema.UNMATCHED)).alias("settles"),
        F.bool_or(extent & F.col("sent").isNotNull() & F.col("id").isNull()).alias("idless"),
        F.bool_or(hashed).alias("hashed"),
        F.bool_or(kind == schema.STREAM).alias("streams"),
        F.min(F.when(sends, F.col("sent"))).alias("earliest"),
    )


class _Update:
    """One renewal of the results.

    Args:
        spark: the session.
        files: all that are followed.
        output: the folder of results.
        state: with the new records in it.
        folder: of the new records; None if only records that were put off are analysed.
        current: the runs whose facts are of all records but the new ones.
    """

    def __init__(
        self,
        spark: SparkSession,
        files: Sequence[RecordFile],
        output: Path,
        state: _State,
        folder: Path | None,
        current: Set[str],
    ) -> None:
        self._spark, self._output, self._state, self._folder = spark, output, state, folder
        self._files = [file for file in files if file.run in state.runs]
        self._bounds = bounds_of_runs(self._files)
        # Spark's adaptive execution is off in batches of a stream.
        fit_partitions(spark, parts_of(self._files))
        forms = _forms(self._files, self._bounds, state.runs)
        runs = state.runs.items()
        same = {name for name, run in runs if run.form in ("", forms[name])}
        grown = {name for name, run in runs if run.lines > run.analysed}
        more = grown & same & current
        self._ids = self._ids_of_new(more & _alone_by_ids(self._files))
        self._added = more & (foldable_runs(self._files) | set(self._ids))
        meet = more - self._added
        self._near = {name for name in meet if state.runs[name].ends is not None}
        self._range_facts = self._facts_of(self._near)
        self._touched = self._ranges_of_new()
        due = {name for name, run in runs if _SHARE * (run.lines - run.analysed) >= run.analysed}
        if folder is None:
            due = grown
        self._again = (set(state.runs) - same) | ((grown & due) - self._added - self._near)
        self._whole = self._kept_by_ranges(self._again)
        for name in self._added | self._near | self._again:
            run = state.runs[name]
            run.form, run.analysed = forms[name], run.lines

    def make(self, new: DataFrame | None) -> None:
        changed = self._added | self._near | self._again
        if changed or new is not None:
            self._write_facts(new)
        # At the end also the results that a killed job did not publish.
        runs = None if new is None else changed
        _publish(self._spark, self._files, self._output, runs)

    def _facts_of(self, runs: set[str]) -> RangeFacts:
        ends = {name: self._state.runs[name].ends for name in runs}
        known = {name: end for name, end in ends.items() if end is not None}
        return RangeFacts(self._spark, self._of(runs)[0], self._bounds, known)

    def _ids_of_new(self, runs: set[str]) -> dict[str, set[int]]:
        """Return which runs with one end and ids can be added to, and the ranges of new ids."""
        runs = {name for name in runs if not self._state.runs[name].hashed}
        if self._folder is None or not runs:
            return {}
        new = _records(self._spark, self._folder).where(self._compares_ids(runs))
        found = self._alone(runs).touched_ids(new)
        # Without settlements and receipts there is nothing to compare.
        every = {name: found.get(name, set()) for name in runs}
        return {name: ranges for name, ranges in every.items() if len(ranges) <= MOST_RANGES}

    def _alone(self, runs: set[str]) -> RangeFacts:
        return RangeFacts(self._spark, self._of(runs)[0], self._bounds, {})

    def _compares_ids(self, runs: Iterable[str]) -> Column:
        """Return whether rows are of runs of these of which a message's id may come again."""
        settling = [name for name in runs if self._state.runs[name].settles]
        receives = F.col("run").isin(*runs) & (F.col("role") == RECEIVER)
        return receives | F.col("run").isin(*settling)

    def _ranges_of_new(self) -> dict[str, set[int]]:
        """Return the ranges that have new records; runs where these are many are left out."""
        if self._folder is None or not self._near:
            return {}
        new = _records(self._spark, self._folder).where(self._of(self._near)[1])
        found = self._range_facts.touched(new)
        near = {name for name, ranges in found.items() if len(ranges) <= MOST_RANGES}
        if near != self._near:
            self._near, self._range_facts = near, self._facts_of(near)
        return {name: found[name] for name in near}

    def _kept_by_ranges(self, runs: set[str]) -> set[str]:
        """Return which runs, all of them analysed as a whole, can be kept by ranges from now on."""
        states = self._state.runs
        files = {name: [f for f in self._files if f.run == name] for name in runs}
        found = {
            name
            for name in runs
            if not states[name].hashed and can_have_ranges(files[name], self._bounds[name])
        }
        every = _records(self._spark, self._output / RECORDS).where(self._of(found)[1])
        known = ends_known(every, {name: self._bounds[name] for name in found}) if found else {}
        for name in runs:
            states[name].ends = known.get(name)
        return set(known)

    def _write_facts(self, new: DataFrame | None) -> None:
        part = self._output / _PART
        shutil.rmtree(part, ignore_errors=True)
        before = _facts_in(self._spark, self._output)
        with ExitStack() as stack:
            if before is not None:
                # Several parts of the new table need it: it is read once.
                stack.callback(before.persist().unpersist)
            rest = F.col("run").isin(*(self._added | self._near | self._again))
            tables = [] if before is None else [before.where(~rest)]
            if self._again - self._whole:
                every = _records(self._spark, self._output / RECORDS)
                mine, of_run = self._of(self._again - self._whole)
                tables.append(stack.enter_context(facts(every.where(of_run), mine, self._bounds)))
            if self._added and new is not None:
                mine, of_run = self._of(self._added)
                kept = None if before is None else before.where(of_run)
                tops = {} if kept is None else top_stamps(kept)
                more = folded_records(new.where(of_run), mine, self._bounds, tops)
                added = [stack.enter_context(more), *self._of_ids()]
                if kept is not None:
                    added.append(kept)
                tables.append(added_up(together(added)))
            ranges = self._output / _RANGES_PART
            shutil.rmtree(ranges, ignore_errors=True)
            if self._write_ranges(ranges):
                # Each fact reads all of them.
                found = self._spark.read.schema(RECONCILED).parquet(str(ranges)).persist()
                stack.callback(found.unpersist)
                tables += self._of_ranges(found, before)
            table = together(tables).select(*schema.FACTS.fieldNames())
            write_table(table.coalesce(1), part, "fact")
        if ranges.exists():
            ranges.rename(part / _RANGES)
        self._state.write(part)
        replace(part, self._output / _FACTS)

    def _write_ranges(self, folder: Path) -> bool:
        """Write the rows of all ranges to a folder of their own; say if a batch changed some."""
        spark, before = self._spark, self._output / _FACTS / _RANGES
        if not (self._touched or self._again):
            if before.exists():
                shutil.copytree(before, folder, copy_function=os.link)
            return False
        every = _records(spark, self._output / RECORDS)
        tables = [spark.createDataFrame([], RECONCILED)]
        if before.exists():
            kept = spark.read.schema(RECONCILED).parquet(str(before))
            kept = kept.where(~F.col("run").isin(*self._again))
            pairs = [(run, n) for run, ranges in self._touched.items() for n in ranges]
            if pairs:
                replaced = F.broadcast(spark.createDataFrame(pairs, "run string, range bigint"))
                kept = kept.join(replaced, ["run", "range"], "anti")
            tables.append(kept.select(*RECONCILED.fieldNames()))
        if self._touched:
            longest = {name: self._state.runs[name].longest for name in self._touched}
            near = self._range_facts.near(every, self._touched, longest)
            tables.append(self._range_facts.found(near, self._touched))
        if self._whole:
            of_run = every.where(self._of(self._whole)[1])
            tables.append(self._facts_of(self._whole).found(of_run, None))
        write_table(together(tables).coalesce(1), folder)
        return True

    def _of_ranges(self, found: DataFrame, before: DataFrame | None) -> list[DataFrame]:
        """Return the facts of the runs that are kept by ranges and have new records."""
        tables = []
        if self._near and before is not None and self._folder is not None:
            of_run = self._of(self._near)[1]
            new = _records(self._spark, self._folder).where(of_run)
            kept = self._range_facts.without_ranges(before.where(of_run))
            more = [
                kept,
                *self._range_facts.added(new),
                *self._settlements(new),
                *self._streams(new),
            ]
            tables.append(added_up(together(more)))
            tables += self._range_facts.of_ranges(found.where(of_run))
        if self._whole:
            of_run = self._of(self._whole)[1]
            every = _records(self._spark, self._output / RECORDS).where(of_run)
            range_facts = self._facts_of(self._whole)
            tables += [*range_facts.added(every), *range_facts.of_ranges(found.where(of_run))]
            streaming = {name for name in self._whole if self._state.runs[name].streams}
            if streaming:
                nothing = self._spark.createDataFrame([], schema.RECORDS)
                lines = every.where(F.col("run").isin(*streaming))
                tables.append(self._facts_of(streaming).streams(nothing, lines))
            settling = {name for name in self._whole if self._state.runs[name].settles}
            if settling:
                settled = every.where(F.col("run").isin(*settling))
                tables.append(transforms.settlements_across(settled))
        return tables

    def _of_ids(self) -> list[DataFrame]:
        """Return the facts of the ids of a batch of runs with one end."""
        chosen = [name for name in self._ids if self._ids[name]]
        if not chosen or self._folder is None:
            return []
        new = _records(self._spark, self._folder).where(self._compares_ids(chosen))
        old = self._earlier().where(self._compares_ids(chosen))
        longest = {name: self._state.runs[name].longest for name in chosen}
        ranges = {name: self._ids[name] for name in chosen}
        settled = transforms.sums(new.where(F.col("kind") == schema.SETTLED))
        range_facts = self._alone(set(chosen))
        return [
            settled, range_facts.settlements(old, new, longest),
            range_facts.distinct(old, new, ranges, longest),
        ]  # fmt: skip

    def _settlements(self, new: DataFrame) -> list[DataFrame]:
        """Return by how much a batch changes the facts of settlements over splits."""
        runs = {name for name in self._near if self._state.runs[name].settles}
        if not runs:
            return []
        of_run = F.col("run").isin(*runs)
        longest = {name: self._state.runs[name].longest for name in runs}
        old = self._earlier().where(of_run)
        return [self._range_facts.settlements(old, new.where(of_run), longest)]

    def _streams(self, new: DataFrame) -> list[DataFrame]:
        """Return by how much a batch changes the facts of lines of streaming mode."""
        runs = {name for name in self._near if self._state.runs[name].streams}
        if not runs:
            return []
        of_run = F.col("run").isin(*runs)
        return [self._facts_of(runs).streams(self._earlier().where(of_run), new.where(of_run))]

    def _earlier(self) -> DataFrame:
        """Return the records of the batches before."""
        folders = (self._output / RECORDS).glob("batch=*")
        before = [str(folder) for folder in folders if folder != self._folder]
        if not before:
            return self._spark.createDataFrame([], schema.RECORDS)
        reader = self._spark.read.option("basePath", str(self._output / RECORDS))
        return _rows(reader, schema.RECORDS, *before)

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
    part = output / _PART
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    with ExitStack() as stack:
        facts_of_runs = known.where(of_run).persist()
        stack.callback(facts_of_runs.unpersist)
        rows = stack.enter_context(arrow_statistics(facts_of_runs, mine, bounds_of_runs(mine)))
        if arrows.exists():
            before = spark.read.schema(schema.ARROWS).parquet(str(arrows))
            rows = rows.unionByName(before.where(~of_run))
        write_statistics(spark, rows.coalesce(1), part, ())
    for result in part.iterdir():
        replace(result, output / result.name)


def _forms(
    files: Sequence[RecordFile], bounds: Mapping[str, RunBounds], runs: Mapping[str, _Run]
) -> dict[str, str]:
    """Return in words all that facts of a run depend on besides its single records."""
    found: dict[str, list[object]] = {}
    for file in sorted(files, key=lambda file: file.path):
        what = (file.path, file.arrow, file.record_format, file.operation, file.unit)
        run = runs[file.run]
        kinds = [getattr(run, name) for name in _SEEN]
        found.setdefault(file.run, [bounds[file.run], kinds]).append(what)
    return {run: repr(what) for run, what in found.items()}


def _alone_by_ids(files: Sequence[RecordFile]) -> set[str]:
    """Return the runs with one end and ids."""
    both = runs_with_both_ends(files)
    return {file.run for file in files if file.has_ids} - set(both)


def _records(spark: SparkSession, folder: Path) -> DataFrame:
    return _rows(spark.read, schema.RECORDS, str(folder))


def _facts_in(spark: SparkSession, output: Path) -> DataFrame | None:
    if not (output / _FACTS).exists():
        return None
    return _rows(spark.read, schema.FACTS, str(output / _FACTS))


def _rows(reader: DataFrameReader, columns: StructType, *folders: str) -> DataFrame:
    return reader.schema(columns).parquet(*folders).select(*columns.fieldNames())
