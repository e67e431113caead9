"""The application properties of a sender's messages, read from their text.

`color=blue,size=3` gives all messages the same two. With `color=red:20%,green:80%` a message of
five is red. `n=%n` is the message's number, and `key=%id` its id.

The number of a message within its end, from 1, alone says which values it has. So a copy that is
sent again is the same, and an analysis knows the values of each message without seeing them.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

from quiver_fast.arguments import check_text
from quiver_fast.body_sizes import WHOLE, check_shares, parse_share
from quiver_fast.errors import UsageError

Value = str | int | bool

MOST_CLASSES = 64
_MOST_COPIES = 16
NUMBER, ID = "%n", "%id"
# Compiled when it is used: few senders have properties.
_WHOLE_NUMBER = r"[+-]?[0-9]{1,19}"
_OURS = ("SendTime", "BodySize")
_LARGEST = 4096
# Multiples of the square roots of different primes are spread evenly and without regard to each
# other (Weyl), so that two properties in shares have nothing to do with each other.
_PRIMES = (5, 2, 3, 7, 11, 13)
_MASK = 2**64 - 1


class Steps(NamedTuple):
    """How the number of a message decides on the value of one property.

    Attributes:
        factor: the number is multiplied by it, modulo 2^64.
        bounds: the value is the one whose place is the count of bounds up to that product.
    """

    factor: int
    bounds: tuple[int, ...]


class PropertyMix(NamedTuple):
    """The properties of all messages of a sender.

    Messages of one *class* have the same values of the mixed properties.

    Attributes:
        fixed: the values that all messages have.
        mixed: the values of other properties, each with its share in hundredths of a percent.
        numbered: names of the properties that are the message's number.
        ids: names of the properties that are the message's id.
    """

    fixed: Mapping[str, Value] = MappingProxyType({})
    mixed: Mapping[str, tuple[tuple[Value, int], ...]] = MappingProxyType({})
    numbered: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        """Whether messages have different properties."""
        return bool(self.mixed or self.numbered or self.ids)

    def name_of(self, text: str) -> str:
        """Return the first property that has a text as a value; empty if none has it."""
        values = {name: [value for value, _ in parts] for name, parts in self.mixed.items()}
        values |= {name: [value] for name, value in self.fixed.items()}
        return next((name for name in values if text in map(_text, values[name])), "")

    def classes(self) -> list[dict[str, Value]]:
        """Return the fixed and mixed properties of each class."""
        values = ([value for value, _ in parts] for parts in self.mixed.values())
        return [
            {**self.fixed, **dict(zip(self.mixed, chosen, strict=True))}
            for chosen in product(*values)
        ]

    def values_of(self, name: str) -> list[str]:
        """Return the value of a property in each class, as text."""
        return [_text(values[name]) for values in self.classes()]

    def steps(self) -> list[Steps]:
        """Return how the number decides on the value of each mixed property."""
        found = []
        for prime, parts in zip(_PRIMES, self.mixed.values(), strict=False):
            ends = [
                sum(share for _, share in parts[: place + 1]) for place in range(len(parts) - 1)
            ]
            bounds = tuple(-(-(end << 64) // WHOLE) for end in ends)
            # The fraction of the root; an odd factor gives each number of 64 bits another product.
            found.append(Steps(math.isqrt(prime << 128) & _MASK | 1, bounds))
        return found

    def class_of(self, number: int) -> int:
        """Return the place in `classes` of the message with a number, from 1, within its end."""
        found = 0
        for factor, bounds in self.steps():
            found *= len(bounds) + 1
            found += bisect_right(bounds, number * factor & _MASK)
        return found

    def texts(self) -> dict[str, Value]:
        """Return each property as a value, or as the text of its values."""
        parts = {
            name: ",".join(f"{_text(value)}:{share / 100:g}%" for value, share in shares)
            for name, shares in self.mixed.items()
        }
        return {
            **self.fixed, **parts, **dict.fromkeys(self.numbered, NUMBER),
            **dict.fromkeys(self.ids, ID),
        }  # fmt: skip


def mix_of(texts: Mapping[str, Value]) -> PropertyMix:
    """Return the properties whose `PropertyMix.texts` are given."""
    return parse_properties(",".join(f"{name}={_text(value)}" for name, value in texts.items()))


def parse_properties(text: str, called: str = "properties") -> PropertyMix:
    """Return the properties of a text such as ``color=red:20%,green:80%,size=3,n=%n,key=%id``.

    A whole number of 64 bits becomes a long, ``true`` and ``false`` booleans, and all else text.

    Raises:
        UsageError: a part is not NAME=VALUE, a name is empty, ours or given twice, shares are not
            100 %, or the properties have too many classes or are too long; the message calls the
            option ``called``.
    """
    check_text(called, text)
    if len(text.encode()) > _LARGEST:
        raise UsageError(f"{called}: they take more than {_LARGEST} bytes")
    fixed: dict[str, Value] = {}
    mixed: dict[str, tuple[tuple[Value, int], ...]] = {}
    for name, values in _values(text, called).items():
        parts = [_part(value, called) for value in values]
        if len(parts) == 1 and parts[0][1] is None:
            fixed[name] = parts[0][0]
            continue
        check_shares((share or 0 for _, share in parts), ",".join(values), called)
        mixed[name] = tuple((value, share or 0) for value, share in parts)
    numbered = tuple(name for name, value in fixed.items() if value == NUMBER)
    ids = tuple(name for name, value in fixed.items() if value == ID)
    if max(len(numbered), len(ids)) > _MOST_COPIES:
        raise UsageError(f"{called}: at most {_MOST_COPIES} properties are {NUMBER}, or {ID}")
    for name in numbered + ids:
        del fixed[name]
    # One value of 100 % is every message's: it takes none of the few classes.
    fixed |= {name: parts[0][0] for name, parts in mixed.items() if len(parts) == 1}
    mixed = {name: parts for name, parts in mixed.items() if len(parts) > 1}
    count = math.prod(map(len, mixed.values()))
    if count > MOST_CLASSES:
        raise UsageError(
            f"{called}: {count} combinations of values in shares are more than {MOST_CLASSES}"
        )
    return PropertyMix(fixed, mixed, numbered, ids)


def _values(text: str, called: str) -> dict[str, list[str]]:
    """Return the texts of the values of each name: one, or several with shares."""
    found: dict[str, list[str]] = {}
    name = ""
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals and name and found[name][-1].endswith("%") and part.endswith("%"):
            # Another value of the name before.
            found[name].append(part)
            continue
        name = key
        if not name or not equals:
            raise UsageError(f"{called}: '{part}' is not NAME=VALUE")
        if name in _OURS:
            raise UsageError(f"{called}: {name} is set by the sender itself")
        if name in found:
            raise UsageError(f"{called}: {name} is given twice")
        found[name] = [value]
    return found


def _part(text: str, called: str) -> tuple[Value, int | None]:
    """Return a value, and its share if it has one."""
    value, _, percent = text.rpartition(":")
    if not percent.endswith("%") or percent == text:
        return typed(text), None
    share = parse_share(percent)
    if share is None or value in (NUMBER, ID):
        raise UsageError(f"{called}: '{text}' is not a value with a share, such as red:20%")
    return typed(value), share


def typed(text: str) -> Value:
    """Return a text as the value that it is sent as."""
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(_WHOLE_NUMBER, text) and -(2**63) <= int(text) < 2**63:
        return int(text)
    return text


def _text(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
