"""Mapped files on other machines: larger pages."""

from __future__ import annotations

import os
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
