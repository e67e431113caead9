from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path

from quiver_fast.queuefile.appender import Appender

class Mark(IntEnum):
    MARK_NONE = 0
    MARK_BEGIN = 1
    MARK_COMMIT = 2
    MARK_ROLLBACK = 3

class LiveEntries:
    owed: Mark
    removed: dict[int, bytearray]
    oldest: dict[int, int]
    states: dict[int, tuple[int, int]]
    def __init__(
        self, directory: str | Path, committed: Callable[[int, str], bool] | None = None
    ) -> None: ...
    def __iter__(self) -> Iterator[tuple[int, bytes]]: ...

def was_committed(directory: str | Path, transaction: int) -> bool: ...
def remove_entries(appender: Appender, indexes: Sequence[int]) -> None: ...
def mark_transaction(appender: Appender, event: str) -> None: ...
def mark_prepared(appender: Appender, transaction: int, home: str) -> None: ...
def mark_decision(appender: Appender, transaction: int) -> None: ...
