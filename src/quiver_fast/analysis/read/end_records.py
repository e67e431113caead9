"""The ends of a run of many, as their files and the summaries beside these tell them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from quiver_fast.analysis.figures.each_end import EndFacts
from quiver_fast.analysis.figures.ends import bounds_of_ends
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.read.discovery import end_of
from quiver_fast.analysis.read.summary_file import summary_document, summary_path
from quiver_fast.errors import RecordError
from quiver_fast.records.splits import ends_told, tells_ends


@dataclass(frozen=True)
class EndRecords:
    """One end, as it is to be read.

    Attributes:
        role: "sender" or "receiver".
        number: which of them, from 0.
        path: its records.
        known: the rest of its summary: ``config``, ``complete``, ``reason`` and so on; a missing
            key is None.
        record_format: "v1", "v2" or "v3"; None where the records tell it.
    """

    role: str
    number: int
    path: Path
    known: dict[str, Any]
    record_format: str | None = None

    @property
    def title(self) -> str:
        """Its name, or the names of its ends."""
        if self.members == 1:
            return f"{self.role} {self.first}"
        return f"{self.role}s {self.first} to {self.first + self.members - 1}"

    @property
    def first(self) -> int:
        """The number of the first end of its process, among all of its side."""
        return self.numbers.start

    @property
    def members(self) -> int:
        """How many ends its process has."""
        return len(self.numbers)

    @cached_property
    def numbers(self) -> range:
        """The numbers of the ends of its process."""
        first, members = self.in_all.get("first", self.number), self.in_all.get("members", 1)
        # A command that was killed wrote no summary, but the records name their ends.
        told = None if self.config else ends_told(self.path)
        return told or range(int(first), int(first) + int(members))

    def reported(self) -> list[EndFacts]:
        """Return the facts of the ends of its process, as far as the process reported them."""
        report = (self.known.get("arrow") or {}).get("ends") or {}
        counts = report.get("counts") or []
        counts = counts if len(counts) == self.members else [None] * self.members
        return [EndFacts(*one) for one in zip(self.numbers, counts, strict=True)]

    @property
    def told(self) -> dict[str, Any]:
        """The sections of its summary that only the wrapper knows, as far as they are there."""
        keys = ("faults", "relay", "dead_letters")
        return {key: self.known[key] for key in keys if key in self.known}

    @property
    def config(self) -> dict[str, Any]:
        """Its configuration; empty where no summary tells."""
        return self.known.get("config") or {}

    @property
    def in_all(self) -> dict[str, Any]:
        """The options of all ends; empty likewise."""
        return self.config.get("ends") or {}


def end_records(path: Path) -> EndRecords:
    """Return the end that a file of records is of, with the summary beside it.

    Raises:
        RecordError: the summary is damaged.
        OSError: it cannot be read.
    """
    role, number = end_of(path) or ("", 0)
    place = summary_path(path)
    return EndRecords(role, number, path, {} if place is None else summary_document(place))


def of_both_sides(
    name: str, ends: Sequence[EndRecords]
) -> tuple[list[EndRecords], list[EndRecords]]:
    """Return the senders and the receivers of a run of many ends.

    Raises:
        RecordError: one side is missing.
    """
    senders = [end for end in ends if end.role == "sender"]
    receivers = [end for end in ends if end.role == "receiver"]
    if not senders or not receivers:
        missing = "receivers" if senders else "senders"
        raise RecordError(f"{name} has no {missing}: a run of many ends has both")
    return senders, receivers


def known_bounds(senders: Sequence[EndRecords], receivers: Sequence[EndRecords]) -> RunBounds:
    """Return the bounds that the summaries of all ends tell."""
    return bounds_of_ends([end.known for end in senders], [end.known for end in receivers])


def hides_ends(ends: Sequence[EndRecords]) -> bool:
    """Say whether some ends of a side shared a process whose records do not tell them apart.

    Raises:
        OSError: a file cannot be read.
    """
    return any(end.members > 1 and not tells_ends(end.path) for end in ends)


def _have_own_queues(ends: Sequence[EndRecords], side: str) -> bool:
    """Say whether each end of a side, several of which may share a process, has a queue alone."""
    asked = _asked_of_all(ends)
    return side in asked and bool(asked[side] == asked.get("queues"))


def _asked_of_all(ends: Sequence[EndRecords]) -> dict[str, Any]:
    """Return the options of all ends, as the first summary tells; empty without one."""
    return next((end.in_all for end in ends if end.in_all), {})


def sent_alone(senders: Sequence[EndRecords]) -> bool:
    """Say whether one sender alone sent to each queue, as far as the summaries tell."""
    if any(end.members > 1 for end in senders):
        return _have_own_queues(senders, "senders")
    queues = [end.in_all.get("queue") for end in senders]
    return len(senders) == 1 or (None not in queues and len({*queues}) == len(queues))


def queue_count(receivers: Sequence[EndRecords]) -> int | None:
    """Return the number of queues of a run; None where no summary tells it, or without a server."""
    queues = _asked_of_all(receivers).get("queues")
    without = any(end.config.get("connection_mode") == "server" for end in receivers)
    return None if queues is None or without else int(queues)


def queues_told(receivers: Sequence[EndRecords]) -> int:
    """Return the number of queues, of several, whose receivers are told apart; else 0.

    Raises:
        OSError: a file cannot be read.
    """
    queues = queue_count(receivers) or 1
    return 0 if queues < 2 or hides_ends(receivers) else queues
