"""Records as Parquet, as rows, as run-length records and by the second, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.model.ranks import PER_SECOND
from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.sources import Progress
from quiver_fast.extras import optional_module
from quiver_fast.records.formats import RECEIVE, SEND, time_unit
from quiver_fast.records.runs import scan_runs
from quiver_fast.records.transfers import RunBatch

_PURPOSE = "Parquet export"
_ROWS_AT_ONCE = 1 << 18
_SECONDS_AT_ONCE = 1 << 14
_WORDS = ("run", "role", "unit", "kind")


def write_parquet(
    directory: Path, runs: Iterable[RunFiles], analysed: Iterable[RunData], progress: Progress
) -> list[Path]:
    r"""Write the records of ``runs``; all files appear complete or not at all.

    ``rows.parquet`` has a row for each transfer in the file's order, and one for each
    settlement likewise, a number of these after a number of those: ``run``, ``role``,
    ``unit``, ``kind`` ("transfer" or "settlement"), ``sent``, ``received`` (of a receiver's
    transfer), ``settled`` and ``sampled`` (of a settlement: its time, and whether the line
    begins with ``S``), ``id`` (of v1 and v2, where it is a number) and ``id_text`` (where it is
    none; bytes that are no UTF-8 stand as ``\xNN``). A value that a row lacks is null.
    ``runs.parquet`` has a row for each series of neighbours with equal times and ids that
    count up: the same columns, ``id`` being the first, and ``messages``, their number.
    Neither has lines of streaming mode, nor lines that are no records.
    ``seconds.parquet`` has a row for each row of the ``series`` of each end
    (:func:`.series.per_second`): ``run``, ``role``, ``unit``, ``second``, ``count``, and the
    latencies, null of a sender and in a second without a message.

    Args:
        directory: where to; it is made.
        runs: the files of the runs.
        analysed: the runs as they were read.
        progress: called as each file is read.

    Returns:
        The files.

    Raises:
        QuiverError: pyarrow is not installed, or records are damaged.
    """
    arrow = optional_module("pyarrow", _PURPOSE)
    directory.mkdir(parents=True, exist_ok=True)
    schema = _schema(arrow)
    schemas = {
        "runs": schema.append(arrow.field("messages", arrow.int64())),
        "rows": schema,
        "seconds": _seconds_schema(arrow),
    }
    files = {name: directory / f"{name}.parquet" for name in schemas}
    parts = {name: directory / f".{name}.parquet.part" for name in schemas}
    with ExitStack() as leftovers:
        for part in parts.values():
            leftovers.callback(part.unlink, missing_ok=True)
        _write(runs, analysed, parts, schemas, progress)
        for name, file in files.items():
            parts[name].replace(file)
    return list(files.values())


def _write(
    runs: Iterable[RunFiles],
    analysed: Iterable[RunData],
    parts: dict[str, Path],
    schemas: dict[str, Any],
    progress: Progress,
) -> None:
    parquet = optional_module("pyarrow.parquet", _PURPOSE)
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(
                parquet.ParquetWriter(parts[name], schema, compression="zstd")
            )
            for name, schema in schemas.items()
        }
        for words, lines in _lines_of(runs, progress):
            writers["runs"].write_table(_table(schemas["runs"], words, lines))
            for rows in _rows(lines):
                writers["rows"].write_table(_table(schemas["rows"], words, rows))
        for run in analysed:
            for table in _seconds_tables(schemas["seconds"], run):
                writers["seconds"].write_table(table)


def _schema(arrow: Any) -> Any:
    words = arrow.dictionary(arrow.int32(), arrow.string())
    fields = [(name, words) for name in _WORDS]
    fields += [(name, arrow.int64()) for name in ("sent", "received", "settled")]
    fields += [("sampled", arrow.bool_()), ("id", arrow.int64()), ("id_text", arrow.string())]
    return arrow.schema(fields)


def _seconds_schema(arrow: Any) -> Any:
    words = arrow.dictionary(arrow.int32(), arrow.string())
    fields = [(name, words) for name in _WORDS[:3]]
    fields += [("second", arrow.int64()), ("count", arrow.int64())]
    return arrow.schema(fields + [(name, arrow.float64()) for name in PER_SECOND])


def _seconds_tables(schema: Any, run: RunData) -> Iterator[Any]:
    """Yield the rows of the series of both ends."""
    arrow = optional_module("pyarrow", _PURPOSE)
    for role, end in (("sender", run.sender), ("receiver", run.receiver)):
        if end is None:
            continue
        words = (_shown(run.name), role, end["records"]["time_unit"])
        names = [name for name in schema.names[len(words) :] if name in end["series"]]
        rows = zip(*(end["series"][name] for name in names), strict=True)
        while some := list(islice(rows, _SECONDS_AT_ONCE)):
            columns = dict(zip(names, zip(*some, strict=True), strict=True))
            arrays = _word_arrays(arrow, words, len(some)) + [
                arrow.array(columns[field.name], field.type)
                if field.name in columns
                else arrow.nulls(len(some), field.type)
                for field in list(schema)[len(words) :]
            ]
            yield arrow.Table.from_arrays(arrays, schema=schema)


def _word_arrays(arrow: Any, words: Iterable[str], size: int) -> list[Any]:
    """Return columns that have one word each, throughout."""
    first = arrow.array(np.zeros(size, np.int32))
    return [arrow.DictionaryArray.from_arrays(first, arrow.array([word])) for word in words]


def _shown(name: str) -> str:
    """Return a name as UTF-8 can have it."""
    return name.encode(errors="backslashreplace").decode()


@dataclass(frozen=True, eq=False)
class _Lines:
    """Transfers, or settlements, as runs; columns are as in Parquet, None for null."""

    count: Int64Array
    ids: Int64Array | None
    texts: NDArray[np.object_] | None
    columns: Mapping[str, NDArray[Any] | None]


def _lines_of(
    runs: Iterable[RunFiles], progress: Progress
) -> Iterator[tuple[tuple[str, ...], _Lines]]:
    """Yield (run, role, unit, kind) and the lines of all batches that have some."""
    for run in runs:
        for path, operation in _ends_of(run):
            for batch in scan_runs(path, operation=operation, progress=progress, keep_texts=True):
                role = "sender" if batch.received is None else "receiver"
                for kind, times, lines in (
                    ("transfer", batch.received, _transfers(batch)),
                    ("settlement", batch.settled_times, _settlements(batch)),
                ):
                    if len(lines.count):
                        unit = time_unit(int((batch.sent if times is None else times)[0]))
                        yield (_shown(run.name), role, unit, kind), lines


def _ends_of(run: RunFiles) -> Iterator[tuple[Path, str | None]]:
    yield from ((path, SEND) for path in (run.sender, *run.senders) if path is not None)
    yield from ((path, RECEIVE) for path in (run.receiver, *run.receivers) if path is not None)
    if run.other is not None:
        yield run.other, None


def _transfers(batch: RunBatch) -> _Lines:
    texts = _texts(batch.ids_high, batch.id_texts)
    columns = {"sent": batch.sent, "received": batch.received}
    return _Lines(batch.count, batch.ids, texts, columns)


def _settlements(batch: RunBatch) -> _Lines:
    texts = _texts(batch.settled_ids_high, batch.settled_id_texts)
    columns = {"settled": batch.settled_times, "sampled": batch.settled_sampled}
    return _Lines(batch.settled_count, batch.settled_ids, texts, columns)


def _texts(highs: Int64Array | None, texts: list[bytes] | None) -> NDArray[np.object_] | None:
    """Return the text of each id that is no number, None of one that is."""
    if highs is None or texts is None:
        return None
    found = np.full(len(highs), None, np.object_)
    found[highs < 0] = [text.decode("utf-8", "backslashreplace") for text in texts]
    return found


def _rows(lines: _Lines) -> Iterator[_Lines]:
    """Yield ``lines`` as runs of one, not too many at once."""
    ends = np.cumsum(lines.count)
    for start in range(0, int(ends[-1]), _ROWS_AT_ONCE):
        index = np.arange(start, min(start + _ROWS_AT_ONCE, int(ends[-1])), dtype=np.int64)
        of_run = np.searchsorted(ends, index, side="right")
        ids, texts = lines.ids, lines.texts
        if ids is not None:
            ids = ids[of_run] + (index - (ends - lines.count)[of_run])
        columns = {
            name: None if column is None else column[of_run]
            for name, column in lines.columns.items()
        }
        ones = np.ones(len(index), np.int64)
        yield _Lines(ones, ids, None if texts is None else texts[of_run], columns)


def _table(schema: Any, words: tuple[str, ...], lines: _Lines) -> Any:
    arrow = optional_module("pyarrow", _PURPOSE)
    size = len(lines.count)
    columns: dict[str, Any] = {**lines.columns, "messages": lines.count}
    columns["id_text"] = lines.texts
    if lines.ids is not None:
        hashed = None if lines.texts is None else lines.texts != None  # noqa: E711 (of each)
        columns["id"] = arrow.array(lines.ids, mask=hashed)
    columns |= dict(zip(_WORDS, _word_arrays(arrow, words, size), strict=True))
    arrays = []
    for field in schema:
        column = columns.get(field.name)
        made = arrow.nulls(size, field.type) if column is None else column
        arrays.append(arrow.array(made, field.type) if isinstance(made, np.ndarray) else made)
    return arrow.Table.from_arrays(arrays, schema=schema)
