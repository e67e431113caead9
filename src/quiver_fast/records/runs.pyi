from collections.abc import Callable, Iterable, Iterator

from quiver_fast.records.sources import Place
from quiver_fast.records.transfers import RunBatch

MOST_RUNS: int

def instruction_sets() -> tuple[str, ...]: ...
def scan_splits(
    path: Place,
    splits: Iterable[tuple[int, int | None]],
    *,
    record_format: str | None = None,
    operation: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    instruction_set: str | None = None,
    id_key: bytes | None = None,
    unit: str | None = None,
    keep_texts: bool = False,
) -> Iterator[RunBatch | None]: ...
def scan_runs(
    path: Place,
    *,
    start: int = 0,
    end: int | None = None,
    record_format: str | None = None,
    operation: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    instruction_set: str | None = None,
    id_key: bytes | None = None,
    unit: str | None = None,
    keep_texts: bool = False,
) -> Iterator[RunBatch]: ...
