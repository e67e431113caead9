"""The encoded filters of a source, read by python-qpid-proton, and the peers that apply them."""

from __future__ import annotations

import time
from typing import Any

import proton
import pytest
from proton import Data, Described, symbol, timestamp, ulong

from quiver_fast.arrow.amqp.message_fields import MessageFields
from quiver_fast.arrow.amqp.source_filters import SourceFilters, filters_of
from quiver_fast.arrow.amqp.template import ClassTemplate
from quiver_fast.arrow.contract import parse
from quiver_fast.errors import UsageError
from quiver_fast.property_filters import StreamOffset, parse_stream_offset
from quiver_fast.property_mix import parse_properties

WORDS = ("connection-mode=client", "channel-mode=active", "operation=receive", "host=h", "path=q")
SELECTOR, PROPERTIES = "apache.org:selector-filter:string", "amqp:properties-filter"
OFFSET = "rabbitmq:stream-offset-spec"


def filters(*words: str) -> SourceFilters:
    return filters_of(*parse([*WORDS, *words]).filters)


def decoded(*words: str) -> object:
    data = Data()
    encoded = filters(*words).encoded()
    assert data.decode(encoded) == len(encoded)
    data.rewind()
    data.next()
    return data.get_object()


def described(key: str, name: str, value: Any) -> dict[object, object]:
    return {symbol(key): Described(symbol(name), value)}


def test_filters_as_clients_read_them() -> None:
    assert decoded("filter=a = 'é'") == described("jms-selector", SELECTOR, "a = 'é'")
    by_properties = decoded(
        "filter-properties=subject=a*,color=*red,to=&x,group-sequence=7,content-type=t/x,"
        "user-id=me,creation-time=5,size=3,hot=true,and=&&,big=" + "y" * 300
    )
    assert by_properties == {
        **described(PROPERTIES, PROPERTIES, {
            symbol("subject"): "&p:a", symbol("to"): "&&x", symbol("group-sequence"): 7,
            symbol("content-type"): symbol("t/x"), symbol("user-id"): b"me",
            symbol("creation-time"): timestamp(5),
        }),
        **described("amqp:application-properties-filter", "amqp:application-properties-filter", {
            "color": "&s:red", "size": 3, "hot": True, "and": "&&&", "big": "y" * 300,
        }),
    }  # fmt: skip
    assert decoded("stream-offset=5", "stream-filter=red") == {
        **described(OFFSET, OFFSET, ulong(5)),
        **described("rabbitmq:stream-filter", "rabbitmq:stream-filter", "red"),
    }


def test_a_peer_applies_the_filters_that_it_names() -> None:
    asked = filters("filter=a = 1", "filter-properties=subject=a")
    assert asked.missing({SELECTOR, PROPERTIES}, "Artemis", "2") is None
    assert asked.missing({0x468C00000004, 0x173}, "", "") is None
    assert asked.missing({SELECTOR, 0x174}, "", "") == PROPERTIES
    assert asked.missing(set(), "", "") == SELECTOR


@pytest.mark.parametrize(("version", "missing"), [("3.13.7", SELECTOR), ("4.0.5", SELECTOR),
                                                  ("4.1.0", None), ("4.10.0", None)])  # fmt: skip
def test_an_old_rabbitmq_names_filters_and_applies_those_of_streams(
    version: str, missing: str | None
) -> None:
    kept = {SELECTOR, OFFSET}
    assert filters("filter=a = 1").missing(kept, "RabbitMQ", version) == missing
    assert filters("stream-offset=first").missing(kept, "RabbitMQ", version) is None


def test_places_in_a_stream() -> None:
    for word in ("first", "last", "next"):
        assert parse_stream_offset(word) == StreamOffset("string", word)
    assert parse_stream_offset("0") == StreamOffset("ulong", 0)
    assert parse_stream_offset("1970-01-01T00:00:01.5Z") == StreamOffset("timestamp", 1500)
    assert parse_stream_offset("1970-01-01T01:00:01+01:00") == StreamOffset("timestamp", 1000)
    ago = parse_stream_offset("1h30m")
    assert ago is not None
    assert int(ago.value) <= time.time() * 1000 - 5_400_000 + 1000
    assert parse_stream_offset("") is None


@pytest.mark.parametrize("text", ["yesterday", "-1", "1x", "9223372036854775808", "0001-01-01"])
def test_texts_that_are_no_place(text: str) -> None:
    with pytest.raises(UsageError, match="stream-offset: "):
        parse_stream_offset(text)


def test_messages_are_annotated_for_filters_of_streams() -> None:
    mix = parse_properties("n=%n,size=3:50%,10:50%,color=red:20%,green:80%")
    assert (mix.name_of("red"), mix.name_of("10"), mix.name_of("blue")) == ("color", "size", "")
    template = ClassTemplate(1, mix=mix, stream_values=mix.values_of("size"))
    for number in range(1, 30):
        message = proton.Message()
        message.decode(template.encode(1))
        value = mix.classes()[mix.class_of(number)]["size"]
        assert message.annotations == {symbol("x-stream-filter-value"): str(value)}
        assert message.properties is not None
        assert message.properties["n"] == number
    fields = MessageFields(stream_value="x" * 300)
    assert fields.annotations().startswith(b"\x00\x53\x72\xd1")
