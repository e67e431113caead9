"""How long `make wheel` takes from nothing: of this tree, and of the one before the data plane.

    python -m bench.build_time

Each tree is taken out of the history into its own folder, without any compiler cache. The
engine's source is there before; pip fetches packages of Python from its usual index.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.reference import old
from bench.reference.build import ENGINE_BUILD, BuildError
from buildtools import proton_engine

TREES = (("today", "HEAD"), ("old", old.COMMIT))


def build_seconds(commit: str) -> float:
    """Return the seconds of `make wheel` in a fresh tree of a commit.

    Raises:
        BuildError: the history lacks it, or it cannot be built.
    """
    environment = {
        **os.environ,
        "CCACHE_DISABLE": "1",
        "QUIVER_FAST_PROTON_SDIST": str(proton_engine.obtain_sdist(ENGINE_BUILD)),
    }
    with tempfile.TemporaryDirectory() as scratch:
        old.unpack(Path(scratch), commit)
        begin = time.monotonic()
        made = subprocess.run(
            ["make", "-C", scratch, "wheel"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        took = time.monotonic() - begin
    if made.returncode != 0:
        last = (made.stderr.strip().splitlines() or ["no reason"])[-1]
        raise BuildError(f"make wheel of {commit[:7]}: {last}")
    return took


def report(times: Sequence[tuple[str, float]]) -> Iterator[str]:
    """Yield one line for each tree, and the ratio of the first to the last."""
    for name, seconds in times:
        yield f"{name:6}{seconds:>9.1f} s"
    yield f"{'ratio':6}{times[0][1] / times[-1][1]:>9.2f}"


def main() -> int:
    """Build both and print."""
    try:
        times = [(name, build_seconds(commit)) for name, commit in TREES]
    except BuildError as error:
        print(f"build_time: {error}", file=sys.stderr)
        return 1
    for line in report(times):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
