"""The JSON documents that the commands write: their names, versions and JSON Schemas."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

VERSIONS = {
    "analysis": 1,
    "arrow-summary": 1,
    "bench": 1,
    "bench-result": 1,
    "churn": 1,
    "fleet": 1,
    "found-rate": 1,
    "hold": 1,
    "queue-entry": 1,
    "queue-index": 1,
    "queue-verification": 1,
    "run": 1,
    "run-set": 1,
    "sweep": 1,
}
"""The version of each document. It grows when a key goes or means something else."""


def marked(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the key ``schema`` first, which tells its name and version."""
    return {"schema": {"name": name, "version": VERSIONS[name]}} | document


def schema_text(name: str) -> str:
    """Return the JSON Schema (2020-12) of a document as text.

    Raises:
        KeyError: there is no such document.
    """
    return files(__name__).joinpath(f"{name}-{VERSIONS[name]}.json").read_text(encoding="utf-8")
