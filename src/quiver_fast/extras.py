"""Libraries that only some outputs need: importing them, and how to install them."""

from __future__ import annotations

import importlib
import shlex
import sys
from types import ModuleType

from quiver_fast.errors import QuiverError


def how_to_install(extra: str) -> str:
    """Return the command that installs the libraries of ``extra`` beside this package.

    It names the libraries, because ``quiver-fast[extra]`` is on no index. It names this Python,
    because the shell's ``pip`` may belong to another environment.
    """
    # The import is slow: only an error message waits for it.
    from importlib import metadata

    try:
        lines = metadata.requires("quiver-fast") or []
    except metadata.PackageNotFoundError:  # The package is a source tree on the path.
        lines = []
    found = [line.split(";")[0].strip() for line in lines if line.endswith(f'extra == "{extra}"')]
    if not found:
        return f"install the extra '{extra}' of quiver-fast's pyproject.toml"
    return shlex.join([sys.executable, "-m", "pip", "install", *found])


def optional_module(name: str, purpose: str, extra: str = "analysis") -> ModuleType:
    """Import the module ``name`` of ``extra``, which ``purpose`` needs.

    Raises:
        QuiverError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or name).split(".")[0]
        remedy = how_to_install(extra)
        raise QuiverError(f"{purpose} needs {package}, which is not installed: {remedy}") from None
