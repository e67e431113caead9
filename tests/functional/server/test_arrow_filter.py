"""`filter`: an arrow receives the messages that match, or says that the peer does not filter."""

from __future__ import annotations

import pytest
from support.arrows import arguments, pyfast, run_pyfast
from support.clients import Clients
from support.judgement import assert_clean, assert_error
from support.processes import Running, free_port
from support.server import Server

from quiver_fast.property_mix import parse_properties
from quiver_fast.records.formats import IDS_OF_AN_END

# Epoch milliseconds, as arrows send them.
FIRST = 1_700_000_000_000


def fill(clients: Clients, address: str, *colors: str) -> None:
    """Send a message of an arrow's kind for each colour; `SendTime` numbers them."""
    producer = clients.producer(clients.connect(), address)
    for number, color in enumerate(colors):
        producer.publish(b"x", properties={"color": color, "SendTime": FIRST + number})


def times(records: str) -> list[int]:
    return [int(line.split(",")[0]) - FIRST for line in records.split()]


def ids(records: str) -> list[int]:
    """Return the ids of records; other lines tell the end, or the progress of a stream."""
    return [int(line.split(",")[0]) for line in records.split() if line[0].isdigit()]


def test_only_what_the_selector_is_true_of_is_received(
    server: Server, clients: Clients, address: str
) -> None:
    fill(clients, address, "red", "blue", "red", "blue")
    words = arguments("receive", server.port, path=address, count=2)
    end = run_pyfast(*words, "filter=color = 'blue'")
    assert_clean(end)
    assert times(end.stdout) == [1, 3]
    rest = run_pyfast(*words)
    assert times(rest.stdout) == [0, 2]


def test_messages_in_shares_are_received_by_their_values(server: Server, address: str) -> None:
    text = "color=red:20%,green:80%,n=%n,key=%id"
    mix = parse_properties(text)
    words = {"path": address, "record_format": "v2", "run_id": "run", "count": 600}
    sent = run_pyfast(*arguments("send", server.port, properties=text, first_id=95, **words))
    assert_clean(sent)
    asked = f"filter=color = '{mix.classes()[0]['color']}' AND n > 50 AND key LIKE 'run-%'"
    red = [number for number in range(51, 601) if mix.class_of(number) == 0]
    words["count"] = len(red)
    end = run_pyfast(*arguments("receive", server.port, **words), asked)
    assert_clean(end)
    assert ids(end.stdout) == [94 + number for number in red]


@pytest.mark.parametrize("asked", ["filter=color = 'red'", "filter-properties=color=r*"])
@pytest.mark.parametrize(
    ("sending", "receiving"),
    [
        ({}, {}),
        ({"body_size": "10:50%,20k:50%"}, {}),
        ({"transaction_size": 7}, {"transaction_size": 3}),
        ({"connections": 3, "links": 2}, {"connections": 2}),
        ({"backlog": 50, "rate": 10_000, "duration": 1, "count": 0}, {"receive_delay": 1}),
        ({"presettled": 1, "body_size": 10_000}, {"exit_when": "empty"}),
    ],
)
def test_each_kind_of_sender_keeps_the_shares(
    server: Server, address: str, asked: str, sending: dict[str, object],
    receiving: dict[str, object],
) -> None:  # fmt: skip
    text = "color=red:25%,green:75%"
    words = {"path": address, "record_format": "v2", "run_id": "run", "count": 300}
    sent = run_pyfast(*arguments("send", server.port, properties=text, **words | sending))
    assert_clean(sent)
    mix = parse_properties(text)
    numbers = ids(sent.stdout)
    red = [one for one in numbers if mix.class_of(one % IDS_OF_AN_END) == 0]
    words["count"] = len(red)
    end = run_pyfast(*arguments("receive", server.port, **words | receiving), asked)
    assert_clean(end)
    assert 0 < len(red) < len(numbers)
    assert sorted(ids(end.stdout)) == sorted(red)


def test_streamed_messages_have_properties_in_shares(server: Server, address: str) -> None:
    """A stream that no receiver takes is released: the filter lets all pass."""
    words = {"path": address, "record_format": "v2", "run_id": "run", "streaming": 1, "count": 100}
    given = {"properties": "color=red:25%,green:75%,n=%n", "body_size": "10k:50%,200k:50%"}
    with Running(pyfast(*arguments("send", server.port, **words, **given))) as sender:
        asked = "filter=(color = 'red' OR color = 'green') AND n BETWEEN 1 AND 100"
        end = run_pyfast(*arguments("receive", server.port, **words), asked)
        assert_clean(end)
        assert_clean(sender.wait())
    assert ids(end.stdout) == list(range(1, 101))


def test_a_filter_that_the_server_has_not_is_an_error(server: Server, address: str) -> None:
    words = arguments("receive", server.port, path=address, stream_offset="first")
    assert_error(run_pyfast(*words), "there is no filter 'rabbitmq:stream-offset-spec' here")


def test_an_id_in_a_property_needs_ids(address: str) -> None:
    end = run_pyfast(*arguments("send", 1, path=address, properties="key=%id"))
    assert_error(end, "properties: %id needs set-message-id", code=2)


def test_a_text_that_is_no_selector_is_refused_in_the_servers_words(
    server: Server, address: str
) -> None:
    end = run_pyfast(*arguments("receive", server.port, path=address, filter="color ="))
    assert_error(end, "amqp:invalid-field")


def test_a_peer_that_does_not_filter_is_told() -> None:
    port = free_port()
    words = arguments("send", port, connection_mode="server", channel_mode="passive")
    with Running(pyfast(*words)) as sender:
        sender.wait_until_listening(port)
        end = run_pyfast(*arguments("receive", port, filter="SendTime > 0"))
        assert_error(
            end, "the peer does not apply the filter apache.org:selector-filter:string to 'queue0'"
        )
        assert end.stdout == ""


@pytest.mark.parametrize(
    ("operation", "changes"),
    [
        ("send", {}),
        ("receive", {"channel_mode": "passive"}),
        ("receive", {"purge": 1}),
        ("receive", {"scheme": "csp"}),
    ],
)
def test_where_a_filter_means_nothing_it_is_a_usage_error(
    operation: str, changes: dict[str, object]
) -> None:
    end = run_pyfast(*arguments(operation, 1, filter="SendTime > 0", **changes))
    assert_error(end, "filter", code=2)
