"""Application properties in shares: their text, the class of each message, and the messages."""

from __future__ import annotations

from collections import Counter

import numpy as np
import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.model.property_classes import classes_of
from quiver_fast.arrow.amqp.message_fields import MessageFields
from quiver_fast.arrow.amqp.template import ClassTemplate
from quiver_fast.arrow.run.sizes import Sizes
from quiver_fast.body_sizes import BodySize
from quiver_fast.errors import UsageError
from quiver_fast.property_mix import PropertyMix, Value, mix_of, parse_properties

SIZES = (BodySize(0, 300, 1),)


def test_properties_as_people_write_them() -> None:
    mix = parse_properties("color=blue,size=-3,urgent=true,empty=,sum=1=1,big=9" + "9" * 19)
    assert mix.fixed == {
        "color": "blue", "size": -3, "urgent": True, "empty": "", "sum": "1=1", "big": "9" * 20,
    }  # fmt: skip
    assert not mix.differs
    assert parse_properties("") == PropertyMix()


def test_properties_that_differ() -> None:
    text = "color=red:20%,green:79.99%,:0.01%,n=%n,key=%id,size=3,hot=true:50%,7:50%,all=x:100%"
    mix = parse_properties(text)
    assert mix.fixed == {"size": 3, "all": "x"}
    assert mix.mixed == {
        "color": (("red", 2000), ("green", 7999), ("", 1)), "hot": ((True, 5000), (7, 5000)),
    }  # fmt: skip
    assert (mix.numbered, mix.ids) == (("n",), ("key",))
    assert mix.texts() == {
        "size": 3, "all": "x", "color": "red:20%,green:79.99%,:0.01%", "hot": "true:50%,7:50%",
        "n": "%n", "key": "%id",
    }  # fmt: skip
    assert mix_of(mix.texts()) == mix
    assert mix.classes()[3] == {"size": 3, "all": "x", "color": "green", "hot": 7}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("color", "properties: 'color' is not NAME=VALUE"),
        ("=blue", "properties: '=blue' is not NAME=VALUE"),
        ("a=1,", "properties: '' is not NAME=VALUE"),
        ("a=1,b:20%", "properties: 'b:20%' is not NAME=VALUE"),
        ("a=1,a=2", "properties: a is given twice"),
        ("a=1:40%,2:60%,a=2", "properties: a is given twice"),
        ("SendTime=1", "properties: SendTime is set by the sender itself"),
        ("a=" + "x" * 5000, "properties: they take more than 4096 bytes"),
        ("a=x:20%,y:79%", "the shares of 'x:20%,y:79%' add up to 99 %, not to 100 %"),
        ("a=x:0%,y:100%", "properties: 'x:0%,y:100%': a share is more than 0 %"),
        ("a=x:2.001%,y:98%", "'x:2.001%' is not a value with a share, such as red:20%"),
        ("a=%n:50%,y:50%", "'%n:50%' is not a value with a share"),
        (",".join(f"{name}=1:50%,2:50%" for name in "abcdefg"),
         "128 combinations of values in shares are more than 64"),
        (",".join(f"a{number}=%n" for number in range(17)), "at most 16 properties are %n"),
    ],
)  # fmt: skip
def test_properties_that_are_none(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_properties(text)


def shares(count: int) -> st.SearchStrategy[list[int]]:
    """Return shares in hundredths of a percent, so many as they are."""
    bounds = st.lists(
        st.integers(1, 9999), min_size=count - 1, max_size=count - 1, unique=True
    ).map(sorted)
    return bounds.map(
        lambda ends: [b - a for a, b in zip([0, *ends], [*ends, 10_000], strict=True)]
    )


VALUES = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text("abc*é", max_size=90))


@st.composite
def mixes(draw: st.DrawFn) -> PropertyMix:
    counts = draw(st.lists(st.integers(2, 3), max_size=3))
    mixed = {
        f"mixed-{place}": tuple((draw(VALUES), share) for share in draw(shares(count)))
        for place, count in enumerate(counts)
    }
    fixed = draw(st.dictionaries(st.sampled_from(["a", "b", "c" * 200]), VALUES))
    copies = st.integers(0, 2)
    numbered = tuple(f"n{place}" for place in range(draw(copies)))
    ids = tuple(f"id{place}" for place in range(draw(copies)))
    return PropertyMix(fixed, mixed, numbered, ids)


NUMBERS = st.one_of(st.integers(1, 1000), st.integers(1, 2**62))


@given(mix=mixes(), numbers=st.lists(NUMBERS, max_size=20))
def test_many_classes_are_those_of_each_number(mix: PropertyMix, numbers: list[int]) -> None:
    found = classes_of(mix, np.array(numbers, np.int64))
    assert found.tolist() == [mix.class_of(number) for number in numbers]


@given(
    mix=mixes(), first=st.sampled_from([1, 5, 98, 10**13 + 9990]), streaming=st.booleans(),
    sized=st.booleans(), prefix=st.sampled_from(["", "run-", "p" * 100]),
)  # fmt: skip
def test_messages_have_the_properties_of_their_class(
    mix: PropertyMix, first: int, streaming: bool, sized: bool, prefix: str
) -> None:
    fields = MessageFields(subject="s", priority=7)
    sizes = Sizes(SIZES, 1) if sized else None
    template = ClassTemplate(
        300 if sized else 5, mix=mix, fields=fields, with_id=True, id_prefix=prefix,
        first_id=first, streaming=streaming, sizes=sizes,
    )  # fmt: skip
    classes = mix.classes()
    for number in range(1, 31):
        message = proton.Message()
        encoded = template.encode(10**18 + number)
        message.decode(encoded)
        assert isinstance(message.body, bytes | memoryview)
        body = bytes(message.body)
        expected: dict[str, Value] = {**classes[mix.class_of(number)]}
        expected |= dict.fromkeys(mix.numbered, number)
        expected |= dict.fromkeys(mix.ids, f"{prefix}{first + number - 1}")
        expected |= {"BodySize": len(body)} if streaming else {}
        assert message.id == f"{prefix}{first + number - 1}"
        assert message.properties == {"SendTime": 10**18 + number, **expected}
        assert (message.subject, message.priority) == ("s", 7)
        assert body == b"x" * len(body)
        assert len(encoded) <= template.size


def test_a_message_without_an_id_has_its_properties() -> None:
    mix = parse_properties("color=red:50%,green:50%,n=%n")
    template = ClassTemplate(1, mix=mix)
    for number in range(1, 20):
        message = proton.Message()
        message.decode(template.encode(1))
        color = mix.classes()[mix.class_of(number)]["color"]
        assert message.properties == {"SendTime": 1, "color": color, "n": number}
        assert message.id is None


@pytest.mark.parametrize("count", [1000, 10_000])
def test_shares_are_kept_in_all_combinations(count: int) -> None:
    """Also in each part of the messages: the sequences are spread evenly, and independent."""
    names = "abcdef"
    mix = parse_properties(",".join(f"{name}=0:{20 + 10 * i}%,1:{80 - 10 * i}%" for i, name in
                                    enumerate(names)))  # fmt: skip
    classes = mix.classes()
    for begin in (1, 777_777):
        numbers = np.arange(begin, begin + count)
        found = [classes[place] for place in classes_of(mix, numbers).tolist()]
        for i, name in enumerate(names):
            zeros = sum(one[name] == 0 for one in found)
            assert zeros == pytest.approx((0.2 + 0.1 * i) * count, abs=12)
            for j, other in enumerate(names[:i]):
                both = Counter((one[name], one[other]) for one in found)
                product = (0.2 + 0.1 * i) * (0.2 + 0.1 * j)
                assert both[0, 0] == pytest.approx(product * count, abs=0.02 * count)
