"""Adding up many small parts of a mergeable statistic without adding each to the whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

__all__ = ["Merging"]

T = TypeVar("T")


class Merging(Generic[T]):
    """A sum of parts, held as few parts of geometrically growing size.

    Each element is merged about log2(parts) times, not once per part.

    Args:
        empty: what no parts add up to.
        merge: adds two parts up.
        size: the memory that a part takes, in any measure.
    """

    def __init__(self, empty: T, merge: Callable[[T, T], T], size: Callable[[T], int]) -> None:
        self._empty = empty
        self._merge = merge
        self._size = size
        self._parts: list[T] = []

    def add(self, part: T) -> None:
        """Add a part; ones that hold nothing leave no trace."""
        if self._size(part) == 0:
            return
        while self._parts and self._size(self._parts[-1]) <= 2 * self._size(part):
            part = self._merge(self._parts.pop(), part)
        self._parts.append(part)

    @property
    def parts(self) -> tuple[T, ...]:
        """The parts, whose sum is the whole."""
        return tuple(self._parts)

    def total(self) -> T:
        """Return the whole."""
        while len(self._parts) > 1:
            last = self._parts.pop()
            self._parts.append(self._merge(self._parts.pop(), last))
        return self._parts[0] if self._parts else self._empty
