"""`quiver schema`: the JSON Schemas of the documents that the commands write."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from quiver_fast.errors import UsageError
from quiver_fast.schemas import VERSIONS, schema_text

WORD = "schema"
"""The first argument of a command that prints schemas; `//localhost/schema` is a queue."""


def schema(words: Sequence[str]) -> str:
    """Return the text that `quiver schema` prints: a schema, or the names of all, one a line.

    Raises:
        UsageError: there is no such document.
    """
    if not words:
        return "".join(f"{name}\n" for name in sorted(VERSIONS))
    if len(words) > 1 or words[0] not in VERSIONS:
        raise UsageError(_unknown(words))
    return schema_text(words[0])


def _unknown(words: Sequence[str]) -> str:
    if len(words) > 1:
        return "schema takes one name; without one it prints all of them"
    close = difflib.get_close_matches(words[0], VERSIONS, 1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"there is no document '{words[0]}'{hint} ('quiver schema' prints all names)"
