"""Whole files as run-length records, large ones scanned by threads, always in order."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from queue import Empty, Queue
from threading import Event, Thread

import numpy as np
from numpy.typing import NDArray

from quiver_fast.records.formats import END_LINE, SEND, V1, V2
from quiver_fast.records.frames import OpenRecords, open_records
from quiver_fast.records.layout import layout_of
from quiver_fast.records.runs import scan_runs, scan_splits
from quiver_fast.records.sources import Place
from quiver_fast.records.transfers import RunBatch

# A thread scans this much in a millisecond where lines repeat.
_SPLIT_SIZE = 16 << 20
# Batches that wait for the consumer: 1 MB each where records do not repeat.
_WAITING = 2
_THREADS = min(2, os.cpu_count() or 1)
# A file that does not tell its layout in its first bytes is scanned by one thread.
_DETECTED_SIZE = 1 << 16
_JOIN_TICK = 0.05
# A side has no more.
_MOST_ENDS = 100_000

Progress = Callable[[int, int], None]


def scan_file(
    records: OpenRecords,
    *,
    record_format: str | None = None,
    operation: str | None = None,
    progress: Progress | None = None,
    split_size: int = _SPLIT_SIZE,
    threads: int = _THREADS,
) -> Iterator[RunBatch]:
    """Yield the run-length records of a file in its order, in constant memory.

    These are the batches of :func:`quiver_fast.records.runs.scan_runs`, except that a
    run may be cut where two splits meet, and that ``first_malformed``, ``ids_hashed`` and
    ``truncated`` are about the split of the batch; the line's number is that in the file.

    Args:
        records: the file.
        record_format: "v1", "v2" or "v3"; by default the first line that fits one tells.
        operation: "send" or "receive"; by default that line tells as well.
        progress: called now and then with the offset reached and the size of the file.
        split_size: bytes of text that a thread takes at a time.
        threads: how many scan a file of more than one split.

    Raises:
        OSError: the file cannot be read.
        RecordError: compressed data is damaged.
        ValueError: ``record_format`` or ``operation`` is none of the known ones.
    """
    splits = records.splits(split_size)
    layout, unit = None, None
    if len(splits) > 1 and threads > 1:
        head = records.head(_DETECTED_SIZE).split(b"\n")[:-1]
        layout, unit = layout_of(head, record_format, operation)
    if layout is None:
        yield from scan_runs(
            records.place, record_format=record_format, operation=operation, progress=progress
        )
        return
    # A settlement may still come and make it v2 (see LineParser).
    undecided = record_format is None and layout == (V1, SEND)
    scan = _Scan(records.place, splits, (V2, SEND) if undecided else layout, unit, threads)
    size, lines, end_before = splits[-1][1], 0, -1
    for batches, (_, end) in zip(scan, splits, strict=True):
        lines_before = lines
        for batch in batches:
            lines += batch.lines
            batch, end_before = known_ends(batch, end_before)
            undecided = undecided and len(batch.settled_ids) == 0
            yield _in_file(batch, lines_before, V1 if undecided else batch.record_format)
        if progress is not None:
            progress(end, size)


def known_ends(batch: RunBatch, before: int) -> tuple[RunBatch, int]:
    """Return the next batch of a file with the ends that the records before it told.

    Args:
        batch: of a scan that may have begun within the file.
        before: the end that the records before it are of; -1 where none was told.

    Returns:
        The batch, and the end that the records after it are of.
    """
    after = before if batch.next_end < 0 else batch.next_end
    if before < 0:
        return batch, after
    told = np.full(len(batch), -1) if batch.ends is None else batch.ends
    return replace(batch, ends=np.where(told < 0, before, told)), after


def tells_ends(path: Place) -> bool:
    """Say whether the records of a file tell which of several ends they are of.

    That of a file without records is True.

    Raises:
        OSError: the file cannot be read.
        RecordError: compressed data is damaged.
    """
    with open_records(path) as records:
        return records.head(1) in (b"", END_LINE[:1].encode())


def ends_told(path: Place) -> range | None:
    """Return the ends from the first to the last that records are of; None where they tell none.

    Raises:
        As :func:`tells_ends`.
    """
    if not tells_ends(path):
        return None
    with open_records(path) as records:
        found = [_edges(batch.ends) for batch in scan_file(records) if batch.ends is not None]
    firsts, lasts = zip(*found, strict=True) if found else ((0,), (-1,))
    return range(min(firsts), max(lasts) + 1) or None


def _edges(ends: NDArray[np.int64]) -> tuple[int, int]:
    """Return the first and the last of some ends; a line that no arrow wrote is of any number."""
    known = ends[(ends >= 0) & (ends < _MOST_ENDS)]
    return (int(known.min()), int(known.max())) if len(known) else (_MOST_ENDS, -1)


def _in_file(batch: RunBatch, lines_before: int, record_format: str | None) -> RunBatch:
    """Return a split's batch as one of the file."""
    malformed = batch.first_malformed
    if malformed is not None:
        malformed = (lines_before + malformed[0], malformed[1])
    return replace(batch, first_malformed=malformed, record_format=record_format)


class _Scan:
    """Scans splits in threads; iterates over the batches of each, in the splits' order.

    Thread t takes the splits t, t + threads, ... and hands over through a queue of its
    own, which holds few batches. That keeps the order, and bounds the memory.
    """

    def __init__(
        self,
        path: Place,
        splits: list[tuple[int, int]],
        layout: tuple[str, str],
        unit: str | None,
        threads: int,
    ) -> None:
        self._path = path
        self._splits = splits
        self._layout = layout
        self._unit = unit
        self._stopped = Event()
        self._queues: list[Queue[RunBatch | BaseException | None]] = [
            Queue(_WAITING) for _ in range(threads)
        ]

    def __iter__(self) -> Iterator[Iterator[RunBatch]]:
        threads = [
            Thread(target=self._produce, args=(number,), daemon=True)
            for number in range(len(self._queues))
        ]
        for thread in threads:
            thread.start()
        try:
            for number in range(len(self._splits)):
                yield self._batches(self._queues[number % len(self._queues)])
        finally:
            self._stopped.set()
            for thread, queue in zip(threads, self._queues, strict=True):
                self._join(thread, queue)

    @staticmethod
    def _batches(queue: Queue[RunBatch | BaseException | None]) -> Iterator[RunBatch]:
        """Yield the batches until the end of a split."""
        while (item := queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item

    def _produce(self, number: int) -> None:
        queue = self._queues[number]
        try:
            own = self._splits[number :: len(self._queues)]
            record_format, operation = self._layout
            for batch in scan_splits(
                self._path,
                own,
                record_format=record_format,
                operation=operation,
                unit=self._unit,
            ):
                queue.put(batch)
                if self._stopped.is_set():
                    return
        except Exception as error:  # of any kind: the consumer raises it
            queue.put(error)

    @staticmethod
    def _join(thread: Thread, queue: Queue[RunBatch | BaseException | None]) -> None:
        """Wait for a thread that may wait for room in its queue."""
        while thread.is_alive():
            with suppress(Empty):
                while True:
                    queue.get_nowait()
            thread.join(_JOIN_TICK)
