"""Hypothesis strategies for the bytes of a hostile or broken AMQP peer.

Random bytes seldom get past the first frame; a dialogue of frames with only one wrong
frame goes deeper. Both are here, for SASL and AMQP.
"""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from quiver_fast.conform.wire.codec import Value, encode, symbols
from quiver_fast.conform.wire.frames import (
    AMQP_HEADER,
    COMPOSITES,
    FIELDS,
    SASL_HEADER,
    composite,
    encode_frame,
    frame,
    message,
)  # fmt: skip

SASL_NAMES = [name for name in COMPOSITES if name.startswith("sasl_")]
AMQP_NAMES = ["open", "begin", "attach", "flow", "transfer", "disposition", "detach", "end"]

edges = st.sampled_from([0, 1, 2, 7, 255, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1])
texts = st.sampled_from(["", "q", "topic", "$coordinator", "\u00fc", "x" * 300])
conditions = st.builds(composite, st.just("error"), condition=texts.filter(str.isascii))
states = st.sampled_from(["accepted", "released", "rejected", "received", "modified"])
termini = st.sampled_from(["source", "target"]).flatmap(
    lambda name: st.builds(composite, st.just(name), address=texts, dynamic=st.booleans())
)
coordinators = st.builds(composite, st.just("coordinator"))
# One value of each type, for fields of another type.
strangers = st.sampled_from(
    [
        Value("list", ()),
        Value("map", ((Value("symbol", "k"), Value("uint", 1)),)),
        symbols("a", "b"),
        Value("binary", b"\0" * 40),
        Value("double", 0.5),
        Value("uuid", b"u" * 16),
        Value("char", "c"),
        Value("described", (Value("ulong", 0x34), Value("list", (Value("binary", b"t"),)))),
        Value("described", (Value("symbol", "amqp:target:list"), Value("list", ()))),
    ]
)
by_type: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "ubyte": edges.map(lambda n: n % 256),
    "ushort": edges.map(lambda n: n % 65536),
    "uint": edges,
    "ulong": edges,
    "string": texts,
    "symbol": texts.filter(str.isascii),
    "symbols": st.lists(texts.filter(str.isascii), max_size=3),
    "binary": st.binary(max_size=40),
    "any": st.one_of(states.map(composite), conditions, termini, coordinators, strangers),
}


def _fields(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return fields of the right types, of the wrong ones, and none."""
    each = {field: st.one_of(by_type[kind], by_type[kind], strangers, st.none())
            for field, kind in FIELDS[name]}  # fmt: skip
    return st.fixed_dictionaries(each)


def _frame(name: str, channel: int, payload: bytes, fields: dict[str, Any]) -> bytes:
    return encode_frame(name, channel=channel, payload=payload, **fields)


def _frames(names: list[str]) -> st.SearchStrategy[bytes]:
    channels = st.sampled_from([0, 0, 0, 0, 1, 65535])
    payloads = st.sampled_from([b"", b"", message(b"x"), message(b"y" * 600), b"\0\x53"])
    return st.sampled_from(names).flatmap(
        lambda name: st.builds(_frame, st.just(name), channels, payloads, _fields(name))
    )


def _damaged(data: bytes, at: int, byte: int, cut: bool) -> bytes:
    """Return a frame with one byte changed or its end cut, and with a correct size."""
    place = 8 + at % max(1, len(data) - 8)
    rest = b"" if cut else bytes([byte]) + data[place + 1 :]
    data = data[:place] + rest
    return struct.pack(">I", len(data)) + data[4:]


def _with_damage(frames: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    anywhere = st.integers(0, 2**16)
    damaged = st.builds(_damaged, frames, anywhere, st.integers(0, 255), st.booleans())
    garbage = st.builds(frame, st.binary(max_size=40), kind=st.integers(0, 3))
    return st.one_of(frames, frames, damaged, garbage, st.binary(max_size=20))


WINDOWS = {"next_outgoing_id": 0, "incoming_window": 100, "outgoing_window": 100}
# The steps of a correct peer: fuzz may begin after any of them.
PROLOGUE = [
    AMQP_HEADER,
    encode_frame("open", container_id="fuzz", idle_time_out=10_000),
    encode_frame("begin", **WINDOWS),
    encode_frame(
        "attach", name="out", handle=0, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address="fuzz"),
    ),
    encode_frame(
        "attach", name="in", handle=1, role=True,
        source=composite("source", address="fuzz"), target=composite("target"),
    ),
    encode_frame(
        "attach", name="control", handle=2, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("coordinator"),
    ),
    encode_frame("flow", **WINDOWS, next_incoming_id=0, handle=1, delivery_count=0, link_credit=9),
    encode_frame(
        "transfer", handle=0, delivery_id=0, delivery_tag=b"0", payload=message(b"one")
    ),
    encode_frame(
        "transfer", handle=2, delivery_id=1, delivery_tag=b"1",
        payload=encode(
            Value("described", (Value("ulong", 0x77), composite("declare")))
        ),
    ),
    encode_frame(
        "transfer", handle=0, delivery_id=2, delivery_tag=b"2", more=True, payload=message(b"two")
    ),
]  # fmt: skip


def _dialogue(steps: int, fuzz: list[bytes]) -> bytes:
    return b"".join([*PROLOGUE[:steps], *fuzz])


# AMQP of a peer without SASL.
dialogues = st.builds(
    _dialogue,
    st.integers(0, len(PROLOGUE)) | st.just(len(PROLOGUE)),
    st.lists(_with_damage(_frames([*AMQP_NAMES, "close", "sasl_init"])), max_size=8),
)

CAPABLE = symbols("qd.streaming-deliveries")
ROUTED = b"\xa3\x12x-opt-quiver-flags\x52\x01\xa3\x0fx-opt-quiver-to\xb1\0\0\0\4fuzz"
ROUTE = b"\0\x53\x71\xd1" + struct.pack(">II", len(ROUTED) + 4, 4) + ROUTED
# A connection that takes streams and sends them to itself.
STREAMING = [
    encode_frame("begin", **WINDOWS),
    encode_frame(
        "attach", name="in", handle=0, role=True,
        source=composite("source", address="fuzz"), target=composite("target"),
    ),
    encode_frame(
        "attach", name="out", handle=1, role=False, initial_delivery_count=0,
        source=composite("source"),
        target=composite("target", address="fuzz", capabilities=CAPABLE),
    ),
    encode_frame(
        "attach", name="plain", handle=2, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", address="fuzz"),
    ),
    # Without an address: another server's link for streams, or the anonymous terminus.
    encode_frame(
        "attach", name="any", handle=3, role=False, initial_delivery_count=0,
        source=composite("source"), target=composite("target", capabilities=CAPABLE),
    ),
    encode_frame("flow", **WINDOWS, next_incoming_id=0, handle=0, delivery_count=0, link_credit=2),
]  # fmt: skip
# Its first stream, and its answer to the session that the server begins for that.
FIRST = [
    encode_frame(
        "transfer", handle=1, delivery_id=0, delivery_tag=b"0", more=True, payload=message(b"one")
    ),
    encode_frame("begin", channel=1, remote_channel=1, **WINDOWS),
]


def _opened(trunk: bool, steps: int, fuzz: list[bytes]) -> list[bytes]:
    offered = ["qd.streaming-links", "quiver.trunk"][: 1 + trunk]
    opening = encode_frame("open", container_id="fuzz", offered_capabilities=offered)
    start = b"".join([AMQP_HEADER, opening, *STREAMING[:steps]])
    if steps < len(STREAMING):
        return [start, b"".join(fuzz)]
    # A message from another server goes to no third one, so there is no session to answer.
    return [start, FIRST[0], b"".join([*([] if trunk else [FIRST[1]]), *fuzz])]


def _part(handle: int, number: int, flags: tuple[bool, bool, bool], payload: bytes) -> bytes:
    more, aborted, settled = flags
    fields = {"more": more, "aborted": aborted, "settled": settled}
    tag = bytes([48 + number])
    return encode_frame(
        "transfer", handle=handle, delivery_id=number, delivery_tag=tag, payload=payload, **fields
    )


_parts = st.builds(
    _part,
    st.integers(0, 3),
    st.integers(0, 3),
    st.tuples(st.booleans(), st.sampled_from([False, False, True]), st.booleans()),
    st.sampled_from(
        [b"", message(b"x"), b"y" * 9, ROUTE + message(b"z"), ROUTE[:40], message(b"w" * 40_000)]
    ),
)
_ends = st.builds(
    encode_frame, st.just("detach"), handle=st.integers(0, 4), closed=st.booleans()
) | st.builds(encode_frame, st.just("end"), channel=st.integers(0, 1))
_outcomes = st.builds(
    encode_frame, st.just("disposition"), channel=st.integers(0, 1), role=st.booleans(),
    first=st.integers(0, 3), last=st.integers(0, 3), settled=st.booleans(),
    state=states.map(composite),
)  # fmt: skip

# Streams of clients and other servers, in any order of parts, ends and outcomes. Each
# piece waits for the answer to the one before, because transfers need credit.
streaming_dialogues = st.builds(
    _opened,
    st.booleans(),
    st.integers(0, len(STREAMING)) | st.just(len(STREAMING)),
    st.lists(
        st.one_of(_parts, _parts, _ends, _outcomes, _with_damage(_frames(AMQP_NAMES))), max_size=12
    ),
)

_responses = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"\0user\0pencil", b"n,,n=user,r=nonce", b"n,,n=,r=", b"c=biws,r=nonce,p=AAAA", b"n,,,,,"]
    ),
)
_inits = st.builds(
    encode_frame,
    st.just("sasl_init"),
    mechanism=st.sampled_from(["PLAIN", "SCRAM-SHA-256", "ANONYMOUS", "EXTERNAL", "", "NONE"]),
    initial_response=_responses | st.none(),
)
_answers = st.builds(encode_frame, st.just("sasl_response"), response=_responses)
_any_sasl = _with_damage(_frames([*SASL_NAMES, "open", "begin"]))

# SASL frames, then perhaps AMQP all the same.
sasl_dialogues = st.builds(
    lambda frames, rest: b"".join([SASL_HEADER, *frames, rest]),
    st.lists(st.one_of(_inits, _answers, _any_sasl), max_size=6),
    st.just(b"") | dialogues,
)
