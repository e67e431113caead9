"""The JSON documents that the commands write: their names, versions and JSON Schemas."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import Any

from quiver_fast.options.arrow import LOAD, MESSAGE, PAIR, RECEIVER, SUMMARY_OPTIONS
from quiver_fast.options.option import CHOICE, NUMBER, SWITCH, TEXT

VERSIONS = {
    "analysis": 1,
    "arrow-summary": 1,
    "bench": 1,
    "bench-result": 1,
    "churn": 1,
    "conformance": 1,
    "fleet": 1,
    "found-rate": 1,
    "hold": 1,
    "queue-entry": 1,
    "queue-index": 1,
    "queue-verification": 1,
    "run": 1,
    "run-set": 1,
    "suite": 1,
    "sweep": 1,
}
"""The version of each document. It grows when a key goes or means something else."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_CLOSED: dict[str, Any] = {"type": "object", "additionalProperties": False}
# Lines of `quiver-queue`: there may be millions, and none tells its schema.
_UNMARKED = ("queue-entry", "queue-index")
_TYPES = {
    CHOICE: ["string", "null"],
    NUMBER: ["integer", "null"],
    SWITCH: "boolean",
    TEXT: ["string", "null"],
}


def marked(name: str, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the key ``schema`` first, which tells its name and version."""
    return {"schema": {"name": name, "version": VERSIONS[name]}} | document


def schema_text(name: str) -> str:
    """Return the JSON Schema (2020-12) of a document as text, with all definitions that it uses.

    A file here has the description and the keys of one document. A document with a ``base``
    also has the keys of that definition or document.

    Raises:
        KeyError: there is no such document.
    """
    definitions = _definitions()
    document = _read(f"{name}-{VERSIONS[name]}")
    base = document.pop("base", None)
    if name not in _UNMARKED:
        document = _extended(_mark(name), document)
    if base is not None:
        document = _extended(definitions.get(base) or _read(base), document)
    whole = {"$schema": _DIALECT, "title": name} | document | _CLOSED
    used = _used(document, definitions)
    if used:
        whole["$defs"] = {key: value for key, value in definitions.items() if key in used}
    return json.dumps(whole, indent=1) + "\n"


def _read(name: str) -> dict[str, Any]:
    text = files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")
    read: dict[str, Any] = json.loads(text)
    return read


def _definitions() -> dict[str, Any]:
    """Return the definitions; those of options follow from the options' kinds."""
    definitions = _read("definitions")
    config, bench = definitions["config"], definitions["bench-options"]
    for option in SUMMARY_OPTIONS:
        kind = {"type": _TYPES.get(option.kind)}
        config["properties"].setdefault(option.name, kind)
        if option.group in (LOAD, MESSAGE, PAIR, RECEIVER):
            bench["properties"].setdefault(option.dest, kind)
    return definitions


def _mark(name: str) -> dict[str, Any]:
    """Return the schema of the key that `marked` adds."""
    values = {"name": name, "version": VERSIONS[name]}
    properties = {key: {"const": value} for key, value in values.items()}
    mark = {"type": "object", "properties": properties, "required": [*values]} | _CLOSED
    return {"properties": {"schema": mark}, "required": ["schema"]}


def _extended(base: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with the keys of another one before its own."""
    properties = base["properties"] | document.get("properties", {})
    required = [*base.get("required", ()), *document.get("required", ())]
    return document | {"properties": properties, "required": required}


def _used(part: dict[str, Any], definitions: dict[str, Any]) -> set[str]:
    """Return the names of the definitions that a part refers to, directly or not."""
    names = set(re.findall(r'"#/\$defs/([a-z-]+)"', json.dumps(part)))
    return names.union(*(_used(definitions[name], definitions) for name in names))
