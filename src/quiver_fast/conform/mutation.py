"""Faults that a relay makes in the frames of a peer that is right: data, for each case one.

`tests/support/mutant.py` makes them. ``name`` is a frame's; ``nth`` counts the frames of that name
over all connections of a case, from 1, and 0 is each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Mutation(NamedTuple):
    """One fault.

    Attributes:
        kind: the function below that made it.
        name: the frame that it is about.
        fields: for a frame its fields by name, else what the kind needs.
        nth: which of the frames; 0 for each.
    """

    kind: str
    name: str
    fields: Mapping[str, Any]
    nth: int = 0

    @property
    def words(self) -> str:
        """The fault in words."""
        return _WORDS[self.kind](self)


def changed(name: str, /, *, nth: int = 0, **fields: Any) -> Mutation:
    """Change fields; None removes one.

    ``error__condition`` is a field of a field; ``channel`` and ``payload`` are the frame's own. A
    function makes the new value from the old one.
    """
    return Mutation("changed", name, fields, nth)


def dropped(name: str, nth: int = 0) -> Mutation:
    """Leave a frame out."""
    return Mutation("dropped", name, {}, nth)


def silenced(name: str) -> Mutation:
    """Leave a frame out, and swallow the end of the TCP connection."""
    return Mutation("silenced", name, {})


def twice(name: str) -> Mutation:
    """Send each frame of this name twice."""
    return Mutation("twice", name, {})


def swapped(first: str, second: str) -> Mutation:
    """Hold a frame back until one of the other name has gone."""
    return Mutation("swapped", first, {"second": second})


def late(name: str, seconds: float) -> Mutation:
    """Send a frame of this name, and all behind it, so much later."""
    return Mutation("late", name, {"seconds": seconds})


def added(after: str, name: str, /, *, nth: int = 1, **fields: Any) -> Mutation:
    """Send one more frame behind the nth of the name ``after``."""
    return Mutation("added", after, {"": name, **fields}, nth)


def header(data: bytes) -> Mutation:
    """Send another AMQP header."""
    return Mutation("header", "header", {"data": data})


def cut(before: str) -> Mutation:
    """End the TCP connection in place of a frame."""
    return Mutation("cut", before, {})


def held() -> Mutation:
    """Swallow the end of the TCP connection."""
    return Mutation("held", "end of TCP", {})


def output(pattern: str, repl: str) -> Mutation:
    """Replace a pattern in the lines that an arrow prints."""
    return Mutation("output", pattern, {"repl": repl})


def word(key: str, value: str | None) -> Mutation:
    """Change an argument of an arrow; None leaves it out."""
    return Mutation("word", key, {"value": value})


def exits(code: int) -> Mutation:
    """Change the exit code of an arrow."""
    return Mutation("exits", str(code), {})


def again() -> Mutation:
    """Let an arrow connect once more."""
    return Mutation("again", "connection", {})


def _changed_words(one: Mutation) -> str:
    parts = [
        f"lacks {name}" if value is None else f"has another {name}"
        for name, value in one.fields.items()
    ]
    return f"its {one.name} {' and '.join(parts)}".replace("__", ".").replace("_", "-")


_WORDS: dict[str, Callable[[Mutation], str]] = {
    "changed": _changed_words,
    "dropped": lambda one: f"its {one.name} does not come",
    "silenced": lambda one: f"its {one.name} does not come, nor the end of the connection",
    "twice": lambda one: f"its {one.name} comes twice",
    "swapped": lambda one: f"its {one.fields['second']} comes before its {one.name}",
    "late": lambda one: f"its {one.name} comes {one.fields['seconds']:g} s late",
    "added": lambda one: f"another {one.fields['']} follows its {one.name}",
    "header": lambda one: f"its header is {one.fields['data']!r}",
    "cut": lambda one: f"the connection ends in place of its {one.name}",
    "held": lambda _one: "the connection does not end",
    "output": lambda one: f"its line has not {one.name}",
    "word": lambda one: f"it takes {one.name} for another",
    "exits": lambda one: f"its exit code is {one.name}",
    "again": lambda _one: "it connects again",
}
