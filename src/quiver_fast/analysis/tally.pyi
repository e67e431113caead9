import numpy as np
from numpy.typing import NDArray

def second_latency_table(
    sent: NDArray[np.int64],
    received: NDArray[np.int64],
    counts: NDArray[np.int64],
    ticks_per_second: int,
    most_cells: int,
) -> tuple[int, int, NDArray[np.int64]] | None: ...
