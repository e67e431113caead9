"""`quiver schema`: schemas of all documents, which change with the output of the commands."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from support.documents import faults, parsed, validator
from support.processes import Finished, run

from quiver_fast.schemas import VERSIONS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def quiver(*words: str) -> Finished:
    return run([sys.executable, "-m", "quiver_fast.cli.pair.command", *words])


def printed(name: str) -> dict[str, Any]:
    end = quiver("schema", name)
    assert (end.code, end.stderr) == (0, "")
    found: dict[str, Any] = json.loads(end.stdout)
    return found


def test_names() -> None:
    end = quiver("schema")
    assert (end.code, end.stderr) == (0, "")
    assert end.stdout.split() == sorted(VERSIONS)


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_a_schema(name: str) -> None:
    found = printed(name)
    assert found["$schema"] == DIALECT
    assert found["title"]
    validator(name)
    for place, part in objects(found, "$"):
        # An object with free keys declares their values; any other has no further keys.
        closed = part.get("additionalProperties") is False
        assert closed or isinstance(part.get("additionalProperties"), dict), place
        assert {*part.get("required", [])} <= {*part.get("properties", {})}, place


def objects(part: Any, place: str) -> list[tuple[str, dict[str, Any]]]:
    """Return all schemas of objects in a schema."""
    found = []
    if isinstance(part, dict):
        kinds = part.get("type", [])
        if "object" in ([kinds] if isinstance(kinds, str) else kinds):
            found.append((place, part))
        for key, value in part.items():
            found += objects(value, f"{place}.{key}")
    return found


def test_a_new_key_is_noticed_wherever_it_is() -> None:
    """A schema that takes everything would prove nothing."""
    document = parsed(quiver("--json", "--count", "100").stdout)
    assert faults("run", document) == []
    assert faults("run", document | {"new": 1})
    for path in (["results"], ["sender", "config"], ["receiver", "latency"], ["environment"]):
        changed = json.loads(json.dumps(document))
        part = changed
        for name in path:
            part = part.get(name) or changed["receiver"][name]
        part["new"] = 1
        assert faults("run", changed), path


def test_unknown_names_are_refused() -> None:
    end = quiver("schema", "runs")
    assert (end.code, end.stdout) == (2, "")
    assert end.stderr == (
        "quiver: error: there is no document 'runs'; did you mean run? "
        "('quiver schema' prints all names)\n"
    )
    assert quiver("schema", "run", "sweep").code == 2
