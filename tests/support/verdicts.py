"""What each case of quiver-conform has to find at our server and our arrow."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from buildtools.not_kept import NOT_KEPT
from quiver_fast.conform.case import BROKEN, DISPUTED_, KEPT, Case
from quiver_fast.conform.runner import Result
from quiver_fast.conform.wire.frames import Composite
from quiver_fast.conform.wire.trace import Traced

_FOLDER = Path(__file__).parent / "conform_answers"


def expected(case: Case) -> str:
    """Return the verdict on ours."""
    row = NOT_KEPT.get(case.id)
    ours = ("server", "both") if case.who == "server" else ("arrow", "both")
    if row is None or row.who not in ours:
        return KEPT
    return DISPUTED_ if case.doubt else BROKEN


def answers(*names: str) -> dict[str, str]:
    """Return of each case the refusals that it gets, in their order: cases demand less."""
    return {
        key: told
        for name in names
        for key, told in json.loads((_FOLDER / f"{name}.json").read_text()).items()
    }


def refusals(result: Result) -> str:
    """Return the frames of the peer with an error: how many in a row, their name, condition."""
    found = [
        f"{one.name} {error.fields['condition']}"
        for one in result.trace
        if not one.sent and (error := _error(one)) is not None
    ]
    rows = [(len([*same]), each) for each, same in groupby(found)]
    return ", ".join(each if count == 1 else f"{count} {each}" for count, each in rows)


def in_order(result: Result) -> bool:
    """Say whether it begins each connection by an open; nothing follows its close, on channel 0.

    Parts 2.4.1 and 2.4.3, in whatever a case does to it.
    """
    connections: dict[int, list[Traced]] = {}
    for one in result.trace:
        if not (one.sent or one.name == "header" or one.name.startswith("sasl_")):
            connections.setdefault(one.connection, []).append(one)
    return all(
        frames[0].name == "open"
        and all(one.name != "close" for one in frames[:-1])
        and (frames[-1].name != "close" or frames[-1].channel == 0)
        for frames in connections.values()
    )


def _error(frame: Traced) -> Composite | None:
    """Return the error of a frame, or of the outcome in it."""
    state = frame.fields.get("state")
    if isinstance(state, Composite) and state.name == "transactional_state":
        state = state.fields.get("outcome")
    holder = state.fields if isinstance(state, Composite) else frame.fields
    error: Composite | None = holder.get("error")
    return error
