"""The kind of a queue that a user asks for: its type, arguments, routing and durability."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from quiver_fast.errors import UsageError
from quiver_fast.property_mix import Value, typed

TYPES = ("classic", "quorum", "stream")
ROUTINGS = ("anycast", "multicast")


class QueueKind(NamedTuple):
    """What a queue is to be; what is empty, the broker decides.

    Attributes:
        type: of RabbitMQ, one of ``TYPES``.
        arguments: by their names.
        routing: of Artemis, one of ``ROUTINGS``.
        durable: it outlives the broker.
    """

    type: str = ""
    arguments: tuple[tuple[str, Value], ...] = ()
    routing: str = ""
    durable: bool = False

    @property
    def flags(self) -> list[str]:
        """The options that were given."""
        return [f"--{flag}" for flag, value in zip(_FLAGS, self, strict=True) if value]


ANY_KIND = QueueKind()
_FLAGS = ("queue-type", "queue-argument", "routing", "durable-queue")


def parse_arguments(texts: Iterable[str]) -> tuple[tuple[str, Value], ...]:
    """Return the arguments of texts such as ``x-max-length=1000``.

    A whole number of 64 bits is a number, ``true`` and ``false`` are booleans, all else is text.

    Raises:
        UsageError: a text is no argument, or two have the same name.
    """
    found: dict[str, Value] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--queue-argument: '{text}' is not KEY=VALUE")
        if name in found:
            raise UsageError(f"--queue-argument: {name} is given twice")
        found[name] = typed(value)
    return tuple(found.items())


def differences(kind: QueueKind, found: QueueKind) -> list[str]:
    """Return in words how a queue differs from the kind that was asked for."""
    words = [
        f"it is {is_}, not {asked}"
        for is_, asked in ((found.type, kind.type), (found.routing, kind.routing))
        if asked and is_ != asked
    ]
    if kind.durable and not found.durable:
        words.append("it is not durable")
    there: Mapping[str, Value] = dict(found.arguments)
    for name, value in kind.arguments:
        if name not in there:
            words.append(f"it has no {name}")
        elif there[name] != value:
            words.append(f"its {name} is {there[name]}, not {value}")
    return words
