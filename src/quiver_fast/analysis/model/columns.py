"""Columns and rows of a document that may be long: made in pieces, whenever they are read.

A number takes 8 bytes in an array and four times as much as Python's own, and a document has
a row for each second of a run. Silent seconds or windows have a row too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Int64Array

Numbers: TypeAlias = NDArray[Any]
"""int64 or float64."""

_PIECE = 1 << 14

Pairs: TypeAlias = Iterator[tuple[Int64Array, Numbers]]
"""Seconds that have messages, ascending, and a value of each; in pieces, none empty."""

_ROWS_AT_ONCE = 1 << 14


def pieces_of(values: Numbers) -> Iterator[Numbers]:
    """Yield ``values`` in pieces of 16,384."""
    for start in range(0, len(values), _PIECE):
        yield values[start : start + _PIECE]


class Column:
    """Numbers of a document, one for each row; as a list it has None for NaN.

    Args:
        size: rows.
        make: yields them from the first, int64 or float64, in pieces of any length. It is
            called each time that the column is read.
    """

    def __init__(self, size: int, make: Callable[[], Iterator[Numbers]]) -> None:
        self._size = size
        self._make = make

    @classmethod
    def of(cls, values: Numbers) -> Column:
        """Return a column of an array."""
        return cls(len(values), lambda: pieces_of(values))

    def __len__(self) -> int:
        """Return the number of rows."""
        return self._size

    def __iter__(self) -> Iterator[int | float | None]:
        """Yield the number of each row."""
        return chain.from_iterable(self.lists())

    def __eq__(self, other: object) -> bool:
        """Say whether another column or list has the same numbers."""
        if not isinstance(other, (Column, list)):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Callable[..., Column], tuple[Numbers]]:
        """Pickle the values: the source of them may be a file."""
        return Column.of, (self.array(),)

    def array(self) -> Numbers:
        """Return all numbers, int64 or float64."""
        pieces = list(self._make())
        return np.concatenate(pieces) if pieces else np.empty(0, np.int64)

    def pieces(self) -> Iterator[Numbers]:
        """Yield the numbers as arrays of at most 16,384."""
        for made in self._make():
            yield from pieces_of(made)

    def lists(self) -> Iterator[list[int | float | None]]:
        """Yield the same as Python has it."""
        for piece in self.pieces():
            numbers: list[Any] = piece.tolist()
            if piece.dtype.kind == "f" and np.isnan(piece).any():
                numbers = [None if number != number else number for number in numbers]
            yield numbers


class Rows:
    """Rows of a document: a dictionary for each, made when it is read.

    Args:
        columns: int64 arrays of equal length by name.
    """

    def __init__(self, columns: Mapping[str, NDArray[np.int64]]) -> None:
        self.columns = dict(columns)

    def __len__(self) -> int:
        """Return the number of rows."""
        return max(map(len, self.columns.values()))

    def __iter__(self) -> Iterator[dict[str, int]]:
        """Yield each row by the names of the columns."""
        pieces = zip(*map(pieces_of, self.columns.values()), strict=True)
        for piece in pieces:
            for row in zip(*(column.tolist() for column in piece), strict=True):
                yield dict(zip(self.columns, row, strict=True))

    def __eq__(self, other: object) -> bool:
        """Say whether others, or a list of dictionaries, are the same."""
        if not isinstance(other, (Rows, list)):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def listed(value: object) -> list[Any]:
    """Return a column or rows as a list: the ``default`` of :func:`json.dumps`.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, (Column, Rows)):
        return list(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


@dataclass(frozen=True)
class SecondRows:
    """Which seconds have a row.

    Attributes:
        seconds: int64, ascending: those with messages.
        every: whether all between them have one too.
        step: seconds from a row to the next.
    """

    seconds: Int64Array
    every: bool
    step: int = 1

    def __len__(self) -> int:
        """Return the number of rows."""
        if not self.every or len(self.seconds) == 0:
            return len(self.seconds)
        return int(self.seconds[-1] - self.seconds[0]) // self.step + 1

    def between(self, start: int, end: int) -> Int64Array:
        """Return the seconds of the rows from the index ``start`` to before ``end``."""
        if not self.every:
            return self.seconds[start:end]
        return np.arange(start, end, dtype=np.int64) * self.step + int(self.seconds[0])

    def rows(self) -> Iterator[Int64Array]:
        """Yield the second of each row, in pieces."""
        for start in range(0, len(self), _ROWS_AT_ONCE):
            yield self.between(start, min(start + _ROWS_AT_ONCE, len(self)))

    def column(self, pairs: Callable[[], Pairs], silent: float) -> Column:
        """Return the value of ``pairs`` for each row, and ``silent`` for rows without one."""
        return Column(len(self), lambda: self._filled(pairs(), silent))

    def _filled(self, pairs: Pairs, silent: float) -> Iterator[Numbers]:
        row = 0
        for seconds, values in pairs:
            if not self.every:
                yield values
                continue
            places = (seconds - self.seconds[0]) // self.step
            end = int(places[-1]) + 1
            filled = np.full(end - row, silent, values.dtype)
            filled[places - row] = values
            row = end
            yield filled
