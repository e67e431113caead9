"""A task's memory does not grow with its split; `bench.spark_memory` measures whole ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

SIZE = 32 << 20
ROOM = 100 << 20
TIME = 1_700_000_000_000
# Reads a split in a process of its own, and says by how many bytes that made it larger.
READ = """
import resource, sys
import numpy, pyarrow
from spark_analysis.files import discover, splits_of
from spark_analysis.parse import parse_split
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
[split] = splits_of(discover([sys.argv[1]])[0])
rows = sum(batch.num_rows for batch in parse_split(split))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(rows, (peak - before) * 1024)
"""


def settled() -> Iterator[str]:
    """Yield sends and, a hundred messages later, settlements, no two lines alike."""
    for number in range(SIZE):
        yield f"{number},{TIME + number}\n"
        yield f"s{number - 100},{TIME + number}\n"


def named() -> Iterator[str]:
    """Yield sends with ids that are no numbers, never settled."""
    return (f"message-{number},{TIME + number}\n" for number in range(SIZE))


@pytest.mark.parametrize("lines", [settled, named])
def test_a_split_is_read_in_constant_memory(
    tmp_path: Path, lines: Callable[[], Iterator[str]]
) -> None:
    path, size, count = tmp_path / "sender-transfers.csv", 0, 0
    with path.open("w") as file:
        for line in lines():
            size += file.write(line)
            count += 1
            if size > SIZE:
                break
    found = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    rows, growth = map(int, found.stdout.split())
    assert rows >= count // 2
    assert growth < ROOM
