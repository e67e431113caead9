"""A task's memory does not grow with its split; `bench.spark_memory` measures whole ones."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.measured import Figure

SMALL, LARGE = 8 << 20, 96 << 20
# Memory of a task for a split of any size; and the allowed growth, less than the text.
ROOM, MORE = 200 << 20, 60 << 20
TIME = 1_700_000_000_000
# Reads a split in a process of its own, and says by how many bytes that made it larger.
READ = """
import resource, sys
import numpy, pyarrow
from spark_analysis.files import discover, splits_of
from spark_analysis.record_rows import parse_split
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
[split] = splits_of(discover([sys.argv[1]])[0])
rows = sum(batch.num_rows for batch in parse_split(split))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(rows, (peak - before) * 1024)
"""


def settled() -> Iterator[str]:
    """Yield sends and, a hundred messages later, settlements, no two lines alike."""
    for number in range(LARGE):
        yield f"{number},{TIME + number}\n"
        yield f"s{number - 100},{TIME + number}\n"


def named() -> Iterator[str]:
    """Yield sends with ids that are no numbers, never settled."""
    return (f"message-{number},{TIME + number}\n" for number in range(LARGE))


@pytest.mark.measured
@pytest.mark.parametrize("lines", [settled, named])
def test_a_split_is_read_in_constant_memory(
    tmp_path: Path, lines: Callable[[], Iterator[str]], figure: Figure
) -> None:
    small, large = (grown(tmp_path, lines(), size) for size in (SMALL, LARGE))
    figure("bytes grown by a split", large, at_most=ROOM, unit="B")
    figure("bytes grown by a large one more than by a small one", large - small,
           at_most=MORE, unit="B")  # fmt: skip


def grown(folder: Path, lines: Iterator[str], most: int) -> int:
    """Return by how many bytes a process grows that reads a file of so many."""
    path, size, count = folder / "sender-transfers.csv", 0, 0
    with path.open("w") as file:
        for line in lines:
            size += file.write(line)
            count += 1
            if size > most:
                break
    found = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    rows, growth = map(int, found.stdout.split())
    assert rows >= count // 2
    return growth
