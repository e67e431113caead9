"""A data directory with a folder of queue files for each queue, each opened once."""

from __future__ import annotations

from pathlib import Path

from quiver_fast.errors import OutputError, UsageError
from quiver_fast.queuefile.appender import Appender, parse_durability
from quiver_fast.queuefile.create import make_folder
from quiver_fast.queuefile.layout import DEFAULT_ROLL, roll_cycle
from quiver_fast.queuefile.table import TABLE_NAME

__all__ = ["QueueDirectory", "valid_name"]

SEGMENTS_MAX, SEGMENT_MAX, NAME_MAX = 8, 128, 1024
LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def valid_name(name: str) -> bool:
    """Say whether a queue's name can be a folder's: 1 to 8 segments of plain characters (B.3)."""
    segments = name.split("/")
    return (
        1 <= len(segments) <= SEGMENTS_MAX
        and len(name) <= NAME_MAX
        and all(
            0 < len(segment) <= SEGMENT_MAX
            and segment not in (".", "..")
            and set(segment) <= LETTERS
            for segment in segments
        )
    )


class QueueDirectory:
    """The queues in a data directory, with the one writer of each.

    Args:
        path: the directory; made if it does not exist.
        roll: roll cycle of new queues.
        durability: ``none``, ``interval:<ms>`` or ``group``.
        retain: how many cycles of each queue to keep; 0 keeps all. See `Appender`.
        verify: walk every file wholly when its queue is opened (A.10).
        text_check: see `Appender`.

    Raises:
        UsageError: there is no such roll cycle or durability.
        OutputError: the directory cannot be made.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        roll: str = DEFAULT_ROLL,
        durability: str = "none",
        retain: int = 0,
        verify: bool = False,
        text_check: object = None,
    ) -> None:
        try:
            parse_durability(durability)
        except ValueError as error:
            raise UsageError(str(error)) from None
        self._roll = roll_cycle(roll).name
        self.path = Path(path)
        try:
            make_folder(self.path)
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from None
        self._durability = durability
        self._retain = retain
        self._verify = verify
        self._text_check = text_check
        self._appenders: dict[str, Appender] = {}

    def names(self) -> list[str]:
        """Return the names of the queues that exist."""
        tables = sorted(self.path.rglob(TABLE_NAME))
        return [str(table.parent.relative_to(self.path)) for table in tables]

    def holds(self, name: str) -> bool:
        """Say whether there is a queue of that name."""
        folder = self.path / name
        return (folder / TABLE_NAME).exists() or any(folder.glob("*.cq4"))

    def appender(self, name: str) -> Appender:
        """Return the writer of a queue, opened or made.

        Raises:
            OutputError: its files cannot be used.
            UsageError: the name cannot be a queue's.
        """
        if name not in self._appenders:
            if not valid_name(name):
                raise UsageError(f"'{name}' cannot be the name of a queue")
            self._appenders[name] = Appender(
                self.path / name,
                roll=self._roll,
                durability=self._durability,
                retain=self._retain,
                verify=self._verify,
                text_check=self._text_check,
            )
        return self._appenders[name]

    def close(self) -> None:
        """Close every queue in order.

        Raises:
            OutputError: one could not be; the others are closed all the same.
        """
        failures = []
        for appender in self._appenders.values():
            try:
                appender.close()
            except (OSError, OutputError) as error:
                failures.append(str(error))
        self._appenders = {}
        if failures:
            raise OutputError("; ".join(failures))
