"""Files of cycles that are over, deleted whole (A.12)."""

from __future__ import annotations

from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.layout import RollCycle
from quiver_fast.queuefile.table import Table, cycles_in

__all__ = ["delete_cycles"]


def delete_cycles(directory: Path, roll: RollCycle, table: Table, cycles: list[int]) -> list[Path]:
    """Delete the files of cycles, and list in the table what is left.

    Returns:
        The files deleted.

    Raises:
        OutputError: one cannot be deleted.
    """
    paths = [directory / roll.file_name(cycle) for cycle in cycles]
    failure = ""
    for path in paths:
        try:
            path.unlink()
        except OSError as error:
            failure = failure or f"{path}: {error.strerror}"
    table.list_cycles(cycles_in(directory, roll))
    if failure:
        raise OutputError(failure)
    return paths
