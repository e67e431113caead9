"""Courses of a connection's frames: as strategies, and made to fit a twin's state."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from quiver_fast.conform.wire.frames import composite
from support.plane_layer import OURS, THEIRS
from support.plane_twin import ACTIVE, Refused, Twin

# A side, a frame's name, its channel and its fields.
Step = tuple[str, str, int, dict[str, Any]]
WINDOW = 8
# An id that follows no other.
ODD = 301
channels, handles = st.integers(0, 1), st.integers(0, 2)
# Ids and counts wrap at 2^32.
LAST = 2**32 - 1
counts = st.sampled_from([0, 1, 5, LAST - 1, LAST])
windows = st.sampled_from([0, 9, LAST])
FAILED = composite("error", condition="amqp:not-found", description="gone")
# The state in a disposition: its name and its fields, or null.
OUTCOMES: list[tuple[str, dict[str, Any]]] = [
    ("accepted", {}),
    ("released", {}),
    ("rejected", {}),
    ("rejected", {"error": FAILED}),
    ("modified", {"delivery_failed": True, "undeliverable_here": True}),
    ("declared", {"txn_id": b"txn"}),
]
of_transaction = st.fixed_dictionaries(
    {"txn_id": st.sampled_from([b"", b"txn", b"t" * 32])},
    optional={"outcome": st.sampled_from([name for name, _ in OUTCOMES[:5]])},
)
told = st.one_of(
    st.none(),
    st.sampled_from(OUTCOMES),
    st.just(("received", {"section_number": 0, "section_offset": LAST})),
    of_transaction.map(lambda fields: ("transactional_state", fields)),
)


@st.composite
def control(draw: st.DrawFn) -> tuple[str, int, dict[str, Any]]:
    """Return a frame of the engine's."""
    name = draw(st.sampled_from(["begin", "attach", "attach", "attach", "detach", "end"]))
    fields: dict[str, Any] = {}
    if name == "begin":
        fields = {"next_outgoing_id": draw(counts), "incoming_window": WINDOW}
        fields["outgoing_window"] = draw(windows)
        if draw(st.booleans()):
            fields["remote_channel"] = draw(channels)
    elif name == "attach":
        fields = {"name": draw(st.sampled_from("ab")), "handle": draw(handles)}
        fields |= {"role": draw(st.booleans())}
        if not fields["role"]:
            fields["initial_delivery_count"] = draw(counts)
    elif name == "detach":
        fields = {"handle": draw(handles), "closed": True}
    return name, draw(channels), fields


@st.composite
def data(draw: st.DrawFn) -> tuple[str, int, dict[str, Any]]:
    """Return a frame that is not the engine's."""
    name = draw(st.sampled_from([*["transfer"] * 4, "flow", "flow", "disposition", "empty"]))
    fields: dict[str, Any] = {}
    if name == "transfer":
        fields = draw(
            st.fixed_dictionaries(
                {"handle": handles, "payload": st.sampled_from([b"", b"p" * 100])},
                optional={
                    "delivery_id": st.sampled_from([0, 300, 301, LAST]),
                    "delivery_tag": st.sampled_from([b"", b"t"]),
                    "message_format": st.just(0), "settled": st.booleans(),
                    "more": st.booleans(), "aborted": st.booleans(),
                },
            )
        )  # fmt: skip
    elif name == "flow":
        fields = {"incoming_window": draw(windows), "next_outgoing_id": draw(counts)}
        fields["outgoing_window"] = draw(windows)
        if draw(st.booleans()):
            fields["next_incoming_id"] = draw(counts)
        if draw(st.booleans()):
            of_link = {"delivery_count": st.integers(0, 7) | counts, "drain": st.booleans(),
                       "link_credit": st.integers(0, 9) | counts,
                       "available": windows}  # fmt: skip
            fields |= {"handle": draw(handles), **draw(st.fixed_dictionaries({}, optional=of_link))}
        fields["echo"] = draw(st.booleans())
    elif name == "disposition":
        fields = {"role": draw(st.booleans()), "first": draw(counts)}
        fields |= {"last": (fields["first"] + draw(st.integers(-1, 2))) % 2**32}
        fields |= {"settled": draw(st.booleans()), "state": draw(told)}
    return name, draw(channels), fields


def opening(ours: int, base: int, initial: int) -> list[Step]:
    """Return both sides' frames for a session with a link each way; all ids begin at a base."""
    theirs = 1 - ours
    return [
        ("ours", "begin", ours, {"next_outgoing_id": base, "incoming_window": WINDOW,
                                 "outgoing_window": 9}),
        ("theirs", "begin", theirs, {"remote_channel": ours, "next_outgoing_id": base,
                                     "incoming_window": 9, "outgoing_window": 9}),
        ("ours", "attach", ours, {"name": "in", "handle": 0, "role": True}),
        ("ours", "attach", ours, {"name": "out", "handle": 1, "role": False,
                                  "initial_delivery_count": base}),
        ("theirs", "attach", theirs, {"name": "in", "handle": 1, "role": False,
                                      "initial_delivery_count": initial}),
        ("theirs", "attach", theirs, {"name": "out", "handle": 0, "role": True}),
        ("ours", "credit", ours, {"handle": 0, "more": 3, "drain": False}),
    ]  # fmt: skip


OPENING = opening(0, 0, 5)
# The first steps of both sides in most courses, so that there are links.
BOTH = OPENING + opening(1, LAST, LAST)
openings = st.sampled_from([BOTH, BOTH, OPENING, []])
CREDIT = OPENING[-1]
asked = st.fixed_dictionaries(
    {"handle": handles, "more": st.integers(1, 3), "drain": st.booleans()}
)


def mostly(usual: st.SearchStrategy[Any], *others: st.SearchStrategy[Any]) -> Any:
    """Return a strategy that draws from the usual one ten times as often as from each other."""
    return st.sampled_from([usual] * 10 + list(others)).flatmap(lambda each: each)


steps = mostly(
    data().map(lambda step: ("theirs", *step)),
    st.tuples(st.sampled_from(["ours", "theirs"]), control()).map(lambda s: (s[0], *s[1])),
    st.tuples(st.just("ours"), st.just("credit"), channels, asked),
)
# A wild step is unchanged; others are made to fit, because a course would end too early.
wild = st.sampled_from([False] * 29 + [True])
courses = st.lists(st.tuples(steps, wild), min_size=10, max_size=40)


def in_order(twin: Twin, step: Step) -> Step:
    """Return a transfer whose id follows the one before it; ``ODD`` stays as it is."""
    side, name, channel, fields = step
    session = twin.session(THEIRS, channel)
    known = session is not None and session.following is not None
    if name != "transfer" or not known or fields.get("delivery_id") in (None, ODD):
        return step
    link = twin.link(THEIRS, channel, fields["handle"])
    if link is not None and link.delivery is not None:
        return step
    return side, name, channel, fields | {"delivery_id": session.following}


def placed(twin: Twin, step: Step) -> Step:
    """Return a peer's step on a session and a link that are there, if any are."""
    side, name, channel, fields = step
    sessions = [each for each in twin.sessions if each.phase[THEIRS] == ACTIVE]
    links = [
        (session.channel[THEIRS], link.handle[THEIRS])
        for session in sessions
        for link in session.links
        if link.phase[THEIRS] == ACTIVE and (name == "flow" or link.receives)
    ]
    if "handle" in fields and links:
        channel, handle = links[(channel + 2 * fields["handle"]) % len(links)]
        fields = fields | {"handle": handle}
    elif sessions:
        channel = sessions[channel % len(sessions)].channel[THEIRS]
    if name == "transfer":
        link = twin.link(THEIRS, channel, fields["handle"])
        fields = {"delivery_id": 300, "delivery_tag": b"t", **fields}
        if link is not None and link.delivery is not None:
            fields["delivery_id"] = link.delivery[0]
    return in_order(twin, (side, name, channel, fields))


def fitting(twin: Twin, step: Step) -> Step:
    """Return a step that is allowed; credit where a transfer has none, else an empty frame."""
    if step[1] in ("flow", "transfer", "disposition"):
        step = placed(twin, step)
    side, name, channel, fields = step
    try:
        if name != "credit":
            copy.deepcopy(twin).take(OURS if side == "ours" else THEIRS, name, channel, fields)
    except Refused:
        session = twin.session(THEIRS, channel)
        link = twin.link(THEIRS, channel, fields["handle"]) if name == "transfer" else None
        if session and link:
            asked = {"handle": link.handle[OURS], "more": 3, "drain": False}
            return "ours", "credit", session.channel[OURS], asked
        return "theirs", "empty", 0, {}
    return step
