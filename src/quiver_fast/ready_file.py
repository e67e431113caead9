"""The ready file of the server contract: it says that a server accepts connections."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from quiver_fast.errors import OutputError

WITHDRAWN = "withdrawn\n"
"""What somebody writes to the ready file of a broker's launcher before they kill the broker on
purpose. They empty the file for the broker's next start."""


@contextlib.contextmanager
def ready_file(file: str | None) -> Iterator[None]:
    """Empty a ready file that an earlier server may have left, and remove it at the end.

    The start must not remove the file: upstream's `quiver-bench` makes an empty one, and reads it
    until it has ``ready``.

    Args:
        file: its name; None for no ready file.

    Raises:
        OutputError: the file cannot be emptied.
    """
    if file is None:
        yield
        return
    try:
        if os.path.isfile(file):
            os.truncate(file, 0)
    except OSError as error:
        raise OutputError(f"ready-file: {file}: {error.strerror}") from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.remove(file)


def write_ready(file: str) -> None:
    """Write the line ``ready`` to ``file``, which appears complete or not at all.

    Raises:
        OutputError: the file cannot be written.
    """
    # Renamed, so that nobody reads half of the line.
    partial = f"{file}.{os.getpid()}"
    try:
        with open(partial, "w", encoding="ascii") as stream:
            stream.write("ready\n")
        os.replace(partial, file)
    except OSError as error:
        raise OutputError(f"ready-file: {file}: {error.strerror}") from None
