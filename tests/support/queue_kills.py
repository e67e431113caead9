"""Writers of a queue that are killed at random moments."""

from __future__ import annotations

import mmap
import os
import random
import signal
import struct
import time
from pathlib import Path

from quiver_fast.queuefile.appender import Appender
from support.queue_twin import raw

# More than a writer appends before it is killed.
ENTRIES_MAX = 200_000
PATIENCE = 60.0


def content_of(number: int) -> bytes:
    """The bytes of the entry of a number in the file."""
    if number % 3:
        return b"%d " % number + b"z" * (number % 700)
    return raw(b"%d " % number + b"z" * (number % 3000))


def write_on(
    directory: Path, roll: str, durability: str, first: int, acknowledged: mmap.mmap
) -> None:
    """Append entries from a number on; note the index of each as soon as it is returned."""
    appender = Appender(directory, roll=roll, durability=durability)
    for number in range(first, first + ENTRIES_MAX):
        content = content_of(number)
        if number % 3:
            index = appender.append_text(content.decode())
        else:
            index = appender.append_raw(content[6:])
        struct.pack_into("<q", acknowledged, 8 * (number - first), index)
        if number % 50 == 0:
            appender.append_meta_data(b"note")
        if number % 500 == 0:
            appender.flush()


def killed_writer(
    directory: Path, roll: str, durability: str, first: int, generator: random.Random
) -> list[tuple[int, int]]:
    """Run a writer, kill it; return number and index of its acknowledged entries.

    One of four is killed while it starts, the others some time after their first entry.
    """
    # Shared memory: with a pipe the writer would mostly be killed in system calls.
    acknowledged = mmap.mmap(-1, 8 * ENTRIES_MAX)
    child = os.fork()
    if child == 0:
        try:
            write_on(directory, roll, durability, first, acknowledged)
        finally:
            os._exit(1)
    deadline = time.monotonic() + PATIENCE
    starting = generator.random() < 0.25
    while not starting and acknowledged[:8] == bytes(8):
        assert time.monotonic() < deadline
        time.sleep(0.0005)
    time.sleep(generator.expovariate(1 / 0.004))
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the writer failed"
    indexes = struct.unpack(f"<{ENTRIES_MAX}q", acknowledged[:])
    return [(first + i, index) for i, index in enumerate(indexes) if index]
