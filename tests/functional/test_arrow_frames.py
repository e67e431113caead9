"""The arrow's transfers, flows and dispositions, judged frame by frame by a peer that we wrote.

Peers settle as they like: late, in reverse, in part, twice, and what they never got (part 2.7.6).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from support.arrows import arguments, arguments_v2, run_at, run_pyfast
from support.frame_peer import FramePeer
from support.judgement import assert_clean, assert_error
from support.scripted_peer import plain_message

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.client import read_exactly
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import SASL_HEADER, Unexpected, composite, encode_frame

COUNT = 40
TARGET = composite("target", address="queue0")
ACCEPTED = composite("accepted")
Answers = Iterator[bytes]


def answer(first: int, last: int | None = None, *, settled: bool = True, **fields: object) -> bytes:
    state = {"state": ACCEPTED} | fields
    return encode_frame(
        "disposition",
        role=True,
        first=first,
        last=last,
        settled=settled,
        **state,  # type: ignore[arg-type]
    )


def in_reverse() -> Answers:
    for number in reversed(range(COUNT)):
        yield answer(number)


def twice() -> Answers:
    yield answer(5, 20)
    yield answer(5, 20)
    yield answer(0, COUNT - 1)


def received_first() -> Answers:
    yield answer(
        0, COUNT - 1, settled=False, state=composite("received", section_number=0, section_offset=0)
    )
    yield answer(0, COUNT - 1, settled=False, state=None)
    yield answer(0, COUNT - 1)


def without_an_outcome() -> Answers:
    yield answer(0, COUNT - 1, state=None)


def in_one_write() -> Answers:
    yield b"".join(in_reverse())


WAYS: list[Callable[[], Answers]] = [
    in_reverse, twice, received_first, without_an_outcome, in_one_write,
]  # fmt: skip


def take(talk: Talk, count: int) -> list[int]:
    """Read so many transfers; return their delivery-ids."""
    return [talk.expect("transfer").fields["delivery_id"] for _ in range(count)]


def ready_to_take(talk: Talk, credit: int = COUNT) -> None:
    talk.answer_session()
    talk.answer_attach(target=TARGET)
    talk.give_credit(credit)


@pytest.mark.parametrize("way", WAYS)
def test_outcomes_of_any_shape(way: Callable[[], Answers]) -> None:
    def script(talk: Talk) -> None:
        ready_to_take(talk)
        assert take(talk, COUNT) == list(range(COUNT))
        for frames in way():
            talk.send_bytes(frames)
        talk.read_until("end")

    with FramePeer(script) as peer:
        end = run_pyfast(*arguments_v2("send", peer.port, count=COUNT, settlement=1))
    assert_clean(end)
    settled = [line for line in end.lines if line[0] in "Ss"]
    assert sorted(int(line[1:].split(",")[0].split("-")[-1]) for line in settled) == list(
        range(1, COUNT + 1)
    )


def test_a_presettled_run_says_so_and_does_so() -> None:
    """Part 2.7.3, snd-settle-mode, and part 2.7.5, settled."""
    said: list[object] = []

    def script(talk: Talk) -> None:
        talk.answer_session()
        attach = talk.answer_attach(target=TARGET, snd_settle_mode=Value("ubyte", 1))
        said.append(attach.fields["snd_settle_mode"])
        talk.give_credit(5)
        said.extend(talk.expect("transfer").fields["settled"] for _ in range(5))
        talk.read_until("end")

    assert_clean(run_at(FramePeer(script), "send", count=5, presettled=1))
    assert said == [1, *[True] * 5]


def test_outcomes_that_a_peer_mixes() -> None:
    def script(talk: Talk) -> None:
        ready_to_take(talk)
        take(talk, COUNT)
        talk.send_bytes(
            answer(0, 9) + answer(10, 14, state=composite("released"))
            + answer(15, 17, state=composite("modified")) + answer(18, state=composite("rejected"))
            + answer(0, COUNT - 1)
        )  # fmt: skip
        talk.read_until("end")

    end = run_at(FramePeer(script), "send", count=COUNT)
    assert_error(end, "1 rejected, 5 released, 3 modified")


def test_a_drain_is_answered_where_nothing_is_left_to_take_back() -> None:
    """Messages used the credit up, or there was none: a peer waits for the flow all the same."""

    def told(talk: Talk) -> tuple[int, int]:
        fields = talk.expect("flow").fields
        return fields["delivery_count"], fields.get("link_credit", 0)

    def script(talk: Talk) -> None:
        ready_to_take(talk, 0)
        talk.give_credit(5, drain=True)
        take(talk, 5)
        assert told(talk) == (5, 0)
        talk.give_credit(0, drain=True, delivery_count=5, next_incoming_id=5)
        assert told(talk) == (5, 0)
        talk.give_credit(5, delivery_count=5, next_incoming_id=5)
        take(talk, 5)
        talk.send_bytes(answer(0, 9))
        talk.read_until("end")

    assert_clean(run_at(FramePeer(script), "send", count=10))


@pytest.mark.parametrize("words", [{}, {"durable": 1}])
def test_a_peer_that_takes_smaller_messages_gets_none(words: dict[str, int]) -> None:
    """Part 2.7.3: both sizes are told before the first transfer."""

    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=TARGET, max_message_size=1024)
        talk.give_credit(COUNT)
        for frame in talk.read_to_end():
            assert frame.name != "transfer"

    with FramePeer(script) as peer:
        words = {"count": 10, "body_size": 2000, **words}
        end = run_pyfast(*arguments("send", peer.port, **words))
        assert_error(
            end, "takes messages of at most 1,024 bytes, and ours have 20", "body-size 2000"
        )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"path": "a" * 600}, "too few for our attach"),
        ({"id": "c" * 600}, "too few for our open"),
        ({"username": "u" * 600, "password": "p", "sasl_mechanisms": "PLAIN"}, "our SASL"),
    ],
)
def test_frames_that_the_peer_does_not_take_are_not_sent(words: dict[str, str], said: str) -> None:
    """Parts 2.4.1, 2.7.1 and 5.3.1: one line says which."""

    def script(talk: Talk) -> None:
        # The arrow ends where its own frame is too large.
        with contextlib.suppress(EOFError, ConnectionError, Unexpected):
            if "password" in words:
                talk.socket.recv(8)
                talk.send_bytes(SASL_HEADER)
                talk.send("sasl_mechanisms", sasl_server_mechanisms=["PLAIN"])
            else:
                talk.answer_session(max_frame_size=512)
            while True:
                size = read_exactly(talk.socket, 4)
                assert int.from_bytes(size, "big") <= 512
                read_exactly(talk.socket, int.from_bytes(size, "big") - 4)

    with FramePeer(script) as peer:
        assert_error(run_pyfast(*arguments("send", peer.port, count=1, **words)), said)


def test_a_message_may_be_as_large_as_the_peer_takes() -> None:
    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=TARGET, max_message_size=2**63)
        talk.give_credit(COUNT)
        take(talk, 3)
        talk.send_bytes(answer(0, 2))
        talk.read_until("end")

    assert_clean(run_at(FramePeer(script), "send", count=3, body_size=900))


# ---- receiving


def transfers(numbers: range, **fields: object) -> list[bytes]:
    """Return transfers whose ids wrap at 2^32."""
    return [
        encode_frame(
            "transfer", handle=0, delivery_id=number % 2**32, delivery_tag=b"%d" % number,
            message_format=0, payload=plain_message(number % 100 + 1), **fields,  # type: ignore[arg-type]
        )
        for number in numbers
    ]  # fmt: skip


def begin_to_send(talk: Talk, first: int = 0, delivery_count: int = 0) -> None:
    talk.answer_header()
    talk.expect("open")
    talk.send("open", container_id="frames")
    talk.expect("begin")
    talk.send("begin", remote_channel=0, next_outgoing_id=first, incoming_window=1000,
              outgoing_window=1000)  # fmt: skip
    attach = talk.expect("attach")
    talk.send("attach", name=attach.fields["name"], handle=0, role=False,
              source=composite("source", address="queue0"),
              initial_delivery_count=delivery_count)  # fmt: skip
    talk.wait_for_credit()


def answered(talk: Talk, count: int) -> list[int]:
    """Read dispositions until so many ids have one; return the ids in their order."""
    ids: list[int] = []
    while len(ids) < count:
        frame = talk.read()
        if frame.name == "disposition":
            first, last = frame.fields["first"], frame.fields.get("last", frame.fields["first"])
            ids += [(first + step) % 2**32 for step in range((last - first) % 2**32 + 1)]
    return ids


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_ids_and_counts_that_wrap(chunk: int) -> None:
    start = 2**32 - 13
    numbers = range(start, start + COUNT)

    def script(talk: Talk) -> None:
        begin_to_send(talk, first=start, delivery_count=start)
        data = b"".join(transfers(numbers))
        for at in range(0, len(data), chunk):
            talk.send_bytes(data[at : at + chunk])
        assert answered(talk, COUNT) == [number % 2**32 for number in numbers]
        talk.read_until("end")

    end = run_at(FramePeer(script), "receive", count=COUNT, credit_window=100)
    assert_clean(end)
    assert len(end.lines) == COUNT


def test_deliveries_beyond_the_credit_are_taken() -> None:
    """RabbitMQ 3 sends such messages; they have to be measured."""

    def script(talk: Talk) -> None:
        begin_to_send(talk)
        talk.send_bytes(b"".join(transfers(range(30))))
        assert answered(talk, 30) == list(range(30))
        # The sender's count is ahead of what it was given, and then behind.
        for count in (35, 3):
            talk.send("flow", next_incoming_id=0, incoming_window=99, next_outgoing_id=30,
                      outgoing_window=9, handle=0, delivery_count=count, link_credit=0,
                      available=0)  # fmt: skip
        talk.send_bytes(b"".join(transfers(range(30, COUNT))))
        assert answered(talk, COUNT - 30) == list(range(30, COUNT))
        talk.read_until("end")

    end = run_at(FramePeer(script), "receive", count=COUNT, credit_window=10)
    assert_clean(end)
    assert len(end.lines) == COUNT


def test_parts_aborted_and_settled_deliveries_between_whole_ones() -> None:
    payload = plain_message(7)

    def part(number: int, start: int, stop: int, **fields: object) -> bytes:
        return encode_frame("transfer", handle=0, delivery_id=number, delivery_tag=b"%d" % number,
                            payload=payload[start:stop], **fields)  # type: ignore[arg-type]  # fmt: skip

    def script(talk: Talk) -> None:
        begin_to_send(talk)
        talk.send_bytes(
            b"".join(transfers(range(3)))
            + part(3, 0, 20, more=True) + part(3, 20, 999)
            + part(4, 0, 20, more=True) + part(4, 0, 0, aborted=True)
            + b"".join(transfers(range(5, 7), settled=True))
            + part(7, 0, 5, more=True) + part(7, 5, 30, more=True) + part(7, 30, 999)
            + b"".join(transfers(range(8, 11)))
        )  # fmt: skip
        assert answered(talk, 8) == [0, 1, 2, 3, 7, 8, 9, 10]
        talk.read_until("end")

    end = run_at(FramePeer(script), "receive", count=10)
    assert_error(end, "1 deliveries were aborted")
    assert len(end.lines) == 10


def test_a_frame_that_may_not_be_ends_the_run() -> None:
    """It is told to the peer, whose close has the condition, and in one line to the user."""
    told: list[str | None] = []

    def script(talk: Talk) -> None:
        begin_to_send(talk)
        talk.send("disposition", role=True)
        told.append(talk.expect("close").condition)

    end = run_at(FramePeer(script), "receive", count=COUNT)
    assert told[0] is not None
    assert_error(end, told[0])
