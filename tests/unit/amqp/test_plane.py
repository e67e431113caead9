"""A connection's bytes as events, against a twin, in pieces of any size."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.plane_courses import (
    ODD,
    OPENING,
    Step,
    courses,
    fitting,
    in_order,
    mostly,
    openings,
)
from support.plane_layer import OURS, THEIRS, Event, Plane
from support.plane_twin import Refused, Twin

from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    SASL_HEADER,
    composite,
    decode_frame,
    encode_frame,
    frame,
)


def encoded(name: str, channel: int, fields: dict[str, Any]) -> bytes:
    if name == "empty":
        return frame(b"", channel=channel)
    fields = dict(fields)
    if fields.get("state"):
        state, of_state = fields["state"]
        if "outcome" in of_state:
            of_state = of_state | {"outcome": composite(of_state["outcome"])}
        fields["state"] = composite(state, **of_state)
    return encode_frame(name, channel=channel, **fields)


def flows_of(data: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Return channel and fields of all flows that a plane wrote beside the engine's frames."""
    found = []
    while data:
        size = int.from_bytes(data[:4], "big")
        one = decode_frame(data[:size])
        if one.name == "flow":
            found.append((one.channel, one.fields))
        data = data[size:]
    return found


def give_credit(
    plane: Plane, twin: Twin, channel: int, handle: int, more: int, *, drain: bool = False
) -> None:
    """Have a receiver of ours ask for more."""
    link = twin.link(OURS, channel, handle)
    session = twin.session(OURS, channel)
    if link is None or session is None or not link.receives:
        return
    assert plane.credit(channel, handle, more, drain=drain)
    link.credit += more
    link.drain = drain
    twin.tell(session, link)


def take_step(plane: Plane, twin: Twin, step: Step) -> bool:
    """Give a frame to both; say whether the course goes on."""
    side, name, channel, fields = step
    if name == "credit":
        give_credit(plane, twin, channel, **fields)
        return True
    held = encoded(name, channel, fields)
    try:
        expected = twin.take(OURS if side == "ours" else THEIRS, name, channel, fields)
    except Refused as refusal:
        expected = refusal.event
    if side == "ours":
        assert plane.drain(held) == (expected is not None and expected.kind != "refused")
    else:
        if expected == ("engine", {}):
            expected = Event("engine", {"bytes": held})
        assert plane.take(held) == ([] if expected is None else [expected])
    return expected is None or expected.kind != "refused"


def compare(plane: Plane, twin: Twin) -> None:
    """Compare all that can be asked for, and how much is kept."""
    assert plane.kept() == twin.kept()
    for side in (OURS, THEIRS):
        for channel in (0, 1):
            ours, session = twin.session(side, channel), plane.session(side, channel)
            assert (ours is None) == (session is None)
            if ours is not None and session is not None:
                assert session.incoming_window == ours.incoming
                windows = session.remote_incoming_window, session.remote_outgoing_window
                assert windows == (ours.peer_incoming, ours.peer_outgoing)
                ids = session.next_outgoing_id, session.next_incoming_id
                assert ids == (ours.outgoing_id, ours.incoming_id)
            for handle in (0, 1, 2):
                link, found = twin.link(side, channel, handle), plane.link(side, channel, handle)
                assert (link is None) == (found is None)
                if link is None or found is None:
                    continue
                assert (bool(found.role), list(found.phase)) == (link.receives, link.phase)
                counted = found.delivery_count, found.credit, found.drain
                assert counted == (link.count % 2**32, link.credit, link.drain)


@given(openings, courses, st.booleans())
def test_courses(
    plane_library: ctypes.CDLL,
    opened: list[Step],
    course: list[tuple[Step, bool]],
    lenient: bool,
) -> None:
    plane, twin = Plane(plane_library, lenient=lenient), Twin(lenient=lenient)
    assert plane.take(AMQP_HEADER) == [Event("engine", {"bytes": AMQP_HEADER})]
    for step, as_it_is in [(step, True) for step in opened] + course:
        if not take_step(plane, twin, step if as_it_is else fitting(twin, step)):
            break
        compare(plane, twin)
    assert flows_of(plane.output.write(10**6)[1]) == twin.flows
    plane.free()


def attached(library: ctypes.CDLL, **limits: Any) -> Plane:
    """Return a plane with a link each way, and 3 messages of credit to the peer."""
    plane, twin = Plane(library, **limits), Twin()
    plane.take(AMQP_HEADER)
    for step in OPENING:
        assert take_step(plane, twin, step)
    plane.output.write(10**6)
    return plane


def transfer(number: int, **fields: Any) -> bytes:
    given: dict[str, Any] = {"handle": 1, "delivery_tag": b"%04d" % number, "message_format": 0}
    given |= {"payload": b"p" * 100, **fields}
    return encode_frame("transfer", channel=1, delivery_id=number, **given)


# Two receivers of ours, so that transfers of one come between those of the other. The window is
# large: near its half transfers are not taken the shortest way.
TWO: list[Step] = [
    (*OPENING[0][:3], {**OPENING[0][3], "incoming_window": 60}),
    *OPENING[1:-1],
    ("ours", "attach", 0, {"name": "more", "handle": 2, "role": True}),
    ("theirs", "attach", 1, {"name": "more", "handle": 2, "role": False,
                             "initial_delivery_count": 0}),
]  # fmt: skip
alike = st.fixed_dictionaries(
    {
        "handle": st.sampled_from([1, 1, 1, 2]),
        "delivery_id": st.sampled_from([300, 300, 70000, 2**32 - 1, 2**32 - 1, ODD]),
        "delivery_tag": st.sampled_from([b"tag1", b"tag2", b"tag3", b"", b"t" * 32]),
        "message_format": st.sampled_from([0, 0, 0, 0, 1]),
        "settled": st.sampled_from([False, False, False, True]),
        "more": st.sampled_from([False, False, False, True]),
        "payload": st.sampled_from([b"p" * 100, b"q" * 100]),
    }
)
others = st.sampled_from([
    ("theirs", "empty", 1, {}),
    ("ours", "detach", 0, {"handle": 0, "closed": True}),
    ("theirs", "detach", 1, {"handle": 1, "closed": True}),
    ("ours", "detach", 0, {"handle": 2, "closed": True}),
])  # fmt: skip


@given(
    st.lists(
        mostly(alike.map(lambda fields: ("theirs", "transfer", 1, fields)), others),
        min_size=10, max_size=40,
    ),
    st.integers(1, 40),
)  # fmt: skip
def test_transfers_that_are_alike(plane_library: ctypes.CDLL, course: list[Step], fed: int) -> None:
    """A check of one of them is valid for the next only if nothing else has changed."""
    plane, twin = Plane(plane_library), Twin()
    plane.take(AMQP_HEADER)
    for step in TWO:
        assert take_step(plane, twin, step)
    for number, step in enumerate(course):
        for handle in (0, 2):
            # After `fed` steps the peer gets no more credit, and goes beyond it.
            link = twin.link(OURS, 0, handle)
            if link is not None and link.credit < 2 and number < fed:
                give_credit(plane, twin, 0, handle, 3)
        fields = step[3]
        link = twin.link(THEIRS, 1, fields.get("handle", 0))
        if step[1] == "transfer" and link is not None and link.delivery:
            fields = fields | {"delivery_id": link.delivery[0]}
        if not take_step(plane, twin, in_order(twin, (*step[:3], fields))):
            break
        compare(plane, twin)
    assert flows_of(plane.output.write(10**6)[1]) == twin.flows
    plane.free()


def test_a_begin_answers_no_session_that_has_ended(plane_library: ctypes.CDLL) -> None:
    """Ours ended before the peer's begin came; another has begun on its channel."""
    plane = Plane(plane_library)
    plane.take(AMQP_HEADER)
    begin = {"next_outgoing_id": 0, "outgoing_window": 9}
    answer = encode_frame("begin", channel=4, remote_channel=0, incoming_window=9, **begin)
    assert plane.drain(encode_frame("begin", incoming_window=7, **begin) + encode_frame("end"))
    assert plane.kept() == (0, 0)
    assert [event.kind for event in plane.take(answer)] == ["refused"]
    assert plane.drain(encode_frame("begin", incoming_window=8, **begin))
    assert [event.kind for event in plane.take(answer)] == ["engine"]
    session = plane.session(THEIRS, 4)
    assert session is not None
    assert session.incoming_window == 8
    assert [event.kind for event in plane.take(answer.replace(b"\0\x04", b"\0\x05", 1))] == [
        "refused"]  # fmt: skip
    plane.free()


@pytest.mark.parametrize("answers", [False, True])
def test_the_last_time_to_answer_a_begin(plane_library: ctypes.CDLL, answers: bool) -> None:
    plane = Plane(plane_library)
    begin = {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9}
    plane.take(AMQP_HEADER + encode_frame("begin", channel=4, **begin))
    end = encode_frame("end", channel=4)
    assert plane.library.door_fill(plane.pointer, end, ctypes.c_size_t(len(end)))
    assert plane.next().kind == "ending"
    answer = encode_frame("begin", remote_channel=4, **begin)
    if answers:
        assert plane.drain(answer)
    assert plane.next().kind == "engine"
    assert plane.next().kind == "nothing"
    assert plane.drain(encode_frame("end") if answers else answer) == answers
    assert plane.kept() == (0, 0)
    plane.free()


@pytest.mark.parametrize("drain", [False, True])
def test_who_drains_is_not_answered_before_its_sender_is_done(
    plane_library: ctypes.CDLL, drain: bool
) -> None:
    plane = attached(plane_library)
    flow = {"incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9, "handle": 0}
    asked = encode_frame("flow", channel=1, link_credit=3, drain=drain, echo=True, **flow)
    assert [event.kind for event in plane.take(asked)] == ["credit"]
    flows = flows_of(plane.output.write(1000)[1])
    assert [(channel, of["handle"]) for channel, of in flows] == ([] if drain else [(0, 1)])
    plane.free()


@pytest.mark.parametrize("handle", [0x70000000, 0x00700000, 0x70007070])
def test_ids_of_few_bytes_are_not_taken_for_others(plane_library: ctypes.CDLL, handle: int) -> None:
    """A handle may look like the constructor of an id."""
    plane = attached(plane_library, lenient=True)
    attach = {"name": "odd", "role": False, "initial_delivery_count": 0}
    assert plane.drain(encode_frame("attach", channel=0, name="odd", handle=2, role=True))
    plane.take(encode_frame("attach", channel=1, handle=handle, **attach))
    assert plane.credit(0, 2, 9)
    ids = [7, 8, 0, 9, 300, 301]
    events = plane.take(b"".join(transfer(number, handle=handle) for number in ids))
    assert [event.fields["delivery_id"] for event in events] == ids
    plane.free()


@given(st.integers(1, 200))
def test_pieces_of_any_size(plane_library: ctypes.CDLL, chunk: int) -> None:
    """Events do not depend on how the bytes come."""
    stream = [
        transfer(300), transfer(301), transfer(302, payload=b"s"), transfer(303, more=True),
        transfer(303, more=False, payload=b"q" * 300),
        encode_frame("flow", channel=1, incoming_window=9, next_outgoing_id=0, outgoing_window=9),
        frame(b""), transfer(304), transfer(305), transfer(306, settled=True),
        encode_frame("end", channel=1),
    ]  # fmt: skip
    whole, pieces = attached(plane_library), attached(plane_library)
    for plane in (whole, pieces):
        assert plane.credit(0, 0, 10)
    expected = whole.take(b"".join(stream))
    kinds = ["arrival"] * 5 + ["credit"] + ["arrival"] * 3 + ["engine"]
    assert [event.kind for event in expected] == kinds
    ids = [event.fields["delivery_id"] for event in expected if event.kind == "arrival"]
    assert ids == [300, 301, 302, 303, 303, 304, 305, 306]
    assert pieces.take(b"".join(stream), chunk) == expected
    whole.free()
    pieces.free()


def test_a_frame_larger_than_the_buffer(plane_library: ctypes.CDLL) -> None:
    plane = attached(plane_library, max_frame_size=10**6)
    large = transfer(0, payload=b"x" * 500_000)
    (event,) = plane.take(large, 100_000)
    assert event.fields["payload"] == b"x" * 500_000
    plane.free()


def test_a_frame_beyond_the_limit(plane_library: ctypes.CDLL) -> None:
    plane = attached(plane_library, max_frame_size=512)
    (event,) = plane.take(transfer(0, payload=b"x" * 500))
    fields = {"extent": "connection", "condition": "amqp:connection:framing-error"}
    assert event == Event("refused", fields)
    plane.free()


@given(st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_a_size_alone_asks_for_no_memory(
    plane_library: ctypes.CDLL, length: int, size: int
) -> None:
    """Before the header of a frame is whole, nobody knows that its size is within the limit."""
    plane = attached(plane_library)
    assert plane.take((size.to_bytes(4, "big") + bytes([2, 0, 0]))[:length]) == []
    assert plane.library.door_fill(plane.pointer, b"\0", 1) == 1
    assert plane.capacity <= 65536
    plane.free()


@given(st.integers(1, 40))
def test_what_comes_before_amqp_is_the_engines(plane_library: ctypes.CDLL, chunk: int) -> None:
    mechanisms = encode_frame("sasl_mechanisms", sasl_server_mechanisms=["ANONYMOUS"])
    outcome = encode_frame("sasl_outcome", code=0)
    opened = encode_frame("open", container_id="c")
    plane = Plane(plane_library)
    for stream in ([SASL_HEADER, mechanisms, outcome], [AMQP_HEADER, opened]):
        events = plane.take(b"".join(stream), chunk)
        assert events == [Event("engine", {"bytes": each}) for each in stream]
        plane.secure()
    plane.free()


INIT = encode_frame("sasl_init", mechanism="ANONYMOUS")
OPEN = encode_frame("open", container_id="c")


@pytest.mark.parametrize(
    "stray",
    [
        AMQP_HEADER,
        SASL_HEADER,
        OPEN,
        frame(b""),
        frame(b"", kind=1),
        frame(INIT[8:], kind=2),
        frame(b"x" * 505, kind=1),
        b"HTTP/1.1 400 Bad Request\r\n",
    ],
)
@given(chunk=st.integers(1, 600))
def test_only_sasl_frames_come_within_sasl(
    plane_library: ctypes.CDLL, stray: bytes, chunk: int
) -> None:
    """Parts 5.3.1 and 5.3.2; the engine would take frames of AMQP there."""
    plane = Plane(plane_library)
    *before, event = plane.take(SASL_HEADER + INIT + stray, chunk)
    assert before == [Event("engine", {"bytes": each}) for each in (SASL_HEADER, INIT)]
    fields = {"extent": "connection", "condition": "amqp:connection:framing-error"}
    assert event == Event("refused", fields)
    plane.free()


@pytest.mark.parametrize("stray", [INIT, frame(b"", kind=1), frame(OPEN[8:], kind=2)])
def test_frames_of_other_layers_among_amqps(plane_library: ctypes.CDLL, stray: bytes) -> None:
    plane = Plane(plane_library)
    *_, event = plane.take(AMQP_HEADER + OPEN + stray)
    assert event.kind == "refused"
    plane.free()


def test_nothing_is_taken_while_an_answer_is_owed(plane_library: ctypes.CDLL) -> None:
    plane = Plane(plane_library)
    plane.take(SASL_HEADER)
    plane.hold(True)
    assert plane.take(INIT) == []
    plane.hold(False)
    assert plane.next() == Event("engine", {"bytes": INIT})
    plane.free()


def test_no_heartbeat_goes_before_our_open(plane_library: ctypes.CDLL) -> None:
    """Parts 2.2 and 2.4.1."""
    plane = Plane(plane_library)
    for ours in (b"", AMQP_HEADER):
        assert plane.drain(ours)
        assert plane.beat()
        assert plane.output.write(10**6)[1] == ours
    assert plane.drain(OPEN)
    assert plane.beat()
    assert plane.output.write(10**6)[1] == OPEN + frame(b"")
    plane.free()


def test_what_is_no_frame_is_the_engines(plane_library: ctypes.CDLL) -> None:
    plane, foreign = Plane(plane_library), b"HTTP/1.1 400 Bad Request\r\n"
    assert plane.take(foreign) == [Event("engine", {"bytes": foreign})]
    plane.free()


def test_our_own_handshake_is_learned_from(plane_library: ctypes.CDLL) -> None:
    plane = Plane(plane_library)
    init = encode_frame("sasl_init", mechanism="ANONYMOUS")
    opened = encode_frame("open", container_id="c")
    begin = encode_frame("begin", channel=3, next_outgoing_id=0, incoming_window=7,
                         outgoing_window=9)  # fmt: skip
    ours = SASL_HEADER + init + AMQP_HEADER + opened + begin
    assert plane.drain(ours)
    assert plane.output.write(10**6) == (1, ours)
    session = plane.session(OURS, 3)
    assert session is not None
    assert session.incoming_window == 7
    plane.free()


@pytest.mark.parametrize("ours_first", [True, False])
def test_endpoints_are_forgotten(plane_library: ctypes.CDLL, ours_first: bool) -> None:
    plane = attached(plane_library)
    assert plane.kept() == (1, 2)
    detach = [encode_frame("detach", channel=c, handle=c, closed=True) for c in (0, 1)]
    end = [encode_frame("end", channel=c) for c in (0, 1)]
    assert plane.drain(encode_frame("detach", channel=0, handle=0, closed=True))
    assert plane.kept() == (1, 2), "the peer has not detached"
    plane.take(detach[1])
    assert plane.kept() == (1, 1)
    for side in (0, 1) if ours_first else (1, 0):
        if side:
            plane.take(end[1])
        else:
            assert plane.drain(end[0])
    assert plane.kept() == (0, 0)
    plane.free()


def test_a_link_may_be_attached_again_before_the_peer_detached_it(
    plane_library: ctypes.CDLL,
) -> None:
    """The peer's first answer is to the first attach."""
    plane = Plane(plane_library)
    begin = {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9}
    plane.take(AMQP_HEADER + encode_frame("begin", **begin))
    ours = {"name": "l", "handle": 0, "role": True}
    assert plane.drain(encode_frame("begin", remote_channel=0, **begin))
    assert plane.drain(encode_frame("attach", **ours))
    assert plane.drain(encode_frame("detach", handle=0, closed=True))
    assert plane.drain(encode_frame("attach", **ours))
    theirs = {"name": "l", "role": False, "initial_delivery_count": 0}
    plane.take(encode_frame("attach", handle=7, **theirs))
    link = plane.link(THEIRS, 0, 7)
    assert link is not None
    assert list(link.phase) == [2, 1]
    plane.take(encode_frame("detach", handle=7, closed=True))
    plane.take(encode_frame("attach", handle=7, **theirs))
    link = plane.link(THEIRS, 0, 7)
    assert link is not None
    assert list(link.phase) == [1, 1]
    assert plane.kept() == (1, 1)
    plane.free()


def test_a_flow_before_the_peers_begin_names_no_id_of_it(plane_library: ctypes.CDLL) -> None:
    plane = Plane(plane_library)
    begin = {"next_outgoing_id": 0, "incoming_window": 9, "outgoing_window": 9}
    assert plane.drain(encode_frame("begin", **begin))
    assert plane.drain(encode_frame("attach", name="l", handle=0, role=True))
    plane.output.write(10**6)
    assert plane.credit(0, 0, 5)
    flow = decode_frame(plane.output.write(10**6)[1])
    assert "next_incoming_id" not in flow.fields
    assert flow.fields["link_credit"] == 5
    plane.free()


def test_answers_are_ranges(plane_library: ctypes.CDLL) -> None:
    plane = attached(plane_library)
    assert plane.answer_run(0, 2**32 - 1, 3)
    answer = decode_frame(plane.output.write(100)[1])
    assert answer.channel == 0
    assert answer.fields["state"] == composite_of("accepted")
    named = {name: answer.fields[name] for name in ("role", "first", "last", "settled")}
    assert named == {"role": True, "first": 2**32 - 1, "last": 3, "settled": True}
    plane.free()


def composite_of(name: str) -> Any:
    """Return a composite without fields as `decode_frame` has it."""
    return decode_frame(encode_frame("disposition", role=True, first=0,
                                     state=composite(name))).fields["state"]  # fmt: skip
