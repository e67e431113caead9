"""Selectors: what is one, and what each asks for, against a slow and obvious evaluator."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Message, int32, symbol, ulong
from support.examples import examples

from quiver_fast.analysis.model.matching import column_of, evaluate
from quiver_fast.selectors.selector import (
    DEPTH_MAX,
    LENGTH_MAX,
    WEIGHT_MAX,
    SelectorError,
    Step,
    parse,
)
from quiver_fast.server.server import Selector


def selector(text: str) -> Selector:
    return Selector(parse(text))


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def wrapped(value: int) -> int:
    """Return what is left of a number in a long."""
    return (value + 2**63) % 2**64 - 2**63


def compared(sign: str, left: Any, right: Any) -> bool | None:
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
    elif type(left) is not type(right) or sign not in {"=", "<>"}:
        return False
    found = {
        "=": left == right, "<>": left != right,
        "<": sign == "<" and left < right, "<=": sign == "<=" and left <= right,
        ">": sign == ">" and left > right, ">=": sign == ">=" and left >= right,
    }  # fmt: skip
    return bool(found[sign])


def calculated(sign: str, left: Any, right: Any) -> Any:
    if not (is_number(left) and is_number(right)):
        return None
    if isinstance(left, int) and isinstance(right, int):
        if sign == "/":
            if right == 0:
                return None
            quotient = abs(left) // abs(right)
            return wrapped(quotient if (left < 0) == (right < 0) else -quotient)
        return wrapped({"+": left + right, "-": left - right, "*": left * right}[sign])
    left, right = float(left), float(right)
    if sign != "/":
        return {"+": left + right, "-": left - right, "*": left * right}[sign]
    if right == 0:
        # As Java and C divide.
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def joined(sign: str, left: Any, right: Any) -> bool | None:
    """AND and OR of three values: the one that decides, else unknown if either is."""
    decisive = sign == "or"
    truths = [value if isinstance(value, bool) else None for value in (left, right)]
    if decisive in truths:
        return decisive
    return None if None in truths else not decisive


def is_like(value: Any, pattern: tuple[list[int], list[int]]) -> bool | None:
    if not isinstance(value, str):
        return None if value is None else False
    accepted, gaps = pattern
    text = b""
    for at in range(len(accepted) + 1):
        text += b".*" * (at in gaps)
        if at < len(accepted):
            code = accepted[at]
            text += b"[^\x80-\xbf][\x80-\xbf]*" if code == 256 else re.escape(bytes([code]))
    return re.fullmatch(text, value.encode(), re.DOTALL) is not None


def evaluated(steps: list[Step], properties: dict[str, Any]) -> bool:
    """Take the steps one by one."""
    stack: list[Any] = []
    for code, value in steps:
        if code in {"literal", "property"}:
            known: Any = properties.get(str(value)) if code == "property" else value
            stack.append(known)
        elif code in {"=", "<>", "<", "<=", ">", ">="}:
            right = stack.pop()
            stack.append(compared(code, stack.pop(), right))
        elif code in {"+", "-", "*", "/"}:
            right = stack.pop()
            stack.append(calculated(code, stack.pop(), right))
        elif code in {"and", "or"}:
            right = stack.pop()
            stack.append(joined(code, stack.pop(), right))
        elif code == "not":
            top = stack.pop()
            stack.append(not top if isinstance(top, bool) else None)
        elif code == "negate":
            top = stack.pop()
            negated = wrapped(-top) if isinstance(top, int) else -top if is_number(top) else None
            stack.append(negated if is_number(top) else None)
        elif code == "between":
            high, low, top = stack.pop(), stack.pop(), stack.pop()
            stack.append(joined("and", compared(">=", top, low), compared("<=", top, high)))
        elif code == "in":
            top = stack.pop()
            assert isinstance(value, tuple)
            stack.append(None if top is None else isinstance(top, str) and top in value)
        elif code == "like":
            assert isinstance(value, tuple)
            stack.append(is_like(stack.pop(), value))
        else:
            stack.append(stack.pop() is None)
    (last,) = stack
    return last is True


NAMES = ["a", "b", "c", "$d", "é_1"]
TEXTS = st.text(st.sampled_from("ab%_é\N{GRINNING FACE}'"), max_size=5)
WHOLES = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
REALS = st.sampled_from([0.0, 0.5, -2.0, 1e300, 3.0])


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def numbers(depth: int) -> st.SearchStrategy[str]:
    plain = st.sampled_from(NAMES) | WHOLES.map(str) | REALS.map(repr)
    if not depth:
        return plain
    part = numbers(depth - 1)
    return plain | st.builds(
        lambda left, sign, right: f"({left} {sign} {right})", part, st.sampled_from("+-*/"), part
    )


@st.composite
def simple(draw: st.DrawFn) -> str:
    """Return one condition without AND, OR and NOT."""
    name, number, negated = st.sampled_from(NAMES), numbers(1), st.sampled_from(["", "NOT "])
    kind = draw(st.integers(0, 5))
    if kind == 0:
        sign = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
        return f"{draw(number)} {sign} {draw(number)}"
    if kind == 1:
        return f"{draw(name)} {draw(st.sampled_from(['=', '<>']))} {quoted(draw(TEXTS))}"
    if kind == 2:
        return f"{draw(name)} {draw(negated)}BETWEEN {draw(number)} AND {draw(number)}"
    if kind == 3:
        strings = ", ".join(map(quoted, draw(st.lists(TEXTS, min_size=1, max_size=3))))
        return f"{draw(name)} {draw(negated)}in ({strings})"
    if kind == 4:
        return f"{draw(name)} {draw(negated)}Like {quoted(draw(TEXTS))}"
    return draw(st.sampled_from([f"{draw(name)} IS {draw(negated)}NULL", "TRUE", draw(name)]))


def conditions(depth: int) -> st.SearchStrategy[str]:
    if not depth:
        return simple()
    part = conditions(depth - 1)
    return (
        simple()
        | st.builds(lambda one: f"NOT ({one})", part)
        | st.builds(
            lambda left, sign, right: f"({left}) {sign} {right}",
            part,
            st.sampled_from(["AND", "or"]),
            part,
        )
    )


PROPERTIES = st.dictionaries(
    st.sampled_from(NAMES), st.booleans() | WHOLES | REALS | TEXTS, max_size=5
)


@settings(max_examples=examples(400), deadline=None)
@given(text=conditions(2), properties=PROPERTIES)
def test_the_fast_evaluator_equals_the_slow_one(text: str, properties: dict[str, Any]) -> None:
    encoded = bytes(Message(body="x" * 50, properties=properties, subject="s").encode())
    columns = {("property", name): column_of(value, 1) for name, value in properties.items()}
    expected = evaluated(parse(text), properties)
    assert selector(text).matches(encoded) == expected
    assert evaluate(parse(text), columns, 1).tolist() == [expected]


@settings(max_examples=examples(200), deadline=None)
@given(text=conditions(2), properties=PROPERTIES, numbers=st.lists(WHOLES, min_size=1))
def test_many_messages_at_once(text: str, properties: dict[str, Any], numbers: list[int]) -> None:
    """As the ledger evaluates a selector: one property is a number that each message has."""
    size = len(numbers)
    columns = {("property", name): column_of(value, size) for name, value in properties.items()}
    columns["property", "a"] = column_of(0, size)._replace(values=np.array(numbers, np.int64))
    expected = [evaluated(parse(text), properties | {"a": number}) for number in numbers]
    assert evaluate(parse(text), columns, size).tolist() == expected


@settings(max_examples=examples(300), deadline=None)
@given(pattern=st.text(st.sampled_from("ab%_é"), max_size=150), value=TEXTS)
def test_patterns_of_several_words(pattern: str, value: str) -> None:
    steps = parse(f"a LIKE {quoted(pattern)}")
    for text in (value, pattern.replace("%", "x").replace("_", "é")):
        encoded = bytes(Message(properties={"a": text}).encode())
        assert selector(f"a LIKE {quoted(pattern)}").matches(encoded) == (
            evaluated(steps, {"a": text})
        )


FIELDS = Message(
    id="ID:1", subject="kind", correlation_id="c-1", creation_time=5.0, priority=7, durable=True,
    address="there", reply_to="here", content_type=symbol("text/plain"), ttl=9.0, user_id=b"me",
    group_id="g", group_sequence=3, properties={"n": int32(-4), "u": ulong(2**64 - 1)},
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("JMSMessageID = 'ID:1'", True),
        ("JMSType = 'kind' AND JMSCorrelationID LIKE 'c!-_' ESCAPE '!'", None),
        ("JMSType = 'kind' AND JMSCorrelationID LIKE 'c-_'", True),
        ("JMSTimestamp = 5000 AND JMSPriority BETWEEN 6 AND 8", True),
        ("JMSPriority > 7", False),
        ("JMSDeliveryMode = 'PERSISTENT'", True),
        ("JMSDeliveryMode = 'NON_PERSISTENT'", False),
        ("JMSXGroupID = 'g' AND JMSXGroupSeq = 3 AND JMSXUserID = 'me'", True),
        ("amqp.to = 'there' AND amqp.reply_to = 'here'", True),
        ("amqp.content_type = 'text/plain' AND amqp.ttl = 9000 AND amqp.durable", True),
        ("amqp.absolute_expiry_time IS NULL AND amqp.delivery_count = 0", True),
        ("n = -4 AND -n = +4 AND n + 1 < 0", True),
        ("u > 9223372036854775807", True),
        ("x = 1 OR NOT x = 1", False),
        ("x IS NULL", True),
        ("n = 0xfffffffffffffffc", None),
        ("n = 010 - 12", True),
        ("n * 1.5 = -6.", True),
        ("n / 0 = 1 OR n / 0 <> 1", False),
    ],
)
def test_fields_and_values(text: str, expected: bool | None) -> None:
    """`None`: refused."""
    if expected is None:
        with pytest.raises(SelectorError):
            selector(text)
    else:
        assert selector(text).matches(bytes(FIELDS.encode())) is expected


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "5", "'a'", "a =", "= a", "a = 1 b", "(a = 1", "a = 1)", "a = 'b", "a < 'b'",
        "TRUE < FALSE", "a IN ()", "a IN (1)", "5 IN ('a')", "a LIKE 5", "a LIKE 'b' ESCAPE 'cd'",
        "a LIKE 'b!c' ESCAPE '!'", "1 IS NULL", "NOT 5", "a AND 'b'", "a NOT = 1", "a + 'b' = 1",
        "JMSDestination = 'a'", "JMSRedelivered", "amqp.nothing = 1", "9223372036854775808 = a",
        "1e999 = a", "a = \x01", "a BETWEEN 1", "08 = a",
        "a = 1" + " " * LENGTH_MAX,
        "(" * (DEPTH_MAX + 1) + "a" + ")" * (DEPTH_MAX + 1),
        "NOT " * (DEPTH_MAX + 1) + "a",
        " OR ".join(["a LIKE '%b%'"] * (WEIGHT_MAX + 1)),
        f"a LIKE '%{'b_' * (WEIGHT_MAX // 2)}_%'",
    ],
)  # fmt: skip
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(SelectorError):
        selector(text)


@pytest.mark.parametrize(
    "text",
    [
        " OR ".join(["a LIKE '%b%'"] * WEIGHT_MAX),
        f"a LIKE '%{'b_' * (WEIGHT_MAX // 2)}%'",
        # These are not searched for.
        f"a LIKE '{'b_' * 500}%{'_b' * 500}'",
        " OR ".join(["a LIKE 'b%'"] * 250),
        "a IN (" + ", ".join(f"'{number}'" for number in range(500)) + ")",
    ],
)
def test_long_selectors(text: str) -> None:
    assert not selector(text).matches(bytes(Message(properties={"a": "c"}).encode()))


@pytest.mark.parametrize("size", [65535, 65536])
def test_a_very_long_text_is_only_null_or_not(size: int) -> None:
    encoded = bytes(Message(properties={"a": "b" * size}).encode())
    assert selector("a IS NOT NULL").matches(encoded)
    assert selector("a LIKE 'b%' AND a = a").matches(encoded) is (size == 65535)


@pytest.mark.parametrize("cut", range(1, 80))
def test_a_message_that_ends_early_is_not_read_further(cut: int) -> None:
    encoded = bytes(FIELDS.encode())
    assert selector("nothing IS NULL").matches(encoded[: len(encoded) - cut]) is True
