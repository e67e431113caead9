"""Property filters: the server's evaluation against a slow and obvious one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Message, float32, int32, symbol, ubyte, ulong
from support.examples import examples

from quiver_fast.selectors.property_steps import (
    APPLICATION_PROPERTIES_FILTER,
    FIELDS_MAX,
    PROPERTIES_FILTER,
    kind_of,
    steps_of,
)
from quiver_fast.selectors.selector import LENGTH_MAX, SelectorError
from quiver_fast.server.server import Selector

NAMES = ["a", "b", "é", "subject"]
TEXTS = st.text(st.sampled_from("ab&%_é"), max_size=4)
REFERENCES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0, -2.0])
    | TEXTS.map(lambda text: text.replace("&", "&&") if text[:1] == "&" else text)
    | TEXTS.map(lambda text: f"&p:{text}")
    | TEXTS.map(lambda text: f"&s:{text}")
)
VALUES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | TEXTS


def is_match(reference: Any, value: Any) -> bool:
    if reference is None or value is None:
        return value is not None
    if not isinstance(reference, str):
        alike = isinstance(value, bool) is isinstance(reference, bool)
        return alike and not isinstance(value, str) and value == reference
    if not isinstance(value, str):
        return False
    if reference[:3] in {"&p:", "&s:"}:
        return (value.startswith if reference[1] == "p" else value.endswith)(reference[3:])
    return value == (reference[1:] if reference[:2] == "&&" else reference)


def fields_of(filter_: dict[str, Any]) -> list[Any]:
    return [(key, *kind_of(value)) for key, value in filter_.items()]


@settings(max_examples=examples(400), deadline=None)
@given(
    asked=st.dictionaries(st.sampled_from(NAMES), REFERENCES, min_size=1),
    properties=st.dictionaries(st.sampled_from(NAMES), VALUES),
)
def test_the_fast_evaluator_equals_the_slow_one(
    asked: dict[str, Any], properties: dict[str, Any]
) -> None:
    encoded = bytes(Message(body="x" * 50, properties=properties).encode())
    steps = steps_of(APPLICATION_PROPERTIES_FILTER, fields_of(asked))
    assert Selector(steps).matches(encoded) == all(
        is_match(reference, properties.get(name)) for name, reference in asked.items()
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"subject": "&p:ki", "group-sequence": 3}, True),
        ({"subject": "&s:nd", "to": "there", "user-id": "me"}, True),
        ({"subject": "kind", "reply-to": "there"}, False),
        ({"correlation-id": None, "content-type": "text/plain"}, True),
        ({"correlation-id": "c"}, False),
        ({"creation-time": 5000}, True),
    ],
)
def test_fields_of_the_properties(asked: dict[str, Any], expected: bool) -> None:
    message = Message(
        subject="kind", creation_time=5.0, address="there", content_type=symbol("text/plain"),
        user_id=b"me", group_id="g", group_sequence=3,
    )  # fmt: skip
    steps = steps_of(PROPERTIES_FILTER, fields_of(asked))
    assert Selector(steps).matches(bytes(message.encode())) is expected


@pytest.mark.parametrize("value", [ubyte(1), int32(1), ulong(1), float32(1.0), 1.0, 1])
def test_numbers_of_all_types_are_equal_by_value(value: Any) -> None:
    encoded = bytes(Message(properties={"n": value}).encode())
    for reference, expected in ((1, True), (1.0, True), (2, False), ("1", False), (True, False)):
        steps = steps_of(APPLICATION_PROPERTIES_FILTER, [("n", "equal", reference)])
        assert Selector(steps).matches(encoded) is expected


@pytest.mark.parametrize(
    "asked",
    [
        {"nothing": "a"}, {"group_id": "a"}, {"subject": "&x:a"}, {"subject": "&"},
        {"subject": "a" * (LENGTH_MAX + 1)},
    ],
)  # fmt: skip
def test_filters_that_are_refused(asked: dict[str, Any]) -> None:
    with pytest.raises(SelectorError):
        steps_of(PROPERTIES_FILTER, fields_of(asked))


def test_a_filter_has_so_many_fields() -> None:
    fields = [(f"f{number}", "equal", 1) for number in range(FIELDS_MAX + 1)]
    steps_of(APPLICATION_PROPERTIES_FILTER, fields[:-1])
    with pytest.raises(SelectorError):
        steps_of(APPLICATION_PROPERTIES_FILTER, fields)
