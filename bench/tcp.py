"""Raw copies of bytes through loopback TCP: the physical limit of large bodies."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from bench.comparison import Figures
from bench.reference.build import References
from bench.runner import Case


def copy_of(references: References, case: Case, *by: str) -> Callable[[], Figures]:
    """Return a function that copies the bytes of a case's bodies, and returns MB/s.

    Args:
        references: the programs.
        case: the case with the bodies.
        by: ``relay`` for a third process in between.
    """

    def copy() -> Figures:
        command = [str(references.tcp_copy), str(case.count * case.body_size), *by]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        return {"throughput": float(result.stdout) / 1e6}

    return copy
