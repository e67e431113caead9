"""The JSON documents of commands: tests check each document that they parse with its schema."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from typing import Any

from jsonschema import Draft202012Validator

from quiver_fast.schemas import VERSIONS, schema_text

# Each of our documents has one of these keys, and so must name its schema.
OURS = {"environment", "analysed_with"}


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """Return the validator of a document; its schema must be valid too."""
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def faults(name: str, document: Any) -> list[str]:
    """Return the differences between a document and its schema."""
    return [f"{error.json_path}: {error.message[:300]}"
            for error in validator(name).iter_errors(document)]  # fmt: skip


def name_of(document: Any) -> str | None:
    """Return the name of a document; None if it is not ours."""
    if not isinstance(document, dict):
        return None
    mark = document.get("schema")
    if mark is not None:
        assert mark["version"] == VERSIONS[mark["name"]]
        return str(mark["name"])
    assert not OURS & document.keys(), "the document does not say its schema"
    # A line of `quiver-queue`, of which there may be millions, names no schema.
    if {*document} == {"index"}:
        return "queue-index"
    return "queue-entry" if "index" in document else None


def parsed(text: str | bytes) -> Any:
    """Parse JSON, and check it if it is one of our documents."""
    document = json.loads(text)
    name = name_of(document)
    if name is not None:
        found = faults(name, document)
        assert not found, f"{name}: " + "\n".join(found[:10])
    return document


def with_odd_values(text: str, values: Iterable[Any]) -> Iterator[str]:
    """Yield a document with each value in turn replaced by others, or deleted by `...`."""
    for names in _places(json.loads(text)):
        for value in values:
            document = json.loads(text)
            parent = document
            for name in names[:-1]:
                parent = parent[name]
            parent[names[-1]] = value
            if value is ...:
                del parent[names[-1]]
            yield json.dumps(document)


def _places(value: Any, names: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value in a document, but those of the environment."""
    if names:
        yield names
    if isinstance(value, dict):
        for name, one in value.items():
            if name != "environment":
                yield from _places(one, (*names, name))
    elif isinstance(value, list) and value:
        yield from _places(value[0], (*names, 0))
