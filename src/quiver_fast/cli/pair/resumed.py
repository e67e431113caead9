"""The campaign that ``--resume`` goes on with: its document, and the options that it had."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from quiver_fast.analysis.read.set_layout import RESUMED
from quiver_fast.analysis.read.summary_file import read_document
from quiver_fast.errors import RecordError, UsageError

TEXT, NUMBER = (str, NoneType), (int, float, NoneType)
FIGURES = (NoneType, {...: NUMBER})


def fits(value: Any, kind: Any) -> bool:
    """Say whether a value that was read from a file is of a kind.

    Args:
        value: as JSON has it.
        kind: a type; a tuple of kinds, one of which it has; a list of one kind, which all values
            of a list have; or the keys that an object has, with the kinds of their values.
            ``...`` has the kind of all other values.
    """
    if isinstance(kind, tuple):
        return any(fits(value, one) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(fits(one, kind[0]) for one in value)
    if isinstance(kind, Mapping):
        if not isinstance(value, dict) or not kind.keys() - {...} <= value.keys():
            return False
        others = kind.get(..., object)
        return all(fits(one, kind.get(key, others)) for key, one in value.items())
    return isinstance(value, kind)


def read_begun(place: Path, kind: Any) -> dict[str, Any]:
    """Return the document of a campaign to resume, which is of a kind (:func:`fits`).

    Raises:
        UsageError: it is damaged.
        OSError: it cannot be read.
    """
    try:
        document = read_document(place, "campaign", lambda _document: None)
    except RecordError as error:
        raise UsageError(f"--resume: {error}") from None
    if not fits(document, kind):
        raise UsageError(f"--resume: {place} is damaged: keys are missing, or have other values")
    return document


def begun_in(directory: str) -> Path:
    """Return the document of the campaign to resume in a directory.

    Raises:
        UsageError: there is none.
    """
    for name in RESUMED:
        if (found := Path(directory) / name).is_file():
            return found
    raise UsageError(f"--resume: there is no {' or '.join(RESUMED)} in {directory}")


def check_same(output: str, begun: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Check that a campaign is resumed with the options that it was begun with.

    Raises:
        UsageError: it is not.
    """
    for name in sorted({*begun, *now}):
        if begun.get(name) != now.get(name):
            option = "URL" if name == "url" else f"--{name.replace('_', '-')}"
            raise UsageError(f"--resume: {output} was begun with another {option}")
