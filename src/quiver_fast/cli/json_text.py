"""JSON for people and programs: indented, but a list of plain values is one line.

A series has a number for each second of a run: one a line, most of it would be indentation.
"""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_text"]

_STEP = "  "


def json_text(document: Any) -> str:
    """Return ``document`` as JSON text without a newline at its end.

    Args:
        document: what :func:`json.dumps` takes; the keys of its dictionaries are strings.
    """
    return _rendered(document, "\n")


def _rendered(value: Any, newline: str) -> str:
    """Return the text of a value that stands where lines begin with ``newline``."""
    inner = newline + _STEP
    if isinstance(value, dict) and value:
        items = [f"{json.dumps(key)}: {_rendered(item, inner)}" for key, item in value.items()]
        return "{" + inner + ("," + inner).join(items) + newline + "}"
    if isinstance(value, (list, tuple)) and any(map(_has_parts, value)):
        items = [_rendered(item, inner) for item in value]
        return "[" + inner + ("," + inner).join(items) + newline + "]"
    return json.dumps(value)


def _has_parts(value: Any) -> bool:
    return isinstance(value, (dict, list, tuple))
