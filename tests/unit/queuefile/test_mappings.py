"""Mapped files on other machines: larger pages, and a weaker order of loads and stores.

A processor may hide a missing order. `make sanitize-threads`, which runs these too, does not. The
places are in docs/internals/architecture.md.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.preload import compile_preload, preloading

from quiver_fast.queuefile.verify import verify_queue

ROOT = Path(__file__).parents[3]
# Files of 8 MB, whose pages the writer lets go. The first writer dies, the next one recovers.
WRITES = """
import os, sys
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records

appender = Appender(sys.argv[1], roll="TEST4_DAILY")
append_records(appender, b"x" * 2000 * 5000, 2000)
if sys.argv[2] == "die":
    os._exit(0)
appender.close()
"""
# A thread appends and another syncs, while this one reads to the end and seeks the last entry.
READS = """
import sys, threading
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records
from quiver_fast.queuefile.tailer import Tailer

entries = [b"%08d" % number * 4 for number in range(4000)]
for number in range(20):
    queue = f"{sys.argv[1]}/{number}"
    appender = Appender(queue, roll="TEST4_DAILY", durability="interval:1")
    tailer, seeker = Tailer(queue), Tailer(queue)
    writer = threading.Thread(target=append_records, args=(appender, b"".join(entries), 32))
    writer.start()
    seen = 0
    while seen < len(entries):
        seen += tailer.skip(len(entries))
        if seen:
            seeker.move_to(tailer.index - 1)
            assert seeker.read() == (tailer.index - 1, entries[seen - 1])
    writer.join()
    appender.close()
"""
# A guard goes from one place to another; the address that is looked for is in neither.
MOVES = """
#include "guard.h"

static char area[3 << 16];

static void *move(void *guard) {
  for (;;) {
    quiver_guard_move(guard, area, 1);
    quiver_guard_move(guard, area + (1 << 16), 2 << 16);
  }
}

int main(void) {
  const char *end;
  pthread_t mover;
  quiver_guard *guard = quiver_guard_new(area, 1);
  pthread_create(&mover, NULL, move, guard);
  for (int i = 0; i < 5000000; i++)
    if (quiver_guard_of(area + 4096, &end)) return 1;
  return 0;
}
"""
# Another thread gets the signal that this one waits for.
SIGNALS = """
import signal, threading, time
from quiver_fast.loop import interrupt

interrupt.install()
sleeper = threading.Thread(target=time.sleep, args=(1,))
sleeper.start()
signal.pthread_kill(sleeper.ident, signal.SIGTERM)
while interrupt.signal_number() != signal.SIGTERM:
    pass
"""


def run(program: str, *arguments: object, folder: Path | None = None, **variables: str) -> None:
    """Run a program, with the library of `mappings.c` if there is a folder for it."""
    environment = {**os.environ, **variables}
    if folder is not None:
        library = compile_preload(ROOT / "tests" / "support" / "mappings.c", folder)
        environment |= preloading(library)
    command = [sys.executable, "-c", program, *map(str, arguments)]
    subprocess.run(command, env=environment, check=True)


@pytest.mark.parametrize("page", ["4096", "16384", "65536"])
def test_files_are_the_same_with_larger_pages(tmp_path: Path, page: str) -> None:
    found = []
    for queue, folder in ((tmp_path / "usual", None), (tmp_path / "larger", tmp_path)):
        for end in ("die", "close"):
            run(WRITES, queue, end, folder=folder, QUIVER_PAGE=page)
        assert verify_queue(queue).deviations == []
        found.append([path.read_bytes() for path in sorted(queue.glob("*.cq4"))])
    assert found[0] == found[1]


def test_a_table_of_smaller_pages_gets_the_blocks_of_a_page(tmp_path: Path) -> None:
    """On a full disk a store into the hole behind its keys would be a SIGBUS."""
    queue = tmp_path / "queue"
    for page in ("4096", "65536"):
        run(WRITES, queue, "close", folder=tmp_path, QUIVER_PAGE=page)
    assert (queue / "metadata.cq4t").stat().st_blocks * 512 >= 65536


def test_entries_and_index(tmp_path: Path) -> None:
    run(READS, tmp_path, folder=tmp_path, QUIVER_TOGETHER="1")


def test_guards_that_move(tmp_path: Path) -> None:
    program, source = tmp_path / "moves", tmp_path / "moves.c"
    source.write_text(MOVES)
    command = [*shlex.split(os.environ.get("CC", "cc")), "-O1", "-pthread", "-o", program, source]
    subprocess.run([*command, f"-I{ROOT}/src/quiver_fast/queuefile"], check=True)
    subprocess.run([program], check=True)


def test_signals_of_another_thread() -> None:
    run(SIGNALS)
