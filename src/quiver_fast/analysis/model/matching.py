"""Which messages of a run a receiver's filter lets through, by their numbers.

The number of a message within its end tells its properties (:mod:`quiver_fast.property_mix`). So
nobody has to look at a message: the steps of the filter are evaluated for each class of messages,
and for numbers or ids only where the filter names a property that has these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from quiver_fast.analysis.model.distribution import Int64Array
from quiver_fast.analysis.model.property_classes import classes_of
from quiver_fast.errors import UsageError
from quiver_fast.property_filters import parse_property_filters
from quiver_fast.property_mix import PropertyMix, mix_of, typed
from quiver_fast.records.formats import IDS_OF_AN_END
from quiver_fast.selectors.property_steps import (
    APPLICATION_PROPERTIES_FILTER,
    PROPERTIES_FILTER,
    steps_of,
)
from quiver_fast.selectors.selector import ORDERS, Step, parse

# So many messages are evaluated at a time.
_CHUNK = 1 << 16
_TRUTH, _WHOLE, _REAL, _TEXT, _NULL = "truth", "whole", "real", "text", "null"
_DTYPES = {_TRUTH: np.bool_, _WHOLE: np.int64, _REAL: np.float64, _TEXT: object, _NULL: np.bool_}
# Where hashes are among ids, something is added to the numbers (`.records.ids.comparable`).
_NUMBERS = np.uint64(2**62 - 1)
# Of a message whose header has none (part 3.2.1).
_DEFAULT_PRIORITY = 4
# The fields whose values nobody but the peer knows, or that peers change.
_UNKNOWN = {
    "message_id", "user_id", "creation_time", "absolute_expiry_time", "ttl", "delivery_count",
}  # fmt: skip
# Names by which brokers mean fields of their own, beside all names with a dot.
_OF_BROKERS = ("AMQ", "JMS", "SendTime", "BodySize")


class Column(NamedTuple):
    """A value of each of many messages.

    Attributes:
        kind: of all values.
        values: an array of them.
        known: where there is one; a missing property has none.
    """

    kind: str
    values: NDArray[Any]
    known: NDArray[np.bool_]


def column_of(value: object, size: int) -> Column:
    """Return a column of one value, of any type that a literal or a property has."""
    kinds = ((bool, _TRUTH), (int, _WHOLE), (float, _REAL), (str, _TEXT))
    kind = next((kind for type_, kind in kinds if isinstance(value, type_)), _NULL)
    values: NDArray[Any] = np.full(size, False if kind == _NULL else value, _DTYPES[kind])
    return Column(kind, values, np.full(size, kind != _NULL))


def evaluate(
    steps: Sequence[Step], names: Mapping[tuple[str, object], Column], size: int
) -> NDArray[np.bool_]:
    """Say for which of many messages the steps of a selector are true.

    The slow twin of `evaluate.pxi` of the server.

    Args:
        steps: of the selector.
        names: the values of fields and properties, by code and name of their steps; others are
            null.
        size: how many messages.
    """
    stack: list[Column] = []
    nothing = column_of(None, size)
    for code, value in steps:
        if code in {"field", "property"}:
            stack.append(names.get((code, value), nothing))
        elif code == "literal":
            stack.append(column_of(value, size))
        elif code in _OF_TWO:
            right, left = stack.pop(), stack.pop()
            stack.append(_OF_TWO[code](code, left, right))
        elif code == "between":
            high, low, top = stack.pop(), stack.pop(), stack.pop()
            stack.append(_joined("and", _compared(">=", top, low), _compared("<=", top, high)))
        else:
            stack.append(_OF_ONE[code](stack.pop(), value))
    return _where(stack.pop(), True)


def _where(one: Column, truth: bool) -> NDArray[np.bool_]:
    """Say where a condition is true, or where it is false."""
    is_truth = one.kind == _TRUTH
    found: NDArray[np.bool_] = one.known & is_truth & ((one.values == truth) if is_truth else False)
    return found


def _truth(values: NDArray[Any], known: NDArray[np.bool_]) -> Column:
    return Column(_TRUTH, np.asarray(values, np.bool_), known)


def _compared(sign: str, left: Column, right: Column) -> Column:
    known = left.known & right.known
    numeric = {left.kind, right.kind} <= {_WHOLE, _REAL}
    if not numeric and (left.kind != right.kind or sign in ORDERS):
        return _truth(np.zeros(len(known)), known)
    one, other = left.values, right.values
    if left.kind != right.kind:
        one, other = one.astype(np.float64), other.astype(np.float64)
    found: Any = {
        "=": np.equal, "<>": np.not_equal, "<": np.less, "<=": np.less_equal,
        ">": np.greater, ">=": np.greater_equal,
    }[sign](one, other)  # fmt: skip
    return _truth(found, known)


def _calculated(sign: str, left: Column, right: Column) -> Column:
    known = left.known & right.known
    if not {left.kind, right.kind} <= {_WHOLE, _REAL}:
        return column_of(None, len(known))
    whole = left.kind == right.kind == _WHOLE
    kind, dtype = (_WHOLE, np.int64) if whole else (_REAL, np.float64)
    one, other = left.values.astype(dtype), right.values.astype(dtype)
    with np.errstate(all="ignore"):
        if sign != "/" or not whole:
            make = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}[sign]
            return Column(kind, make(one, other), known)
        divisor = np.where((other == 0) | (other == -1), 1, other)
        quotient = one // divisor
        # NumPy rounds down, and Java towards 0.
        quotient += (quotient * divisor != one) & ((one < 0) != (divisor < 0))
        return Column(kind, np.where(other == -1, -one, quotient), known & (other != 0))


def _joined(sign: str, left: Column, right: Column) -> Column:
    decisive = sign == "or"
    decided = _where(left, decisive) | _where(right, decisive)
    other = _where(left, not decisive) & _where(right, not decisive)
    return _truth(decided if decisive else other, decided | other)


def _negated(one: Column, _: object) -> Column:
    if one.kind not in {_WHOLE, _REAL}:
        return column_of(None, len(one.known))
    with np.errstate(over="ignore"):
        return Column(one.kind, -one.values, one.known)


def _not(one: Column, _: object) -> Column:
    false = _where(one, False)
    return _truth(false, false | _where(one, True))


def _is_null(one: Column, _: object) -> Column:
    return _truth(~one.known, np.full(len(one.known), True))


def _is_among(one: Column, value: Any) -> Column:
    return _of_texts(one, set(value).__contains__)


def _is_like(one: Column, value: Any) -> Column:
    """Match a pattern (:func:`.selector.like_pattern`) with the bytes of each text."""
    accepted, gaps = value
    text = b""
    for at in range(len(accepted) + 1):
        text += b".*" * (at in gaps)
        if at < len(accepted):
            byte = accepted[at]
            text += b"[^\x80-\xbf][\x80-\xbf]*" if byte > 255 else re.escape(bytes([byte]))
    pattern = re.compile(text, re.DOTALL)
    return _of_texts(one, lambda each: pattern.fullmatch(each.encode()) is not None)


def _of_texts(one: Column, test: Any) -> Column:
    if one.kind != _TEXT:
        return _truth(np.zeros(len(one.known)), one.known)
    return _truth(np.fromiter(map(test, one.values), np.bool_, len(one.values)), one.known)


_OF_TWO = {
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _compared),
    **dict.fromkeys("+-*/", _calculated),
    **dict.fromkeys(("and", "or"), _joined),
}
_OF_ONE = {
    "not": _not, "negate": _negated, "is null": _is_null, "in": _is_among, "like": _is_like,
}  # fmt: skip


@dataclass(frozen=True)
class Matching:
    """Says which messages of a run match the filter of its receivers.

    Attributes:
        steps: those of the filter.
        mix: the application properties of all senders' messages.
        fields: the fields that all messages have.
        id_prefix: what stands before the number in a message's id.
    """

    steps: tuple[Step, ...]
    mix: PropertyMix
    fields: Mapping[str, object]
    id_prefix: str

    def count(self, firsts: NDArray[np.uint64], lengths: NDArray[np.uint64]) -> Int64Array:
        """Return how many messages of each run of ids match.

        Args:
            firsts: the first id of each run, which then counts up.
            lengths: ids in each.
        """
        if not self._depends and len(self._of_classes) == 1:
            every: Int64Array = lengths.astype(np.int64)
            return every * self._of_classes.astype(np.int64)
        ends = np.cumsum(lengths.astype(np.int64))
        total = int(ends[-1]) if len(ends) else 0
        begins = ends - lengths.astype(np.int64)
        found = np.zeros(len(firsts), np.int64)
        for start in range(0, total, _CHUNK):
            places = np.arange(start, min(start + _CHUNK, total))
            run = np.searchsorted(ends, places, "right")
            ids = (firsts[run] & _NUMBERS).view(np.int64) + places - begins[run]
            np.add.at(found, run, self.matches(ids))
        return found

    def of_first(self, count: int) -> int:
        """Return how many of the first messages of an end match."""
        return int(self.count(np.ones(1, np.uint64), np.array([count], np.uint64)).sum())

    def matches(self, ids: Int64Array) -> NDArray[np.bool_]:
        """Say which of the messages with these ids match."""
        numbers = (ids - 1) % IDS_OF_AN_END + 1
        classes = classes_of(self.mix, numbers.view(np.uint64))
        if not self._depends:
            return self._of_classes[classes]
        found = np.zeros(len(ids), np.bool_)
        for place, properties in enumerate(self.mix.classes()):
            some = np.flatnonzero(classes == place)
            columns = self._columns(properties, len(some))
            every = np.full(len(some), True)
            numbered = Column(_WHOLE, numbers[some], every)
            columns |= {("property", name): numbered for name in self.mix.numbered}
            if self._depends & {*self.mix.ids}:
                texts = [f"{self.id_prefix}{number}" for number in ids[some].tolist()]
                of_ids = Column(_TEXT, np.array(texts, object), every)
                columns |= {("property", name): of_ids for name in self.mix.ids}
            found[some] = evaluate(self.steps, columns, len(some))
        return found

    @cached_property
    def _depends(self) -> set[str]:
        """The properties of the filter whose values are the numbers or ids of the messages."""
        names = {str(step.value) for step in self.steps if step.code == "property"}
        return names & {*self.mix.numbered, *self.mix.ids}

    @cached_property
    def _of_classes(self) -> NDArray[np.bool_]:
        """Whether the messages of each class match, of a filter that asks for nothing else."""
        return np.concatenate(
            [evaluate(self.steps, self._columns(one, 1), 1) for one in self.mix.classes()]
        )

    def _columns(
        self, properties: Mapping[str, object], size: int
    ) -> dict[tuple[str, object], Column]:
        named = {("property", name): value for name, value in properties.items()}
        named |= {("field", name): value for name, value in self.fields.items()}
        return {name: column_of(value, size) for name, value in named.items()}


def has_filter(receiver: Mapping[str, Any]) -> bool:
    """Say whether a receiver's configuration has a filter."""
    return any(receiver.get(key) for key in ("filter", "filter_properties", "stream_filter"))


def matching_of(
    sender: Mapping[str, Any] | None, receiver: Mapping[str, Any] | None
) -> Matching | None:
    """Return which of a sender's messages a receiver's filter lets through.

    Args:
        sender: the summary of an end, or as much of it as :class:`.bounds.RunBounds` needs.
        receiver: likewise.

    Returns:
        None without a filter, or where nobody knows: the sender is of another implementation; the
        filter is in a grammar of the broker's own, or asks for values that are not known here; or
        the receiver began behind the first message.
    """
    asked, sent = (receiver or {}).get("config") or {}, (sender or {}).get("config") or {}
    if not has_filter(asked) or not (sender or {}).get("arrow"):
        return None
    if asked.get("stream_offset") not in (None, "", "first", "next"):
        return None
    return _matching(sent, asked)


def _matching(sender: Mapping[str, Any], receiver: Mapping[str, Any]) -> Matching | None:
    try:
        mix = mix_of(sender.get("properties") or {})
        steps = _steps(receiver, mix)
    except (UsageError, TypeError, AttributeError):
        # Nobody has checked the values of a summary.
        return None
    if not steps or not all(_is_known(step, mix) for step in steps):
        return None
    fields: dict[str, object] = {name: sender.get(name) or None for name in ("subject", "group_id")}
    durable, priority = bool(sender.get("durable")), sender.get("priority")
    fields |= {
        "priority": _DEFAULT_PRIORITY if priority is None else priority,
        "durable": durable,
        "JMSDeliveryMode": "PERSISTENT" if durable else "NON_PERSISTENT",
    }
    prefix = f"{sender['run_id']}-" if sender.get("run_id") else ""
    return Matching(tuple(steps), mix, fields, prefix)


def _steps(receiver: Mapping[str, Any], mix: PropertyMix) -> list[Step]:
    parts = [parse(text) for text in [receiver.get("filter")] if text]
    of: dict[str, list[Any]] = {PROPERTIES_FILTER: [], APPLICATION_PROPERTIES_FILTER: []}
    for one in parse_property_filters(receiver.get("filter_properties") or ""):
        name = PROPERTIES_FILTER if one.type else APPLICATION_PROPERTIES_FILTER
        of[name].append((one.name, one.kind, one.value))
    parts += [steps_of(name, fields) for name, fields in of.items() if fields]
    if receiver.get("stream_filter"):
        parts.append(_stream_steps(str(receiver["stream_filter"]), mix))
    joined = [Step("and")] * (len(parts) - 1)
    return [step for part in parts for step in part] + joined


def _stream_steps(text: str, mix: PropertyMix) -> list[Step]:
    """Return the steps for the messages that their sender annotates with a text."""
    name = mix.name_of(text)
    if not name:
        raise UsageError(f"no property has the value {text!r}")
    return [Step("property", name), Step("literal", typed(text)), Step("=")]


def _is_known(step: Step, mix: PropertyMix) -> bool:
    if step.code == "field":
        return step.value not in _UNKNOWN
    name = str(step.value)
    if step.code != "property" or name in {*mix.fixed, *mix.mixed, *mix.numbered, *mix.ids}:
        return True
    return "." not in name and not name.startswith(_OF_BROKERS)
