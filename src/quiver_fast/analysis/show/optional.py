"""Libraries that only some outputs need: imported when they are, missed in one line."""

from __future__ import annotations

import importlib
from types import ModuleType

from quiver_fast.errors import QuiverError
from quiver_fast.extras import how_to_install


def optional_module(name: str, purpose: str) -> ModuleType:
    """Import the module ``name``, which ``purpose`` needs.

    Raises:
        QuiverError: it is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or name).split(".")[0]
        remedy = how_to_install("analysis")
        raise QuiverError(f"{purpose} needs {package}, which is not installed: {remedy}") from None
