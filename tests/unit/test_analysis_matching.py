"""Which messages a filter lets through, as the ledger knows it, and as the server finds it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Message
from support.examples import examples

from quiver_fast.analysis.figures.delivery import delivery_section
from quiver_fast.analysis.figures.ends import bounds_of_ends
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.matching import Matching, matching_of
from quiver_fast.analysis.tables.id_table import IdTable, balance
from quiver_fast.property_filters import parse_property_filters
from quiver_fast.property_mix import parse_properties
from quiver_fast.records.formats import IDS_OF_AN_END
from quiver_fast.selectors.property_steps import APPLICATION_PROPERTIES_FILTER, steps_of
from quiver_fast.selectors.selector import parse
from quiver_fast.server.server import Selector

MIXES = [
    "color=red", "color=red:20%,green:80%", "color=red:50%,green:50%,size=1:25%,2:75%",
    "n=%n", "color=red:1%,5:99%,n=%n,key=%id", "",
]  # fmt: skip
SELECTORS = [
    "color = 'red'", "color <> 'red'", "color LIKE 'g%'", "size = 1 AND color = 'green'",
    "n > 5", "n / 2 * 2 = n", "n BETWEEN 3 AND 7 OR color = 5", "key LIKE '%7'", "color IS NULL",
    "amqp.subject = 'kind'", "JMSPriority > 4", "NOT size > 1", "10 / (n - 5) > 1",
]  # fmt: skip


COUNTS = ("received", "older", "foreign", "reordered", "negative_latency", "duplicate")


def sender(mix: str, **config: Any) -> dict[str, Any]:
    texts = parse_properties(mix).texts()
    return {
        "config": {"properties": texts, "run_id": "r", "priority": 4, **config},
        "arrow": {"settled_at": None},
    }


def receiver(**config: Any) -> dict[str, Any]:
    return {"config": config}


def matching(mix: str, **config: Any) -> Matching:
    found = matching_of(sender(mix, subject="kind"), receiver(**config))
    assert found is not None
    return found


def message(mix: str, number: int) -> bytes:
    """Return a message as the sender encodes it, without its own properties."""
    found = parse_properties(mix)
    values = found.classes()[found.class_of(number)]
    values |= dict.fromkeys(found.numbered, number)
    values |= dict.fromkeys(found.ids, f"r-{number}")
    return bytes(Message(body="x", subject="kind", properties=values).encode())


@settings(max_examples=examples(60), deadline=None)
@given(
    mix=st.sampled_from(MIXES),
    selector=st.sampled_from(SELECTORS),
    runs=st.lists(st.tuples(st.integers(1, 400), st.integers(1, 40)), max_size=5),
    end=st.integers(0, 3),
)
def test_the_ledger_knows_what_the_server_finds(
    mix: str, selector: str, runs: list[tuple[int, int]], end: int
) -> None:
    server = Selector(parse(selector))
    found = matching(mix, filter=selector)
    if "%id" in mix and end:
        return
    expected = [
        sum(server.matches(message(mix, number)) for number in range(first, first + count))
        for first, count in runs
    ]
    firsts = np.array([first + end * IDS_OF_AN_END for first, _ in runs], np.uint64)
    lengths = np.array([count for _, count in runs], np.uint64)
    assert found.count(firsts, lengths).tolist() == expected


def test_many_messages() -> None:
    """More than are evaluated at a time."""
    found = matching("color=red:20%,green:80%,n=%n", filter="color = 'red' AND n > 100000")
    numbers = np.arange(1, 300_001)
    single = found.matches(numbers)
    assert found.of_first(300_000) == single.sum() == pytest.approx(40_000, rel=0.01)
    assert found.count(np.array([7], np.uint64), np.array([250_000], np.uint64)) == (
        single[6:250_006].sum()
    )


@pytest.mark.parametrize(
    ("mix", "text", "expected"),
    [
        ("color=red:20%,green:80%", "color=r*", 20),
        ("color=red:20%,green:80%", "color=*een", 80),
        ("color=red:20%,green:80%", "color=red,shape=round", 0),
        ("color=red:20%,green:80%", "subject=k*,color=red", 20),
        ("n=%n", "n=50", 1),
    ],
)
def test_property_filters(mix: str, text: str, expected: int) -> None:
    assert matching(mix, filter_properties=text).of_first(100) == expected


def test_property_filters_are_the_servers() -> None:
    conditions = parse_property_filters("color=r*,n=3")
    steps = steps_of(APPLICATION_PROPERTIES_FILTER, [(c.name, c.kind, c.value) for c in conditions])
    assert Selector(steps).matches(message("color=red,n=3", 1))


def test_a_stream_filter_is_a_value_of_a_property() -> None:
    assert matching("color=red:20%,green:80%", stream_filter="red").of_first(1000) == 200
    assert matching_of(sender("color=red"), receiver(stream_filter="blue")) is None
    # The sender annotates with the property in shares, where both have the value.
    assert matching("a=red,color=red:20%,green:80%", stream_filter="red").of_first(1000) == 200
    assert matching("a=true:20%,false:80%", stream_filter="true").of_first(1000) == 200
    assert matching("a=7:20%,8:80%", stream_filter="7").of_first(1000) == 200


@pytest.mark.parametrize(
    "text",
    ["JMSTimestamp > 0", "JMSMessageID = 'a'", "AMQPriority > 4", "properties.subject = 'kind'",
     "convert_string_expressions:a = 1", "SendTime > 5"],
)  # fmt: skip
def test_what_only_the_broker_knows(text: str) -> None:
    run = RunBounds.of(sender("a=1"), receiver(filter=text))
    assert (run.filtered, run.matching) == (True, None)
    counts = dict.fromkeys(COUNTS, 0) | {"sent": 100, "unreceived": 81, "filtered": 0}
    found = delivery_section(counts, by_ids=True, unit="ms", run=run)
    assert (found["filtered"], found["unreceived"], found["lost"]) == (None, 81, None)


def test_other_senders_and_other_offsets_are_not_known() -> None:
    other = sender("a=1") | {"arrow": None}
    assert matching_of(other, receiver(filter="a = 1")) is None
    assert matching_of(sender("a=1"), receiver(filter="a = 1", stream_offset="7")) is None
    assert matching_of(sender("a=1"), receiver()) is None


def test_ends_have_the_same_filter() -> None:
    one, two = receiver(filter="a = 1"), receiver(filter="a = 2")
    assert bounds_of_ends([sender("a=1")] * 2, [one, one]).matching is not None
    assert bounds_of_ends([sender("a=1"), sender("a=2")], [one]).matching is None
    assert bounds_of_ends([sender("a=1")], [one, two]).matching is None


def table(ids: list[int]) -> IdTable:
    found = IdTable()
    found.add(np.array(ids, np.int64), np.ones(len(ids), np.int64))
    return found


@settings(max_examples=examples(200), deadline=None)
@given(
    sent=st.lists(st.integers(1, 60), max_size=40),
    received=st.lists(st.integers(1, 70), max_size=60),
    mix=st.sampled_from(MIXES[:4]),
)
def test_the_balance_counts_by_ids(sent: list[int], received: list[int], mix: str) -> None:
    asked = matching(mix, filter="color = 'red'")
    found = balance(table(sent), table(received), asked)
    sends, receipts = Counter(sent), Counter(received)
    wanted = {number: bool(asked.matches(np.array([number]))[0]) for number in sends}
    assert found.unreceived == sum(max(sends[k] - receipts[k], 0) for k in sends if wanted[k])
    assert found.filtered == sum(sends[k] for k in sends if not wanted[k])
    assert found.unmatched == sum(min(sends[k], receipts[k]) for k in sends if not wanted[k])
    # Each message is accounted for.
    own = sum(receipts[k] for k in sends)
    assert len(sent) == (
        found.filtered + found.unreceived + own - found.duplicate - found.unmatched
    )


def test_without_ids_the_numbers_tell_how_many_match() -> None:
    run = RunBounds.of(sender("color=red:20%,green:80%"), receiver(filter="color = 'red'"))
    counts = dict.fromkeys(COUNTS, 0) | {"sent": 100, "received": 19, "unreceived": 81}
    found = delivery_section(counts, by_ids=False, unit="ms", run=run)
    assert (found["filtered"], found["unmatched"], found["unreceived"]) == (80, None, 1)
