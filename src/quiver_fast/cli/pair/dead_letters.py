"""The dead letters of a run: messages that the server moved to a queue of their own."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from quiver_fast.analysis.model.units import per_millisecond
from quiver_fast.cli.arrow.queue_setup import empty, emptying_plan
from quiver_fast.records.formats import has_ids

if TYPE_CHECKING:
    from quiver_fast.cli.arrow.plan import ArrowPlan
    from quiver_fast.cli.arrow.supervisor import SignalWatch
    from quiver_fast.cli.shared.console import Console

# A server moves messages after the receiver has refused them: some come later than its end.
_PATIENCE = 5.0
_PAUSE = 0.2


class DeadLetters:
    """Empties the dead-letter queue after a run, and counts the messages of the run in it.

    Messages of other runs that are there are taken, too, and not counted.

    Args:
        queue: the address or name.
        plan: the plan of the run's receiver.
        console: where errors of the arrow go.
        signals: the watch on signals, entered.
    """

    def __init__(self, queue: str, plan: ArrowPlan, console: Console, signals: SignalWatch) -> None:
        self._queue, self._console, self._signals = queue, console, signals
        emptier = emptying_plan(
            plan, queue, record_format=plan.record_format, time_unit=plan.options.time_unit
        )
        self._plan = replace(
            emptier, run_id=plan.run_id, run_start=plan.run_start, exit_when="empty"
        )
        self._begin = (plan.run_start or 0) * per_millisecond(plan.options.time_unit)
        self._ids = set[bytes]()
        self._count = 0

    def read(self, due: int, most: int) -> dict[str, Any]:
        """Return the section of a summary.

        Args:
            due: the messages that must be there.
            most: those that may be there, by the receivers' reports: some may still come.

        Raises:
            QuiverError: the queue cannot be read.
        """
        deadline, before = time.monotonic() + _PATIENCE, -1
        while time.monotonic() < deadline and not self._signals.count:
            self._take()
            if self._found >= most or (self._found == before and self._found >= due):
                break
            before = self._found
            time.sleep(_PAUSE)
        return {"queue": self._queue, "due": due, "count": self._found}

    @property
    def _found(self) -> int:
        return len(self._ids) or self._count

    def _take(self) -> None:
        with TemporaryDirectory(prefix="quiver-dead-") as name:
            report = empty(self._plan, Path(name), self._signals, self._console.errors)
            if report["received"]:
                own = first_fields((Path(name) / "records").read_bytes(), self._begin)
                self._count += len(own)
                self._ids.update(own if has_ids(report["record_format"]) else ())


def first_fields(records: bytes, begin: int) -> list[bytes]:
    """Return the first field of each record that is of the run: the id, or a time without ids.

    Ids of other runs keep their beginning. Those of other clients have none: the send time tells.

    Args:
        records: lines of the arrow that emptied the queue.
        begin: the start of the run, in the unit of the records.
    """
    lines = [line.split(b",") for line in records.splitlines()]
    return [words[0] for words in lines if words[0].isdigit() and int(words[-2]) >= begin]


def problem_of(section: dict[str, Any]) -> str | None:
    """Return in words what is missing in a dead-letter queue; None if nothing is."""
    missing = section["due"] - section["count"]
    if missing <= 0:
        return None
    return (
        f"{missing:,} of the {section['due']:,} messages that receivers rejected are not in the "
        f"dead-letter queue '{section['queue']}'"
    )
