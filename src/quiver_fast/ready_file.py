"""The ready file of the server contract: how a server says that it accepts connections."""

from __future__ import annotations

import os

from quiver_fast.errors import OutputError

__all__ = ["write_ready"]


def write_ready(file: str) -> None:
    """Write the line ``ready`` to ``file``, which appears complete or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    # Renamed into place, so that nobody reads it half written.
    partial = f"{file}.{os.getpid()}"
    try:
        with open(partial, "w", encoding="ascii") as stream:
            stream.write("ready\n")
        os.replace(partial, file)
    except OSError as error:
        raise OutputError(f"ready-file: {file}: {error.strerror}") from None
