"""What a run was measured with, for whoever compares summaries later."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np

import quiver_fast
from quiver_fast.proton import info

__all__ = ["environment"]


def environment() -> dict[str, Any]:
    """Return versions of the tool and what it stands on, and facts of the host."""
    return {
        "quiver_fast": quiver_fast.__version__,
        "proton": info.engine_version(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernel": f"{platform.system()} {platform.release()}",
        "machine": platform.machine(),
        "cpu_count": os.cpu_count(),
    }
