"""How to install libraries that only some outputs need."""

from __future__ import annotations

import shlex
import sys


def how_to_install(extra: str) -> str:
    """Return the command that installs the libraries of ``extra`` where this package is.

    It names the libraries: ``quiver-fast[extra]`` is on no index. It names this Python: a
    ``pip`` of the shell may belong to another environment.
    """
    # Only who lacks something pays for the import.
    from importlib import metadata

    try:
        lines = metadata.requires("quiver-fast") or []
    except metadata.PackageNotFoundError:  # a source tree that was put on the path
        lines = []
    found = [line.split(";")[0].strip() for line in lines if line.endswith(f'extra == "{extra}"')]
    if not found:
        return f"install the extra '{extra}' of quiver-fast's pyproject.toml"
    return shlex.join([sys.executable, "-m", "pip", "install", *found])
