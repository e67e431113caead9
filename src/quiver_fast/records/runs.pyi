import os
from collections.abc import Callable, Iterable, Iterator

from quiver_fast.records.transfers import RunBatch

MOST_RUNS: int

def instruction_sets() -> tuple[str, ...]: ...
def scan_splits(
    path: str | os.PathLike[str],
    splits: Iterable[tuple[int, int | None]],
    *,
    record_format: str | None = None,
    operation: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    instruction_set: str | None = None,
    id_key: bytes | None = None,
) -> Iterator[RunBatch | None]: ...
def scan_runs(
    path: str | os.PathLike[str],
    *,
    start: int = 0,
    end: int | None = None,
    record_format: str | None = None,
    operation: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    instruction_set: str | None = None,
    id_key: bytes | None = None,
) -> Iterator[RunBatch]: ...
