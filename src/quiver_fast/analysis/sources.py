"""Reading a run: the one place where an engine turns files into what all statistics need."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quiver_fast.analysis.delivery import reconcile
from quiver_fast.analysis.discovery import RunFiles
from quiver_fast.analysis.distribution import Distribution
from quiver_fast.analysis.histogram import SecondHistogram
from quiver_fast.analysis.settlement import join_settlements
from quiver_fast.analysis.summary import receiver_sections, sender_sections
from quiver_fast.analysis.windows import SecondCounts, of_differences
from quiver_fast.errors import RecordError
from quiver_fast.records.formats import RECEIVE
from quiver_fast.records.parser import read_transfers
from quiver_fast.records.transfers import Transfers

__all__ = ["Progress", "RunData", "load_run", "read_file"]

Progress = Callable[[int, int], None]
"""Called with the bytes read of the current file, and its size."""

_TRANSFERS = ("transfers.csv", "transfers.csv.zst")
# What a wrapper's summary knows that the records do not.
_KEPT = ("config", "complete", "reason", "exit_code", "arrow", "environment")


@dataclass(frozen=True)
class RunData:
    """A run, as every engine hands it over; whatever an end did not record is None.

    Attributes:
        name: what to call it.
        sender, receiver: each end's summary in the wrappers' shape; ``config`` and the
            rest that the records do not tell are None where the wrapper's summary file
            is not beside the records.
        delivery: what became of each message, by both ends where both are there.
        histogram: latencies by the second of receipt.
        sends: messages sent in each second.
        settlement: settlement latencies, in the unit of the sender's records.
    """

    name: str
    sender: dict[str, Any] | None
    receiver: dict[str, Any] | None
    delivery: dict[str, Any] | None
    histogram: SecondHistogram | None
    sends: SecondCounts | None
    settlement: Distribution | None


def load_run(files: RunFiles, progress: Progress) -> RunData:
    """Read the records of a run with NumPy, whole files at a time.

    Raises:
        RecordError: a file holds no records, or those of the other end; a summary file
            beside the records is damaged.
        OSError: a file cannot be read.
    """
    ends = {path: read_file(path, progress) for path in files.paths}
    by_role = {_role(path, transfers): (path, transfers) for path, transfers in ends.items()}
    sender, receiver = by_role.get("sender"), by_role.get("receiver")
    settlements = None if sender is None else join_settlements(sender[1])
    receiver_summary = None if receiver is None else _receiver_summary(*receiver)
    delivery = None if receiver_summary is None else receiver_summary["delivery"]
    if sender is not None and receiver is not None and receiver_summary is not None:
        delivery = receiver_summary["delivery"] = reconcile(sender[1], receiver[1])
    return RunData(
        name=files.name,
        sender=None if sender is None else _sender_summary(*sender),
        receiver=receiver_summary,
        delivery=delivery,
        histogram=None if receiver is None else _histogram(receiver[1]),
        sends=None
        if sender is None
        else SecondCounts.of_times(sender[1].sent, sender[1].time_unit),
        settlement=None if settlements is None else settlements.everything,
    )


def read_file(path: Path, progress: Progress) -> Transfers:
    """Return the records of a file whose name may tell the end that it is of.

    Raises:
        RecordError: the file has lines but no records.
    """
    transfers = read_transfers(path, operation=_operation(path), progress=progress)
    if transfers.operation is None:
        first = transfers.first_malformed
        what = "is empty" if first is None else f"has no records; line {first[0]} is: {first[1]}"
        raise RecordError(f"{path} {what}")
    if len(transfers) == 0 and transfers.malformed:
        line, text = transfers.first_malformed or (0, "")
        raise RecordError(f"{path} has no {transfers.operation} records; line {line} is: {text}")
    return transfers


def _operation(path: Path) -> str | None:
    if not path.name.endswith(_TRANSFERS):
        return None
    return {"sender": "send", "receiver": "receive"}.get(path.name.split("-")[0])


def _role(path: Path, transfers: Transfers) -> str:
    role = "receiver" if transfers.operation == RECEIVE else "sender"
    other = "sender" if role == "receiver" else "receiver"
    if other in path.name and role not in path.name:
        raise RecordError(f"{path} is named a {other}'s, but its records are a {role}'s")
    return role


def _sender_summary(path: Path, transfers: Transfers) -> dict[str, Any]:
    kept = _wrapper_summary(path)
    rate = (kept["config"] or {}).get("rate", 0)
    schedule = (kept["arrow"] or {}).get("schedule")
    return _summary(path, kept, sender_sections(transfers, rate, schedule))


def _receiver_summary(path: Path, transfers: Transfers) -> dict[str, Any]:
    return _summary(path, _wrapper_summary(path), receiver_sections(transfers))


def _summary(path: Path, kept: dict[str, Any], sections: dict[str, Any]) -> dict[str, Any]:
    """Return a summary in the wrappers' order of keys, and the file that it is of."""
    rest = {key: kept[key] for key in _KEPT if key != "config"}
    return {"config": kept["config"], **sections, **rest, "file": str(path)}


def _wrapper_summary(path: Path) -> dict[str, Any]:
    """Return what the summary file beside ``path`` knows; None for what it does not."""
    stem = next(
        (path.name.removesuffix(end) for end in _TRANSFERS if path.name.endswith(end)), None
    )
    if stem is None:
        return dict.fromkeys(_KEPT)
    try:
        document = json.loads(path.with_name(f"{stem}summary.json").read_bytes())
    except FileNotFoundError:
        return dict.fromkeys(_KEPT)
    except ValueError as error:
        raise RecordError(f"{path.with_name(stem)}summary.json is damaged: {error}") from None
    return {key: document.get(key) for key in _KEPT}


def _histogram(receiver: Transfers) -> SecondHistogram:
    if receiver.received is None:
        raise RecordError("the receiver's records have no receive times")
    return of_differences(receiver.received, receiver.sent, receiver.time_unit)
