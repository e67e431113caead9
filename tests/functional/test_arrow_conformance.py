"""Clauses of AMQP 1.0 that bind an arrow: `docs/internals/conformance.md` lists all."""

from __future__ import annotations

import contextlib

import pytest
from support.arrows import arguments, run_pyfast
from support.frame_peer import FramePeer
from support.judgement import assert_clean, assert_error
from support.scripted_peer import plain_message

from quiver_fast.conform.counterpart import Talk
from quiver_fast.conform.wire.codec import Value
from quiver_fast.conform.wire.frames import Frame, composite, encode_frame

COUNT = 5
TARGET = composite("target", address="queue0")
ACCEPTED = composite("accepted")
BOTH = pytest.mark.parametrize("operation", ["send", "receive"])


def settled(last: int) -> bytes:
    fields = {"role": True, "first": 0, "last": last, "settled": True, "state": ACCEPTED}
    return encode_frame("disposition", **fields)


def transfers(count: int) -> bytes:
    return b"".join(
        encode_frame(
            "transfer", handle=0, delivery_id=number, delivery_tag=b"%d" % number,
            message_format=0, payload=plain_message(number + 1),
        )
        for number in range(count)
    )  # fmt: skip


def course_of(talk: Talk, operation: str) -> list[Frame]:
    """Have a whole run with an arrow; return all its frames in order."""
    frames: list[Frame] = []

    def until(name: str) -> Frame:
        while not frames or frames[-1].name != name:
            frames.append(talk.read())
        return frames[-1]

    talk.answer_header()
    until("open")
    talk.send("open", container_id="frames")
    until("begin")
    windows = {"next_outgoing_id": 0, "incoming_window": 99, "outgoing_window": 99}
    talk.send("begin", remote_channel=0, **windows)
    name = until("attach").fields["name"]
    source = composite("source", address="queue0")
    if operation == "send":
        talk.send("attach", name=name, handle=0, role=True, source=source, target=TARGET)
        talk.give_credit(COUNT)
        while sum(each.name == "transfer" for each in frames) < COUNT:
            frames.append(talk.read())
        talk.send_bytes(settled(COUNT - 1))
    else:
        talk.send(
            "attach", name=name, handle=0, role=False, source=source, initial_delivery_count=0
        )
        until("flow")
        talk.send_bytes(transfers(COUNT))
    # Each end of a link, session or connection is answered in kind.
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            frames.append(talk.read())
            if frames[-1].name in ("detach", "end", "close"):
                fields = {"handle": 0, "closed": True} if frames[-1].name == "detach" else {}
                talk.send(frames[-1].name, **fields)
    return frames


@pytest.fixture(scope="module")
def courses() -> dict[str, dict[str, list[Frame]]]:
    """The frames of a sender and of a receiver, by their names and in order."""
    found: dict[str, dict[str, list[Frame]]] = {}
    for operation in ("send", "receive"):
        frames: list[Frame] = []

        def script(talk: Talk, operation: str = operation, frames: list[Frame] = frames) -> None:
            frames += course_of(talk, operation)

        with FramePeer(script) as peer:
            assert_clean(run_pyfast(*arguments(operation, peer.port, count=COUNT)))
        found[operation] = {"all": frames}
        for frame in frames:
            found[operation].setdefault(frame.name, []).append(frame)
    return found


# A link ends with its session (part 2.5.2).
ENDS = (["detach", "end", "close"], ["end", "close"])
Courses = dict[str, dict[str, list[Frame]]]


@BOTH
def test_an_arrow_begins_and_ends_in_order(courses: Courses, operation: str) -> None:
    """Parts 2.4.1 and 2.4.3: open comes first and close last, both on channel 0."""
    frames = courses[operation]["all"]
    outline = [each.name for each in frames if each.name not in ("flow", "transfer", "disposition")]
    assert outline in (["open", "begin", "attach", *end] for end in ENDS)
    assert {each.channel for each in frames} == {0}
    assert frames[0].name == "open"
    assert frames[-1].name == "close"
    assert frames[-1].condition is None


@BOTH
def test_what_an_arrow_says_of_itself(courses: Courses, operation: str) -> None:
    """Parts 2.7.1 to 2.7.3: the fields that have to be there, and those that must not."""
    course = courses[operation]
    (opened,), (begin,), (attach,) = course["open"], course["begin"], course["attach"]
    assert opened.fields["container_id"]
    assert opened.fields["hostname"] == "127.0.0.1"
    assert opened.fields.get("max_frame_size", 512) >= 512
    assert "remote_channel" not in begin.fields
    assert "unsettled" not in attach.fields
    assert attach.fields.get("role", False) == (operation == "receive")
    if operation == "send":
        assert "initial_delivery_count" in attach.fields


def test_flows_and_outcomes_of_an_arrow(courses: Courses) -> None:
    """Part 2.7.4: a receiver's flow repeats the sender's count; part 2.7.6: its role."""
    flow = courses["receive"]["flow"][0].fields
    assert (flow["handle"], flow["delivery_count"], flow["next_incoming_id"]) == (0, 0, 0)
    assert flow["link_credit"] > 0
    told = [each.fields for each in courses["receive"]["disposition"]]
    assert all(each["role"] and each["state"].name == "accepted" for each in told)
    assert sum(each.get("last", each["first"]) - each["first"] + 1 for each in told) == COUNT


def test_a_presettled_run_says_so_and_does_so() -> None:
    """Part 2.7.3, snd-settle-mode, and part 2.7.5, settled."""
    said: list[object] = []

    def script(talk: Talk) -> None:
        talk.answer_session()
        attach = talk.answer_attach(target=TARGET, snd_settle_mode=Value("ubyte", 1))
        said.append(attach.fields["snd_settle_mode"])
        talk.give_credit(COUNT)
        said.extend(talk.expect("transfer").fields["settled"] for _ in range(COUNT))
        talk.read_until("end")

    with FramePeer(script) as peer:
        words = arguments("send", peer.port, count=COUNT, presettled=1)
        assert_clean(run_pyfast(*words))
    assert said == [1, *[True] * COUNT]


def test_a_sender_acquires_nothing_in_a_transaction() -> None:
    """Part 4.4.3: a flow that asks for that ends the link."""
    told: list[str | None] = []

    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(target=TARGET)
        pair = (Value("symbol", "txn-id"), Value("binary", b"x"))
        talk.give_credit(COUNT, properties=Value("map", (pair,)))
        told.extend(each.condition for each in talk.read_to_end())

    with FramePeer(script) as peer:
        end = run_pyfast(*arguments("send", peer.port, count=COUNT))
    assert "amqp:not-implemented" in told
    assert_error(end, "amqp:not-implemented")
