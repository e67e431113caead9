"""Filters of a receiver, read from their text: by properties, and the place in a stream.

`subject=a*,color=red` matches messages whose subject begins with an a, and whose
application property `color` is `red`. Filters by properties are those of AMQP Filter
Expressions Version 1.0, Working Draft 09, section 4.
"""

from __future__ import annotations

from datetime import datetime
from time import time
from typing import NamedTuple

from quiver_fast.arguments import check_text
from quiver_fast.errors import UsageError
from quiver_fast.property_mix import Value, typed
from quiver_fast.quantities import microseconds

EQUAL, PREFIX, SUFFIX = "equal", "prefix", "suffix"
STRING, SYMBOL, BINARY = "string", "symbol", "binary"
UINT, ULONG, TIMESTAMP = "uint", "ulong", "timestamp"

FIELDS = {
    "message-id": STRING, "user-id": BINARY, "to": STRING, "subject": STRING, "reply-to": STRING,
    "correlation-id": STRING, "content-type": SYMBOL, "content-encoding": SYMBOL,
    "absolute-expiry-time": TIMESTAMP, "creation-time": TIMESTAMP, "group-id": STRING,
    "group-sequence": UINT, "reply-to-group-id": STRING,
}  # fmt: skip
"""The fields of the properties section (part 3.2.4), and the types of filters by them."""
_MOST = {UINT: 2**32 - 1, TIMESTAMP: 2**63 - 1}
# Peers bound the complexity of a filter (section 7.1 of the draft).
_MOST_FILTERS = 16


class PropertyFilter(NamedTuple):
    """A condition on one property of a message.

    Attributes:
        name: a field of the properties section, or an application property.
        type: the type of the field in `FIELDS`; empty for an application property.
        kind: EQUAL, or PREFIX or SUFFIX of a string.
        value: to compare with.
    """

    name: str
    type: str
    kind: str
    value: Value


def parse_property_filters(
    text: str, called: str = "filter-properties"
) -> tuple[PropertyFilter, ...]:
    r"""Return the conditions of a text such as ``subject=a*,file=*.txt,size=3``.

    All of them have to be true. An asterisk at an end stands for any characters; ``\*`` is one.

    Raises:
        UsageError: a part is no condition, or a name is given twice; the message calls the option
            ``called``.
    """
    check_text(called, text)
    filters = tuple(_filter(part, called) for part in text.split(",")) if text else ()
    if len(filters) > _MOST_FILTERS:
        raise UsageError(f"{called}: {len(filters)} conditions are more than {_MOST_FILTERS}")
    names = [one.name for one in filters]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{called}: {twice} is given twice")
    return filters


def _filter(part: str, called: str) -> PropertyFilter:
    name, equals, text = part.partition("=")
    if not name or not equals:
        raise UsageError(f"{called}: '{part}' is not NAME=VALUE")
    of = FIELDS.get(name, "")
    kind, value = EQUAL, text
    if text.endswith("*") and not text.endswith("\\*"):
        kind, value = PREFIX, text[:-1]
    elif text.startswith("*"):
        kind, value = SUFFIX, text[1:]
    if "*" in value.replace("\\*", ""):
        raise UsageError(f"{called}: '{part}': an asterisk is at one end of a value, or is \\*")
    value = value.replace("\\*", "*")
    if kind != EQUAL and of not in ("", STRING):
        raise UsageError(f"{called}: '{part}': only strings have a beginning and an end")
    if of in _MOST:
        if not (value.isascii() and value.isdigit()) or int(value) > _MOST[of]:
            raise UsageError(f"{called}: '{part}': {name} is a number up to {_MOST[of]}")
        return PropertyFilter(name, of, kind, int(value))
    if of == SYMBOL and not value.isascii():
        raise UsageError(f"{called}: '{part}': {name} is ASCII")
    return PropertyFilter(name, of, kind, value if of or kind != EQUAL else typed(value))


class StreamOffset(NamedTuple):
    """The place in a stream at which a receiver begins.

    Attributes:
        type: of the value in AMQP.
        value: a word, the offset of a message, or a time in ms since the epoch.
    """

    type: str
    value: str | int


def parse_stream_offset(text: str, called: str = "stream-offset") -> StreamOffset | None:
    """Return the place in a stream: ``first``, ``last``, ``next``, an offset, or a time.

    A time is ``2026-11-28T21:00:00Z``, or ``10m`` for ten minutes ago. No text is no place.

    Raises:
        UsageError: the text is no place; the message calls the option ``called``.
    """
    if not text:
        return None
    if text in ("first", "last", "next"):
        return StreamOffset(STRING, text)
    if text.isascii() and text.isdigit():
        if len(text) > 19 or int(text) >= 2**63:
            raise UsageError(f"{called}: an offset is less than 2^63")
        return StreamOffset(ULONG, int(text))
    ago = microseconds(text)
    try:
        then = time() - ago / 1e6 if ago else datetime.fromisoformat(_utc(text)).timestamp()
    except (ValueError, OverflowError):
        raise UsageError(
            f"{called}: '{text}' is not first, last, next, an offset, a time such as "
            "2026-11-28T21:00:00Z, or 10m for ten minutes ago"
        ) from None
    if then < 0:
        raise UsageError(f"{called}: '{text}' is before 1970")
    return StreamOffset(TIMESTAMP, int(then * 1000))


def _utc(text: str) -> str:
    # Python 3.10 does not read the letter.
    return f"{text[:-1]}+00:00" if text.endswith("Z") else text
