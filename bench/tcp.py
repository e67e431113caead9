"""Raw copies of bytes through loopback TCP: the physical limit that large bodies are held to."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

from bench.comparison import Figures
from bench.reference.build import References
from bench.runner import Case


def copy_of(references: References, case: Case, *by: str) -> Callable[[], Figures]:
    """Return what copies as many bytes as a case's bodies have, and tells its throughput in MB/s.

    Args:
        references: the programs.
        case: whose bodies.
        by: ``relay`` for a third process that stands between.
    """

    def copy() -> Figures:
        command = [str(references.tcp_copy), str(case.count * case.body_size), *by]
        result = subprocess.run(command, capture_output=True, text=True, check=True)
        return {"throughput": float(result.stdout) / 1e6}

    return copy
