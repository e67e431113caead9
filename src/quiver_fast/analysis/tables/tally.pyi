import numpy as np
from numpy.typing import NDArray

def second_latency_table(
    sent: NDArray[np.int64],
    received: NDArray[np.int64],
    counts: NDArray[np.int64],
    ticks_per_second: int,
    most_cells: int,
) -> tuple[int, int, NDArray[np.int64]] | None: ...
def counts_per_second(
    times: NDArray[np.int64], counts: NDArray[np.int64], ticks_per_second: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]: ...
def arrivals_behind(
    positions: NDArray[np.int64],
    lengths: NDArray[np.int64] | None,
    counts: NDArray[np.int64] | None,
    furthest: int,
) -> tuple[int, int]: ...
def falls(times: NDArray[np.int64], highest: int) -> tuple[int, int, int]: ...
def joined_runs(
    firsts: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    labels: NDArray[np.bool_] | None = None,
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.bool_] | None]: ...
def located_pieces(
    firsts: NDArray[np.uint64],
    lengths: NDArray[np.uint64],
    starts: NDArray[np.uint64],
    sizes: NDArray[np.uint64],
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]: ...
