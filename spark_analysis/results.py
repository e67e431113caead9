"""From facts to statistics: the objects and the functions of :mod:`quiver_fast.analysis`.

Here facts become the objects that the local backend has after its pass over a file; the same
code then computes every figure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from quiver_fast.analysis.compare.sets import run_figures
from quiver_fast.analysis.figures.delivery import (
    BY_IDS,
    delivery_section,
    least_reordered,
    receiver_alone,
)
from quiver_fast.analysis.figures.file_analysis import FileAnalysis, Steps
from quiver_fast.analysis.figures.ledger import can_be_told
from quiver_fast.analysis.figures.ledger_lines import LedgerSums, longest_pauses, spans_of
from quiver_fast.analysis.figures.pair_results import in_unit
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.figures.sender_rate import end_of_sending
from quiver_fast.analysis.figures.settlement import Settlement
from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.analysis.figures.streams import Streams
from quiver_fast.analysis.figures.warmup import measured_since, without_warmup
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.columns import listed
from quiver_fast.analysis.model.distribution import Distribution, Int64Array
from quiver_fast.analysis.model.histogram import SecondHistogram
from quiver_fast.analysis.model.ranks import RANKS
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.local import with_missing
from quiver_fast.analysis.read.sources import run_bounds, run_data
from quiver_fast.analysis.tables.digests import DistributionDigest, Extent, HistogramDigest
from quiver_fast.analysis.tables.fates import NO_LINES, totals_of
from quiver_fast.analysis.tables.latencies import Histogram, Latencies
from quiver_fast.analysis.tables.order import ClockTimes
from quiver_fast.analysis.tables.spilled import HistogramRows, LatencyRows, SpilledHistogram
from quiver_fast.analysis.tables.ticks import Ticks
from quiver_fast.records import formats
from quiver_fast.records.frames import open_records
from spark_analysis import fact_names, schema
from spark_analysis.digests import WHOLE, part_named, thinned_facts
from spark_analysis.files import RecordFile
from spark_analysis.job_folder import figures_to_json
from spark_analysis.schema import RECEIVER, SENDER

_UNITS = {ticks: unit for unit, ticks in PER_SECOND.items()}
_COUNTS = (
    "sent", "received", "older", "foreign", "unreceived", "filtered", "unmatched", "duplicate",
    "reordered", "negative_latency",
)  # fmt: skip


class _Facts:
    """The facts of one arrow."""

    def __init__(self, table: pa.Table, arrow: str) -> None:
        self._table = table.filter(pc.equal(table["arrow"], arrow))

    def rows(self, *facts: str) -> tuple[Int64Array, Int64Array, Int64Array]:
        """Return (second, value, n) of the rows that say one of ``facts``; 0 where is null."""
        rows = self.table(*facts)
        second, value, n = (_numbers(rows[name]) for name in ("second", "value", "n"))
        return second, value, n

    def table(self, *facts: str) -> pa.Table:
        return self._table.filter(pc.is_in(self._table["fact"], pa.array(facts)))

    def digests(self) -> dict[tuple[str, Extent], DistributionDigest]:
        """Return the digests of distributions, by fact and extent."""
        rounded = self.table(fact_names.DIGEST_VALUES)
        found = {}
        for text in self.table(fact_names.DIGEST)["text"].to_pylist():
            document = json.loads(text)
            name = document.pop("name")
            rows = rounded.filter(pc.equal(rounded["text"], name))
            document["samples"] = {int(n): value for n, value in document["samples"].items()}
            values, n = (_numbers(rows[column]) for column in ("value", "n"))
            document["rounded"] = Distribution.of_counted(values, n)
            found[part_named(name)] = DistributionDigest(**document)
        return found

    def histogram(self, fact: str, unit: str) -> SecondHistogram | SpilledHistogram:
        """Return the latencies that a fact says, added up."""
        rows = HistogramRows(unit)
        rows.add(*self.rows(fact))
        return rows.total()

    def latencies(self, *facts: str) -> Latencies:
        """Return the values of some facts with their counts."""
        rows = LatencyRows()
        for fact in facts:
            rows.add(*self.rows(fact)[1:])
        return rows.total()

    def total(self, fact: str) -> int:
        """Return the sum of ``n``; 0 where there is no such fact."""
        return int(self.rows(fact)[2].sum())

    def by_split(self, fact: str) -> list[tuple[int, int, str | None]]:
        """Return (split, value, text) of a fact that splits have, in the file's order."""
        rows = self.table(fact)
        columns = (rows[name].to_pylist() for name in ("second", "value", "text"))
        return sorted(zip(*columns, strict=True))


def _numbers(column: pa.ChunkedArray) -> Int64Array:
    numbers: Int64Array = pc.fill_null(column, 0).to_numpy()
    return numbers


def file_analysis(
    file: RecordFile, table: pa.Table, run: RunBounds, sender: FileAnalysis | None = None
) -> FileAnalysis:
    """Return the result of the local backend's pass over ``file``, without the sets of ids.

    Args:
        file: the file.
        table: ``FACTS`` of its run.
        run: the bounds of the run.
        sender: of a receiver, its sender's analysis, if there is one.

    Raises:
        OSError: the file cannot be read.
        RecordError: compressed data is damaged.
    """
    facts = _Facts(table, file.arrow)
    received = file.role == RECEIVER
    histogram = histogram_of(file, table) if received else None
    own = (fact_names.LATENCY, fact_names.THINNED) if received else (fact_names.SENT,)
    second, _, n = facts.rows(*own)
    seconds = Distribution.of_counted(second, n)
    first, last = facts.by_split(fact_names.FIRST), facts.by_split(fact_names.LAST)
    settlement = _settlement(facts)
    settles = settlement is not None and file.record_format == formats.V1
    end = None if sender is None else end_of_sending(sender, run)
    late = facts.rows(fact_names.LATE)
    clock = _clock_times(facts)
    found = FileAnalysis(
        record_format=formats.V2 if settles else file.record_format,
        operation=file.operation,
        time_unit=file.unit,
        count=seconds.total,
        first_time=first[0][1] if first else None,
        last_time=last[-1][1] if last else None,
        seconds=seconds,
        histogram=histogram,
        ids=None,
        ids_hashed=facts.table(fact_names.HASHED_IDS).num_rows > 0,
        send_ticks=Ticks(),
        reordered=facts.total(fact_names.REORDERED),
        settlement=settlement,
        malformed=facts.total(fact_names.MALFORMED),
        first_malformed=_first_malformed(facts),
        truncated=facts.total(fact_names.TRUNCATED) > 0,
        streams=_streams(facts),
        older=facts.total(fact_names.OLDER),
        foreign=facts.total(fact_names.FOREIGN),
        end=None if end is None or sender is None else in_unit(end, sender.time_unit, file.unit),
        late=int(late[2].sum()),
        latest=int(late[1].max()) if len(late[1]) else None,
        earliest=clock.lowest,
        set_back=clock.set_back,
    )
    # A plain file does not tell whether it was cut, and may be on the disk of another host.
    if not file.compressed:
        return found
    with open_records(file.remote or file.path) as records:
        return with_missing(records, found)


def histogram_of(file: RecordFile, table: pa.Table) -> Histogram:
    """Return the latencies of a receiver by second, added up.

    Args:
        file: the file.
        table: ``FACTS`` of its run, at least those of its latencies.
    """
    facts = _Facts(table, file.arrow)
    if facts.table(fact_names.THINNED).num_rows == 0:
        return facts.histogram(fact_names.LATENCY, file.unit)
    known = {
        extent: latencies
        for (of, extent), latencies in facts.digests().items()
        if of == fact_names.LATENCY
    }
    seconds, windows = (
        facts.histogram(fact, file.unit) for fact in (fact_names.THINNED, fact_names.WINDOWED)
    )
    return HistogramDigest(file.arrow, seconds, windows, known, WHOLE)


def steps_found(
    table: pa.Table, file: RecordFile, sender: FileAnalysis | None, run: RunBounds
) -> Steps | None:
    """Return the steps of a run; None where it has none.

    Args:
        table: ``FACTS`` of the run.
        file: one of a receiver.
        sender: the facts of its senders.
        run: its bounds.
    """
    if not run.steps or sender is None or sender.first_time is None:
        return None
    number, _, n = _Facts(table, fact_names.STEPS_SENT).rows(fact_names.SENT)
    latencies = histogram_of(replace(file, arrow=fact_names.STEPS_RECEIVED), table)
    return Steps(Distribution.of_counted(number, n), latencies)


def _clock_times(facts: _Facts) -> ClockTimes:
    """Return the arrow's own times, by the splits in the order of the file."""
    lowest, highest, back = (
        _by_split(facts, fact, choose)
        for fact, choose in (
            (fact_names.LOWEST, min), (fact_names.HIGHEST, max), (fact_names.SET_BACK, max),
        )
    )  # fmt: skip
    clock = ClockTimes()
    for split, low in sorted(lowest.items()):
        clock.follow(low, highest[split], back.get(split, 0))
    return clock


def _by_split(facts: _Facts, fact: str, choose: Callable[[int, int], int]) -> dict[int, int]:
    found: dict[int, int] = {}
    for split, value, _ in facts.by_split(fact):
        found[split] = choose(value, found.get(split, value))
    return found


def _streams(facts: _Facts) -> Streams | None:
    starts, ends = facts.by_split(fact_names.STREAM_START), facts.by_split(fact_names.STREAM_END)
    if not starts:
        return None
    return Streams(
        facts.total(fact_names.BODY_BYTES),
        min(start for _, start, _ in starts),
        max(end for _, end, _ in ends),
        facts.latencies(fact_names.FIRST_BYTE),
    )


def _settlement(facts: _Facts) -> Settlement | None:
    digests = facts.digests()
    sampled = digests.get((fact_names.SAMPLED, WHOLE)) or facts.latencies(fact_names.SAMPLED)
    both = facts.latencies(fact_names.SAMPLED, fact_names.SETTLED)
    every = digests.get((fact_names.ALL_SETTLED, WHOLE)) or both
    unmatched = facts.total(fact_names.UNMATCHED)
    if every.total + unmatched == 0:
        return None
    return Settlement(every, sampled, facts.total(fact_names.UNSETTLED), unmatched)


def _first_malformed(facts: _Facts) -> tuple[int, str] | None:
    bad = facts.by_split(fact_names.FIRST_BAD)
    if not bad:
        return None
    split, line, text = bad[0]
    before = sum(lines for place, lines, _ in facts.by_split(fact_names.LINES) if place < split)
    return before + line, text or ""


def delivery_of(
    table: pa.Table,
    senders: Sequence[FileAnalysis],
    receivers: Sequence[FileAnalysis],
    run: RunBounds,
) -> dict[str, Any]:
    """Return the delivery of a run with both ends.

    As :meth:`quiver_fast.analysis.figures.delivery.Reconciliation.result`.
    """
    rows = _Facts(table, "").table(fact_names.DELIVERY)
    values = dict(zip(rows["text"].to_pylist(), rows["n"].to_pylist(), strict=True))
    counts = {name: values.get(name, 0) for name in _COUNTS}
    counts["older"] = sum(receiver.older for receiver in receivers)
    counts["foreign"] = sum(receiver.foreign for receiver in receivers)
    counts["reordered"] = sum(receiver.reordered for receiver in receivers)
    if not values:  # an end has no records: nothing to compare with
        sent = sum(sender.count for sender in senders)
        counts |= {"sent": sent, "unreceived": sent}
        return delivery_section(counts, by_ids=False, unit="ms", run=run)
    unit = _UNITS[values[fact_names.TICKS]]
    return delivery_section(counts, by_ids=bool(values[fact_names.IDS]), unit=unit, run=run)


def ledger_of(
    table: pa.Table,
    sender: FileAnalysis,
    receiver: FileAnalysis,
    delivery: Mapping[str, Any],
    run: RunBounds,
) -> LedgerSums | None:
    """Return the sums of the ledger of a run.

    As :meth:`quiver_fast.analysis.figures.delivery.Reconciliation.ledger`.
    """
    by_ids, facts = delivery["method"] == BY_IDS, _Facts(table, "")
    if run.failures is None or not can_be_told(sender, delivery["received"], by_ids=by_ids):
        return None
    rows = facts.table(fact_names.LEDGER)
    found = dict(zip(rows["text"].to_pylist(), rows["n"].to_pylist(), strict=True))
    gaps = []
    for end, name in (
        (receiver, fact_names.RECEIPT_TIMES), (sender, fact_names.OUTCOME_TIMES),
    ):  # fmt: skip
        times = np.sort(facts.rows(name)[1])
        gaps.append(longest_pauses([times], spans_of(run, end.time_unit)))
    return LedgerSums(totals_of(NO_LINES) | found, *gaps)


def by_end(file: RecordFile, table: pa.Table, first: int, fact: str) -> dict[int, int]:
    """Return a count of each end of a file, by its number.

    Args:
        file: of one of several senders or receivers, or of some of them.
        table: the facts of the run.
        first: the number of the first of these.
        fact: the name of the count, whose value is the number of an end that shares its file.
    """
    _, members, counts = _Facts(table, file.arrow).rows(fact)
    if file.members == 1:
        return {first: int(counts.sum())}
    return dict(zip(members.tolist(), counts.tolist(), strict=True))


def alone(file: RecordFile, found: FileAnalysis, table: pa.Table, run: RunBounds) -> dict[str, Any]:
    """Return the delivery as far as the records of a receiver alone tell."""
    delivery = receiver_alone(found, run)
    if not file.has_ids:
        return delivery
    duplicate = found.count - _Facts(table, file.arrow).total(fact_names.DISTINCT_IDS)
    reordered = least_reordered(found.reordered, duplicate)
    return delivery | {"method": BY_IDS, "duplicate": duplicate, "reordered": reordered}


def bounds_of_runs(files: Sequence[RecordFile]) -> dict[str, RunBounds]:
    """Return the bounds that the summaries beside the records tell, by the name of the run.

    Where a run has several senders or receivers, the first ones tell.

    Raises:
        OSError: a summary cannot be read.
        RecordError: a summary is damaged.
    """
    ends: dict[str, dict[str, RecordFile]] = {}
    for file in files:
        ends.setdefault(file.run, {}).setdefault(file.role, file)
    return {run: run_bounds(_files(run, found)) for run, found in ends.items()}


@contextmanager
def arrow_statistics(
    table: DataFrame, files: Sequence[RecordFile], bounds: Mapping[str, RunBounds]
) -> Iterator[DataFrame]:
    """Give the rows of ``ARROWS``: each run's are made where its facts are.

    Args:
        table: rows of ``FACTS``, which are read several times.
        files: those of the runs.
        bounds: the bounds of each run, by its name.
    """
    of_run: dict[str, list[RecordFile]] = {}
    for file in files:
        of_run.setdefault(file.run, []).append(file)
    rows = schema.to_arrow(schema.ARROWS)

    def statistics(facts_of_run: pa.Table) -> pa.Table:
        run = facts_of_run["run"][0].as_py()
        return pa.Table.from_pylist(list(_arrow_rows(of_run[run], facts_of_run, bounds[run])), rows)

    with thinned_facts(table, statistics) as few:
        yield few.groupBy("run").applyInArrow(statistics, schema.ARROWS)


def _arrow_rows(
    files: Sequence[RecordFile], table: pa.Table, bounds: RunBounds
) -> Iterator[dict[str, Any]]:
    """Yield the rows of ``ARROWS`` of one run.

    Args:
        files: its files.
        table: its ``FACTS``.
        bounds: its bounds.

    Raises:
        OSError: a file cannot be read.
        RecordError: a summary beside the records is damaged.
    """
    ends = {role: [f for f in files if f.role == role] for role in (SENDER, RECEIVER)}
    senders, receivers = ends[SENDER], ends[RECEIVER]
    found = {file: file_analysis(file, table, bounds) for file in senders}
    first = found[senders[0]] if senders else None
    found |= {file: file_analysis(file, table, bounds, first) for file in receivers}
    both = None
    if senders and receivers:
        sent, received = ([found[file] for file in ends[role]] for role in (SENDER, RECEIVER))
        both = delivery_of(table, sent, received, bounds)
    for sender in senders:
        run_files = _files(_name(sender), {SENDER: sender})
        run = run_data(run_files, found[sender], None, None, bounds)
        measured = without_warmup(found[sender], measured_since(found[sender], bounds))
        yield _row(sender, measured, run, in_series=not receivers)
    pair = senders[0] if len(senders) == len(receivers) == 1 else None
    for receiver in receivers:
        delivery = both or alone(receiver, found[receiver], table, bounds)
        run_files = _files(_name(receiver), {RECEIVER: receiver} | ({SENDER: pair} if pair else {}))
        run = run_data(run_files, found[pair] if pair else None, found[receiver], delivery, bounds)
        since = measured_since(found[pair or receiver], bounds)
        yield _row(receiver, without_warmup(found[receiver], since), run, in_series=True)


def _files(name: str, ends: Mapping[str, RecordFile]) -> RunFiles:
    # A remote path has the methods of a path that are used.
    paths = {role: cast(Path, file.location) for role, file in ends.items()}
    return RunFiles(name, sender=paths.get(SENDER), receiver=paths.get(RECEIVER))


def _name(file: RecordFile) -> str:
    return f"{file.run}/{file.arrow}"


def _row(file: RecordFile, found: FileAnalysis, run: RunData, *, in_series: bool) -> dict[str, Any]:
    """Return a row of ``ARROWS``; its figures if it is one of a series of runs."""
    summary = run.receiver if file.role == RECEIVER else run.sender
    latencies = found.latencies if found.latencies.total else None
    return {
        "run": file.run,
        "arrow": file.arrow,
        "role": file.role,
        "unit": file.unit,
        "messages": found.count,
        "rate": found.rate,
        "mean": None if latencies is None else latencies.mean(),
        "stddev": None if latencies is None else latencies.stddev(),
        "percentiles": None if latencies is None else latencies.percentiles(RANKS),
        "figures": figures_to_json(run_figures(run)) if in_series else None,
        "summary": json.dumps({**(summary or {}), "analysis": run_statistics(run)}, default=listed),
    }
