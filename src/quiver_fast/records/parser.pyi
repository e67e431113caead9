import os
from collections.abc import Callable

from quiver_fast.records.log_histogram import LogHistogram
from quiver_fast.records.transfers import TailBatch, Transfers

def read_transfers(
    path: str | os.PathLike[str],
    *,
    record_format: str | None = None,
    operation: str | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Transfers: ...

class TransferTail:
    def __init__(
        self,
        path: str | os.PathLike[str],
        operation: str,
        record_format: str | None = None,
        run_start: int | None = None,
        own_ids: bool = False,
        settlements: bool = False,
    ) -> None: ...
    def __enter__(self) -> TransferTail: ...
    def __exit__(self, *_exception: object) -> None: ...
    def close(self) -> None: ...
    @property
    def latencies(self) -> LogHistogram: ...
    def read(self, until: int | None = None) -> TailBatch: ...
