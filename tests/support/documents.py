"""The JSON documents that commands write: each that a test parses is checked against its schema."""

from __future__ import annotations

import functools
import json
from typing import Any

from jsonschema import Draft202012Validator

from quiver_fast.schemas import VERSIONS, schema_text

# A document of ours has one of these, and so must say what it is.
OURS = {"environment", "analysed_with"}


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """Return what checks a document, whose schema is a valid one itself."""
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def faults(name: str, document: Any) -> list[str]:
    """Return what a document has that its schema does not, and the other way round."""
    return [f"{error.json_path}: {error.message[:300]}"
            for error in validator(name).iter_errors(document)]  # fmt: skip


def name_of(document: Any) -> str | None:
    """Return which document it is; None for what is none of ours."""
    if not isinstance(document, dict):
        return None
    mark = document.get("schema")
    if mark is not None:
        assert mark["version"] == VERSIONS[mark["name"]]
        return str(mark["name"])
    assert not OURS & document.keys(), "the document does not say its schema"
    # A line of `quiver-queue`, of which there may be millions, says nothing of itself.
    if {*document} == {"index"}:
        return "queue-index"
    return "queue-entry" if "index" in document else None


def parsed(text: str | bytes) -> Any:
    """Return what JSON says, and check it if it is a document of ours."""
    document = json.loads(text)
    name = name_of(document)
    if name is not None:
        found = faults(name, document)
        assert not found, f"{name}: " + "\n".join(found[:10])
    return document
