"""Libraries of our own that a process loads before the system's, to change or to record calls."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path


def compile_preload(source: Path, folder: Path) -> Path:
    """Compile a C file to a shared library in a folder; return its path."""
    library = folder / f"{source.stem}.so"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    flags = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*compiler, *flags, "-o", str(library), str(source), "-ldl"], check=True)
    return library


def preloading(library: Path) -> dict[str, str]:
    """Return the variables that have a process load the library; sanitizers come before it."""
    return {"LD_PRELOAD": f"{os.environ.get('LD_PRELOAD', '')} {library}".strip()}
