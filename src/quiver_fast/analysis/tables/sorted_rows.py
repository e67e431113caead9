"""Rows of integers in any number, handed out in order: sorted in pieces, merged from files.

Rows that fit into a few megabytes stay in memory. The rest stands in unnamed
temporary files (in ``TMPDIR``), a sorted run in each, which are merged when the rows are
asked for, and before that whenever there are many of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from typing import IO

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Int64Array, distinct

Rows = NDArray[np.int64]
"""int64[n, width]: a row holds its key first."""

Combine = Callable[[Rows], Rows]

ROOM = 1 << 20
"""Bytes that the rows of a table may take in memory, by default."""

_MOST_RUNS = 16
_SMALLEST_READ = 1 << 10
_ITEM = 8
_MOST_KEYS = 1 << 62
_NO_ROWS = np.empty((0, 1), np.int64)


def summed(rows: Rows) -> Rows:
    """Return sorted rows with equal ones, but for their last column, made one: its sum."""
    if len(rows) == 0:
        return rows
    changes = np.any(rows[1:, :-1] != rows[:-1, :-1], axis=1)
    starts = np.flatnonzero(np.append(True, changes))
    if len(starts) == len(rows):
        return rows
    found = rows[starts]
    found[:, -1] = np.add.reduceat(rows[:, -1], starts)
    return found


def _order_of_two(first: Int64Array, second: Int64Array) -> NDArray[np.intp]:
    """Return the order by two keys; as one number they are sorted faster than as two."""
    low, lowest = int(second.min()), int(first.min())
    span = int(second.max()) - low + 1
    if (int(first.max()) - lowest + 1) * span > _MOST_KEYS:
        return np.lexsort((second, first))
    return np.argsort((first - lowest) * span + (second - low))


class SortedRows:
    """Rows that are added in any order and come out in that of their first columns.

    Rows with equal keys keep the order in which they were added, but for two keys.

    Attributes:
        width: columns.

    Args:
        width: columns.
        keys: how many columns, from the first, the rows are sorted by: 1; or 2, which must
            then tell all rows apart once they are combined, and a chunk ends anywhere.
        combine: makes fewer rows of sorted ones that hold, for each value of the first
            column, all or some rows; applied again and again.
        room: bytes that rows may take in memory.
    """

    def __init__(
        self,
        width: int,
        keys: int = 1,
        combine: Combine | None = None,
        room: int | None = None,
    ) -> None:
        self.width = width
        self._keys = keys
        self._combine = combine
        self._most = max((room or ROOM) // (width * _ITEM), 2)
        self._held: list[Rows] = []
        self._held_rows = 0
        self._levels: list[list[_Run]] = []

    def add(self, *columns: Int64Array) -> None:
        """Add rows, one array of int64 for each column, of equal lengths."""
        rows = np.column_stack(columns)
        for start in range(0, len(rows), self._most):
            self._hold(rows[start : start + self._most])

    @property
    def in_memory(self) -> bool:
        """Whether no file is in use."""
        return not self._levels

    def chunks(self) -> Iterator[Rows]:
        """Yield all rows in order; those with equal keys are in one chunk."""
        self._tidy()
        runs = [run for level in reversed(self._levels) for run in level]
        held = self._held[0] if self._held else np.empty((0, self.width), np.int64)
        readers = [_Reader(run, self._keys) for run in runs]
        yield from self._merged([*readers, _Reader(None, self._keys, held)])

    def _hold(self, rows: Rows) -> None:
        self._held.append(rows)
        self._held_rows += len(rows)
        if self._held_rows < self._most:
            return
        self._tidy()
        # If combining left few rows, they may stay in memory.
        if self._held_rows > self._most // 2:
            self._spill(self._held[0])
            self._held, self._held_rows = [], 0
            self._merge_levels()

    def _spill(self, rows: Rows) -> None:
        """Write sorted rows; behind the last run where they go on, as they mostly do."""
        self._levels = self._levels or [[]]
        latest = self._levels[0]
        if latest and self._goes_on(latest[-1].last, rows[0]):
            latest[-1].append(rows)
        else:
            latest.append(_Run.of([rows]))

    def _goes_on(self, last: Rows, first: Rows) -> bool:
        """Say whether a row may follow another in a run: two keys tell all rows apart."""
        before, after = tuple(last[: self._keys].tolist()), tuple(first[: self._keys].tolist())
        return before < after or (before == after and self._keys == 1)

    def _tidy(self) -> None:
        """Make the rows in memory one sorted piece."""
        if self._held:
            rows = self._sorted(self._held)
            self._held, self._held_rows = [rows], len(rows)

    def _sorted(self, parts: list[Rows]) -> Rows:
        rows = np.concatenate(parts) if len(parts) > 1 else parts[0]
        order = self._order(rows)
        rows = rows if order is None else rows[order]
        return rows if self._combine is None else self._combine(rows)

    def _order(self, rows: Rows) -> NDArray[np.intp] | None:
        """Return the order of rows; None if they are in it already."""
        if self._keys == 2:
            return _order_of_two(rows[:, 0], rows[:, 1])
        keys = rows[:, 0]
        return None if np.all(keys[1:] >= keys[:-1]) else np.argsort(keys, kind="stable")

    def _merge_levels(self) -> None:
        """Merge each level that has many runs into one run of the next."""
        for number, level in enumerate(self._levels):
            if len(level) < _MOST_RUNS:
                return
            if number + 1 == len(self._levels):
                self._levels.append([])
            merged = _Run.of(self._merged([_Reader(run, self._keys) for run in level]))
            level.clear()
            self._levels[number + 1].append(merged)

    def _merged(self, readers: list[_Reader]) -> Iterator[Rows]:
        """Merge sorted runs, those with the earlier rows first."""
        step = max(self._most // max(len(readers), 1), _SMALLEST_READ)
        while readers := [reader for reader in readers if reader.fill(step)]:
            lasts = [reader.last for reader in readers if reader.more]
            # A key may go on beyond the rows read of a run: only the keys below are whole.
            limit = min(lasts) if lasts else None
            parts = [part for reader in readers if len(part := reader.take(limit))]
            if parts:
                yield self._sorted(parts)
            else:
                for reader in readers:
                    if reader.last == limit:
                        reader.extend(step)


class _Run:
    """Sorted rows in a file, which is gone with the object."""

    def __init__(self, width: int) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.width = width
        self.rows = 0
        self.last: Rows = _NO_ROWS[:0, 0]

    @classmethod
    def of(cls, chunks: Iterable[Rows]) -> _Run:
        run = None
        for chunk in chunks:
            run = run or cls(chunk.shape[1])
            run.append(chunk)
        if run is None:
            raise ValueError("a run has rows")
        return run

    def append(self, rows: Rows) -> None:
        self._file.write(np.ascontiguousarray(rows).data)
        self.rows += len(rows)
        self.last = rows[-1].copy()

    def read(self, start: int, count: int) -> Rows:
        size = self.width * _ITEM
        self._file.seek(start * size)
        data = self._file.read(count * size)
        return np.frombuffer(data, np.int64).reshape(-1, self.width)


class _Reader:
    """A place in a run, and the rows that are read ahead of it, or in memory anyway."""

    def __init__(self, run: _Run | None, keys: int, ahead: Rows = _NO_ROWS) -> None:
        self._run = run
        self._keys = keys
        self._next = 0
        self._ahead = ahead

    @property
    def more(self) -> bool:
        """Whether the file has rows after those read ahead."""
        return self._run is not None and self._next < self._run.rows

    @property
    def last(self) -> tuple[int, ...]:
        """The keys of the last row read ahead, of which there is one."""
        return tuple(self._ahead[-1, : self._keys].tolist())

    def fill(self, count: int) -> bool:
        """Read ahead where nothing is; say whether there is something."""
        if len(self._ahead) == 0:
            self.extend(count)
        return len(self._ahead) > 0

    def extend(self, count: int) -> None:
        """Read ``count`` rows more, if there are as many."""
        if self._run is None or not self.more:
            return
        rows = self._run.read(self._next, count)
        self._next += len(rows)
        self._ahead = np.concatenate((self._ahead, rows)) if len(self._ahead) else rows

    def take(self, limit: tuple[int, ...] | None) -> Rows:
        """Return the rows whose keys are below ``limit`` and go on behind them."""
        start, end = 0, len(self._ahead)
        for column, key in enumerate(limit or ()):
            keys = self._ahead[start:end, column]
            low, high = np.searchsorted(keys, key), np.searchsorted(keys, key, "right")
            start, end = start + int(low), start + int(high)
        end = end if limit is None else start
        taken, self._ahead = self._ahead[:end], self._ahead[end:]
        return taken


class SortedLookup:
    """Sorted rows whose first columns differ, to be looked up by key.

    Keys that are looked up together are best near each other: what is read of the file
    is kept for the next.

    Args:
        table: the rows.
    """

    def __init__(self, table: SortedRows) -> None:
        self._run: _Run | None = None
        self._starts: list[int] = []
        self._firsts: list[int] = []
        self._number: int | None = None
        self._chunk = np.empty((0, 2), np.int64)
        for chunk in table.chunks():
            if table.in_memory:
                self._number, self._chunk = 0, chunk
            else:
                self._run = self._run or _Run(chunk.shape[1])
                self._starts.append(self._run.rows)
                self._run.append(chunk)
            self._firsts.append(int(chunk[0, 0]))
        self._starts.append(0 if self._run is None else self._run.rows)

    def values(self, keys: Int64Array) -> Int64Array:
        """Return the second column of the rows with these keys, 0 where there is none."""
        found = np.zeros(len(keys), np.int64)
        numbers = np.searchsorted(np.array(self._firsts, np.int64), keys, "right") - 1
        for number in distinct(numbers[numbers >= 0]).tolist():
            chunk = self._read(number)
            chosen = np.flatnonzero(numbers == number)
            wanted = keys[chosen]
            places = np.minimum(np.searchsorted(chunk[:, 0], wanted), len(chunk) - 1)
            found[chosen] = np.where(chunk[places, 0] == wanted, chunk[places, 1], 0)
        return found

    def _read(self, number: int) -> Rows:
        if number != self._number and self._run is not None:
            start, end = self._starts[number], self._starts[number + 1]
            self._number, self._chunk = number, self._run.read(start, end - start)
        return self._chunk


def aligned(left: SortedRows, right: SortedRows) -> Iterator[tuple[Rows, Rows]]:
    """Yield the rows of two tables side by side, each key in one pair of chunks only."""
    sides = [_Side(left), _Side(right)]
    while True:
        for side in sides:
            side.fill()
        if all(side.ended for side in sides):
            return
        limit = min(side.last for side in sides if not side.ended)
        first, second = (side.take(limit) for side in sides)
        yield first, second


class _Side:
    def __init__(self, table: SortedRows) -> None:
        self._chunks = table.chunks()
        self._ahead: Rows | None = None
        self._none: Rows = np.empty((0, table.width), np.int64)

    @property
    def ended(self) -> bool:
        return self._ahead is None

    @property
    def last(self) -> int:
        return 0 if self._ahead is None else int(self._ahead[-1, 0])

    def fill(self) -> None:
        """Have rows ahead, unless there are no more."""
        if self._ahead is None or len(self._ahead) == 0:
            self._ahead = next(self._chunks, None)

    def take(self, limit: int) -> Rows:
        if self._ahead is None:
            return self._none
        end = np.searchsorted(self._ahead[:, 0], limit, "right")
        taken, self._ahead = self._ahead[:end], self._ahead[end:]
        return taken
