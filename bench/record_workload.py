"""Received records like those of a fast run, to write and to parse.

``bench.instructions`` counts its instructions:

    python -m bench.record_workload write COUNT
    python -m bench.record_workload parse FILE
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from quiver_fast.records.parser import read_transfers
from quiver_fast.records.writer import RecordWriter, write_many

START = 1_700_000_000_000  # epoch ms
RECORDS_PER_MS = 2_000
LARGEST_COUNT = 400_000  # twice bench.instructions.RECORDS

Times = NDArray[np.int64]


def make_times(count: int) -> tuple[Times, Times]:
    """Return (sent, received), int64[count] in epoch ms, of 2 million messages per second."""
    index = np.arange(count, dtype=np.int64)
    sent = START + index // RECORDS_PER_MS
    return sent, sent + index // 64 % 3


def write_file(path: str, sent: Times, received: Times) -> None:
    """Write the records with the product's writer."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        writer = RecordWriter(descriptor)
        write_many(writer, sent.data, received.data)
        writer.flush_now()
    finally:
        os.close(descriptor)


def main(arguments: Sequence[str]) -> None:
    operation, operand = arguments
    if operation == "parse":
        assert len(read_transfers(operand)) > 0
        return
    # Always the same number of times, so that making them cancels out between two counts.
    sent, received = make_times(LARGEST_COUNT)
    count = int(operand)
    assert count <= LARGEST_COUNT
    write_file(os.devnull, sent[:count], received[:count])


if __name__ == "__main__":
    main(sys.argv[1:])
