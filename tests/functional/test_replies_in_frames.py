"""Replies that come in several frames, by a peer that cuts them anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.arrows import arguments
from support.control import controlled
from support.frame_peer import FramePeer
from support.judgement import assert_clean

from quiver_fast.conform.counterpart import ACCEPTED, Talk
from quiver_fast.conform.wire.codec import Value, encode
from quiver_fast.conform.wire.frames import composite, encode_frame, message

REQUESTS = 3
# Annotations that fill the first frame.
ANNOTATIONS = encode(
    Value("described", (
        Value("ulong", 0x72),
        Value("map", ((Value("symbol", "x-filling"), Value("binary", bytes(2000))),)),
    ))
)  # fmt: skip


def reply_to(number: int) -> bytes:
    fields = (*[Value("null", None)] * 5, Value("string", f"run-{number}"))
    properties = Value("described", (Value("ulong", 0x73), Value("list", fields)))
    return ANNOTATIONS + encode(properties) + message(b"x" * 10)


@pytest.mark.parametrize("cut", [0, 1, 2015, 2040])
def test_the_correlation_id_may_come_in_any_frame(tmp_path: Path, cut: int) -> None:
    def script(talk: Talk) -> None:
        talk.answer_session()
        talk.answer_attach(handle=0, target=composite("target", address="queue0"))
        talk.answer_attach(handle=1, source=composite("source", address="replies"))
        talk.give_credit(REQUESTS)
        for _ in range(REQUESTS):
            talk.expect("transfer")
        talk.send("disposition", role=True, first=0, last=REQUESTS - 1, settled=True,
                  state=ACCEPTED)  # fmt: skip
        for number in range(REQUESTS):
            letter = reply_to(number + 1)
            named = {"handle": 1, "delivery_id": number, "delivery_tag": b"%d" % number}
            talk.send("transfer", **named, message_format=0, more=True, payload=letter[:cut])
            talk.send("transfer", **named, payload=letter[cut:])
        talk.read_until("close")
        talk.send_bytes(encode_frame("close"))

    with FramePeer(script) as peer:
        words = arguments("send", peer.port, path="queue0", count=REQUESTS, rate=1000,
                          record_format="v2", request_reply=1, reply_timeout=30_000_000,
                          run_id="run")  # fmt: skip
        with controlled(tmp_path, *words) as arrow:
            end, report = arrow.end()
    assert_clean(end)
    found = report["request_reply"]
    assert (found["in_time"], found["foreign"]) == (REQUESTS, 0)
