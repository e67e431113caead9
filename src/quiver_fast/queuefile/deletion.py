"""Deleting old files of a queue; each is deleted whole (A.12)."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from quiver_fast.errors import OutputError
from quiver_fast.queuefile.layout import RollCycle
from quiver_fast.queuefile.table import Table, cycles_in

LOG = logging.getLogger(__name__)


def wall_ms() -> int:
    """Return the time, UTC milliseconds."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Return the milliseconds since the machine's start, which no setting of the clock changes."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


class Expiry:
    """The choice of old files of a queue: their number decides, not the clock.

    A clock that is set forward by a month makes no file older. The file of the present time
    always stays, both by the clock now and by the clock when the queue was opened.

    Args:
        directory: the queue's.
        roll: its roll cycle.
    """

    def __init__(self, directory: Path, roll: RollCycle) -> None:
        self._directory = directory
        self._roll = roll
        # The time of the machine's start: only a setting of the clock changes it.
        self._began = wall_ms() - steady_ms()
        self._told: int | None = None

    def expired(self, cycles: list[int], retained: int) -> list[int]:
        """Return the cycles whose files are deleted, and warn of a clock that was set.

        Args:
            cycles: those that have a file, oldest first.
            retained: how many of the newest stay.
        """
        now, steady = wall_ms(), steady_ms()
        present = self._roll.cycle_at(now)
        if self._told is None:
            self._tell_future(cycles[-1], present)
        else:
            self._tell_step(now - steady - self._told)
        self._told = now - steady
        stays = {present, self._roll.cycle_at(self._began + steady), *cycles[-retained:]}
        return [cycle for cycle in cycles if cycle not in stays]

    def _tell_future(self, newest: int, present: int) -> None:
        """Warn at the start if the newest file is of a later time: entries go into it."""
        if newest > present:
            LOG.warning(
                "%s: its time is %d cycles later than the clock's; new entries go there",
                self._directory / self._roll.file_name(newest), newest - present,
            )  # fmt: skip

    def _tell_step(self, step: int) -> None:
        """Warn of a clock that was set by a cycle or more since the last call."""
        if abs(step) >= self._roll.length_ms:
            LOG.warning(
                "%s: the clock was set %s by %d s; the newest files stay, whatever their time",
                self._directory, "forward" if step > 0 else "back", abs(step) // 1000,
            )  # fmt: skip


def delete_cycles(directory: Path, roll: RollCycle, table: Table, cycles: list[int]) -> list[Path]:
    """Delete the files of cycles, and list the other files in the table.

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
