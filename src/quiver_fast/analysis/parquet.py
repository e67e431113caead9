"""Records as Parquet, as rows and as run-length records, in constant memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from quiver_fast.analysis.discovery import RunFiles
from quiver_fast.analysis.distribution import Int64Array
from quiver_fast.analysis.optional import optional_module
from quiver_fast.analysis.sources import Progress
from quiver_fast.records.formats import RECEIVE, SEND, time_unit
from quiver_fast.records.splits import scan_file
from quiver_fast.records.transfers import RunBatch

__all__ = ["write_parquet"]

_PURPOSE = "Parquet export"
_ROWS_AT_ONCE = 1 << 20


def write_parquet(directory: Path, runs: Iterable[RunFiles], progress: Progress) -> list[Path]:
    """Write the transfers of ``runs``; both files appear complete or not at all.

    ``rows.parquet`` has a row for each transfer in the file's order: ``run``, ``role``,
    ``unit``, ``sent``, ``received`` (null for a sender), ``id`` (null for v3).
    ``runs.parquet`` has a row for each series of neighbours with equal times and ids that
    count up: the same columns, ``id`` being the first, and ``messages``, their number.
    Neither has settlements.

    Returns:
        The files.

    Raises:
        QuiverError: pyarrow is not installed, or records are damaged.
    """
    arrow = optional_module("pyarrow", _PURPOSE)
    directory.mkdir(parents=True, exist_ok=True)
    schema = _schema(arrow)
    schemas = {"runs": schema.append(arrow.field("messages", arrow.int64())), "rows": schema}
    files = {name: directory / f"{name}.parquet" for name in schemas}
    parts = {name: directory / f".{name}.parquet.part" for name in schemas}
    with ExitStack() as leftovers:
        for part in parts.values():
            leftovers.callback(part.unlink, missing_ok=True)
        _write(runs, parts, schemas, progress)
        for name, file in files.items():
            parts[name].replace(file)
    return list(files.values())


def _write(
    runs: Iterable[RunFiles], parts: dict[str, Path], schemas: dict[str, Any], progress: Progress
) -> None:
    parquet = optional_module("pyarrow.parquet", _PURPOSE)
    with ExitStack() as stack:
        writers = {
            name: stack.enter_context(
                parquet.ParquetWriter(parts[name], schema, compression="zstd")
            )
            for name, schema in schemas.items()
        }
        for run, batch, unit in _batches(runs, progress):
            writers["runs"].write_table(_table(schemas["runs"], run, batch, unit, batch.count))
            for rows in _rows(batch):
                writers["rows"].write_table(_table(schemas["rows"], run, rows, unit))


def _schema(arrow: Any) -> Any:
    words = arrow.dictionary(arrow.int32(), arrow.string())
    fields = [(name, words) for name in ("run", "role", "unit")]
    fields += [(name, arrow.int64()) for name in ("sent", "received", "id")]
    return arrow.schema(fields)


def _batches(runs: Iterable[RunFiles], progress: Progress) -> Iterator[tuple[str, RunBatch, str]]:
    """Yield (run, batch, time unit) of all batches that have transfers."""
    for run in runs:
        for path, operation in ((run.sender, SEND), (run.receiver, RECEIVE), (run.other, None)):
            if path is None:
                continue
            unit = None
            for batch in scan_file(path, operation=operation, progress=progress):
                if len(batch):
                    own = batch.sent if batch.received is None else batch.received
                    unit = unit or time_unit(int(own[0]))
                    yield run.name, batch, unit


def _rows(batch: RunBatch) -> Iterator[RunBatch]:
    """Yield the transfers of ``batch`` as runs of one, not too many at once."""
    ends = np.cumsum(batch.count)
    for start in range(0, int(ends[-1]), _ROWS_AT_ONCE):
        index = np.arange(start, min(start + _ROWS_AT_ONCE, int(ends[-1])), dtype=np.int64)
        of_run = np.searchsorted(ends, index, side="right")
        ids = batch.ids
        if ids is not None:
            ids = ids[of_run] + (index - (ends - batch.count)[of_run])
        received = None if batch.received is None else batch.received[of_run]
        ones = np.ones(len(index), np.int64)
        yield replace(batch, sent=batch.sent[of_run], received=received, ids=ids, count=ones)


def _table(
    schema: Any, run: str, batch: RunBatch, unit: str, messages: Int64Array | None = None
) -> Any:
    arrow = optional_module("pyarrow", _PURPOSE)
    words = (run, "sender" if batch.received is None else "receiver", unit)
    first = arrow.array(np.zeros(len(batch), np.int32))
    arrays = [arrow.DictionaryArray.from_arrays(first, arrow.array([word])) for word in words]
    numbers = [batch.sent, batch.received, batch.ids]
    numbers += [] if messages is None else [messages]
    nothing = arrow.nulls(len(batch), arrow.int64())
    arrays += [nothing if column is None else arrow.array(column) for column in numbers]
    return arrow.Table.from_arrays(arrays, schema=schema)
