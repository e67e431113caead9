"""The JSON documents that commands write."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes) -> Any:
    """Return what JSON says."""
    return json.loads(text)
