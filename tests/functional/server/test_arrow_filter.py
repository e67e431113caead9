"""`filter`: an arrow receives the messages that match, or says that the peer does not filter."""

from __future__ import annotations

import pytest
from support.arrows import arguments, pyfast, run_pyfast
from support.clients import Clients
from support.judgement import assert_clean, assert_error
from support.processes import Running, free_port
from support.server import Server

from quiver_fast.property_mix import parse_properties

# Epoch milliseconds, as arrows send them.
FIRST = 1_700_000_000_000


def fill(clients: Clients, address: str, *colors: str) -> None:
    """Send a message of an arrow's kind for each colour; `SendTime` numbers them."""
    producer = clients.producer(clients.connect(), address)
    for number, color in enumerate(colors):
        producer.publish(b"x", properties={"color": color, "SendTime": FIRST + number})


def times(records: str) -> list[int]:
    return [int(line.split(",")[0]) - FIRST for line in records.split()]


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
    assert [line.split(",")[0] for line in end.stdout.split()] == [f"{94 + n}" for n in red]


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
        assert_error(end, "the peer does not filter 'queue0'")
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
