"""Each uint and ulong that a peer may send, at the borders of signed numbers (part 1.6).

All numbers of one run are at the same border: a fault in one of them stops it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.arrows import arguments, run_pyfast
from support.frame_peer import FramePeer
from support.judgement import assert_clean
from support.scripted_peer import plain_message
from support.server import Server, running_server

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.frames import composite

WRAP = 2**32
NUMBERS = [2**31 - 1, 2**31, WRAP - 1]
SIZES = {2**31 - 1: 2**63 - 1, 2**31: 2**63, WRAP - 1: 2**64 - 1}
COUNT = 5
every_number = pytest.mark.parametrize("number", NUMBERS)


@pytest.fixture(scope="module", name="server")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as running:
        yield running


def opening(number: int) -> dict[str, int]:
    return {"max_frame_size": number, "channel_max": 65535, "idle_time_out": number}


def session(number: int) -> dict[str, int]:
    return {
        "next_outgoing_id": number, "incoming_window": number, "outgoing_window": number,
        "handle_max": number,
    }  # fmt: skip


def outcome_of(client: FrameClient, number: int) -> None:
    found = client.expect("disposition").fields
    assert (found["first"], found["state"].name) == (number % WRAP, "accepted")


@every_number
def test_a_server_takes_them(server: Server, number: int) -> None:
    size = {"max_message_size": SIZES[number]}
    with FrameClient(server.port) as client:
        client.open(**opening(number))
        client.begin(**session(number))
        address = f"wide-{number}"
        client.send(
            "attach", name="to", handle=0, role=False, source=composite("source"),
            target=composite("target", address=address), initial_delivery_count=number, **size,
        )  # fmt: skip
        client.expect("attach")
        assert client.wait_for_credit() >= COUNT
        for each in range(number, number + COUNT):
            client.transfer(each % WRAP, plain_message(each), handle=0)
            outcome_of(client, each)
        client.send("detach", handle=0, closed=True)
        client.expect("detach")
        client.send(
            "attach", name="from", handle=0, role=True,
            source=composite("source", address=address), target=composite("target"), **size,
        )  # fmt: skip
        start = client.expect("attach").fields["initial_delivery_count"]
        client.send(
            "flow", next_incoming_id=0, incoming_window=number,
            next_outgoing_id=(number + COUNT) % WRAP, outgoing_window=number, handle=0,
            delivery_count=start, link_credit=number, available=number,
        )  # fmt: skip
        ids = [client.expect("transfer").fields["delivery_id"] for _ in range(COUNT)]
        assert ids == list(range(ids[0], ids[0] + COUNT))


def answer(talk: Talk, number: int) -> None:
    """Answer open, begin and attach of an arrow with numbers of ours."""
    talk.answer_header()
    talk.expect("open")
    talk.send("open", container_id="wide", **opening(number))
    talk.expect("begin")
    talk.send("begin", remote_channel=0, **session(number))
    attach = talk.expect("attach").fields
    receives = bool(attach.get("role"))
    fields = {"initial_delivery_count": number} if receives else {}
    talk.send(
        "attach", name=attach["name"], handle=0, role=not receives,
        source=composite("source", address="queue0"), target=composite("target", address="queue0"),
        max_message_size=SIZES[number], **fields,
    )  # fmt: skip


@every_number
def test_a_receiver_takes_them(number: int) -> None:
    def script(talk: Talk) -> None:
        answer(talk, number)
        talk.wait_for_credit()
        for each in range(number, number + COUNT):
            talk.transfer(each % WRAP, plain_message(each), handle=0)
        accepted = 0
        while accepted < COUNT:
            found = talk.expect("disposition").fields
            accepted += (found.get("last", found["first"]) - found["first"]) % WRAP + 1
        talk.read_until("end")
        talk.send("end")
        talk.read_until("close")

    with FramePeer(script) as peer:
        end = run_pyfast(*arguments("receive", peer.port, count=COUNT))
    assert_clean(end)
    assert len(end.lines) == COUNT


@every_number
def test_a_sender_takes_them(number: int) -> None:
    def script(talk: Talk) -> None:
        answer(talk, number)
        talk.send(
            "flow", next_incoming_id=0, incoming_window=number,
            next_outgoing_id=number, outgoing_window=number, handle=0, delivery_count=0,
            link_credit=number,
        )  # fmt: skip
        first = talk.expect("transfer").fields["delivery_id"]
        for _ in range(COUNT - 1):
            talk.expect("transfer")
        talk.send(
            "disposition", role=True, first=first, last=first + COUNT - 1,
            settled=True, state=composite("accepted"),
        )  # fmt: skip
        talk.read_until("end")
        talk.send("end")
        talk.read_until("close")

    with FramePeer(script) as peer:
        end = run_pyfast(*arguments("send", peer.port, count=COUNT))
    assert_clean(end)
