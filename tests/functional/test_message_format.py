"""The table of messages in docs/arrows.md: what a sender writes, what a receiver makes of ids."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from proton import Message, ulong
from support.arrows import arguments, arguments_v2, run_pyfast
from support.judgement import assert_clean, assert_error
from support.processes import Finished
from support.scripted_peer import ScriptedPeer

from quiver_fast.arrow.amqp.template import MixedTemplate
from quiver_fast.arrow.run.sizes import Sizes
from quiver_fast.body_sizes import largest_body, parse_body_size
from quiver_fast.records.formats import IDS_OF_AN_END
from quiver_fast.records.parser import read_transfers

# docs/arrows.md: how an id of each type stands in a record.
IDS: list[tuple[Any, str]] = [
    ("plain", "plain"),
    ("a,b", "a%2Cb"),
    ("100%", "100%25"),
    ("two\r\nlines", "two%0D%0Alines"),
    ("Sö", "Sö"),
    ("", ""),
    (ulong(0), "0"),
    (ulong(7), "7"),
    (ulong(2**64 - 1), "18446744073709551615"),
    (uuid.UUID(int=0xABC), "00000000-0000-0000-0000-000000000abc"),
    (b"\x00\xfe,\n", "00fe2c0a"),
]


def with_ids(*ids: Any) -> Any:
    def encode(number: int) -> bytes:
        message: Any = Message(body=b"x", inferred=True, id=ids[number - 1])
        message.properties = {"SendTime": time.time_ns() // 1_000_000}
        encoded: bytes = message.encode()
        return encoded

    return encode


def receive(contract: Any, *ids: Any) -> Finished:
    with ScriptedPeer(to_send=len(ids), encode=with_ids(*ids)) as peer:
        return run_pyfast(*contract("receive", peer.port, count=len(ids)))


def test_ids_of_every_type() -> None:
    end = receive(arguments_v2, *(identifier for identifier, _ in IDS))
    assert_clean(end)
    assert [line.split(",")[0] for line in end.lines] == [text for _, text in IDS]
    assert all(len(line.split(",")) == 3 for line in end.lines)


def test_what_is_escaped_is_read_as_what_it_was(tmp_path: Any) -> None:
    """The same id from an implementation that escapes nothing has the same number."""
    times = "1472344673324,1472344673345"
    ours, other = tmp_path / "ours.csv", tmp_path / "other.csv"
    ours.write_text(f"50%25,{times}\n")
    other.write_text(f"50%,{times}\n")
    read = [read_transfers(file).ids for file in (ours, other)]
    assert list(read[0]) == list(read[1])


@pytest.mark.parametrize("contract", [arguments_v2, arguments])
def test_a_message_without_an_id(contract: Any) -> None:
    """v3 does without; the records of v1 and v2 cannot."""
    end = receive(contract, None)
    if contract is arguments:
        assert_clean(end)
        assert len(end.lines) == 1
    else:
        assert_error(end, "message 1 has no message-id", "record-format=v3")


def symbol_first(number: int) -> bytes:
    """Encode a first message whose id is a symbol, and others of the run `r1`."""
    message: Any = Message(body=b"x", inferred=True, id="ab" if number == 1 else f"r1-{number}")
    message.properties = {"SendTime": time.time_ns() // 1_000_000}
    # The string's constructor (0xa1, then its size) becomes that of a symbol.
    return bytes(message.encode().replace(b"\xa1\x02ab", b"\xa3\x02ab"))


def test_an_id_of_a_type_that_ids_do_not_have() -> None:
    with ScriptedPeer(to_send=1, encode=symbol_first) as peer:
        end = run_pyfast(*arguments_v2("receive", peer.port, count=1))
    assert_error(end, "message 1 has a message-id of AMQP type 0xa3")


def test_such_an_id_of_another_run_is_recorded_as_none() -> None:
    start = time.time_ns() // 1_000_000
    with ScriptedPeer(to_send=2, encode=symbol_first) as peer:
        keys = {"count": 1, "run_id": "r1", "run_start": start}
        end = run_pyfast(*arguments_v2("receive", peer.port, **keys))
    assert_clean(end)
    assert [line.split(",")[0] for line in end.lines] == ["", "2"]


@pytest.mark.parametrize("durable", [0, 1])
@pytest.mark.parametrize("set_id", [0, 1])
def test_what_a_sender_writes(durable: int, set_id: int) -> None:
    with ScriptedPeer() as peer:
        keys = {"durable": durable, "set_message_id": set_id, "body_size": 5, "run_id": "r1"}
        assert_clean(run_pyfast(*arguments("send", peer.port, count=2, **keys)))
        messages = peer.messages
    assert [message.durable for message in messages] == [bool(durable)] * 2
    assert [message.id for message in messages] == (["r1-1", "r1-2"] if set_id else [None, None])
    for message in messages:
        assert list(message.properties) == ["SendTime"]
        assert isinstance(message.properties["SendTime"], int)
        assert bytes(message.body) == b"xxxxx"


BODIES = {"small": b"\x00\xffy" * 30, "of many frames": bytes(range(256)) * 1200 + b"end"}


@pytest.mark.parametrize("body", BODIES.values(), ids=list(BODIES))
@pytest.mark.parametrize("words", [{}, {"presettled": 1}])
def test_a_file_is_the_body_of_each_message(tmp_path: Any, body: bytes, words: Any) -> None:
    file = tmp_path / "body"
    file.write_bytes(body)
    keys = {"count": 12, "body_size": None, "body_file": file, "set_message_id": 1, **words}
    with ScriptedPeer() as peer:
        assert_clean(run_pyfast(*arguments("send", peer.port, **keys)))
    assert [message.id for message in peer.messages] == [str(number) for number in range(1, 13)]
    assert {bytes(message.body) for message in peer.messages} == {body}


def test_a_file_that_is_no_body(tmp_path: Any) -> None:
    empty = tmp_path / "empty"
    empty.touch()
    for keys, says in (
        ({"body_file": empty}, "a body has 1 to 4294967295 bytes"),
        ({"body_file": tmp_path / "none"}, "No such file or directory"),
        ({"body_file": __file__, "body_size": 7}, "body-file does not go with body-size"),
        (
            {"body_file": __file__, "streaming": 1},
            "streaming does not go with body-file: it checks bodies of x alone",
        ),
    ):
        end = run_pyfast(*arguments("send", 1, **{"body_size": None, **keys}))
        assert_error(end, says, code=2)


@pytest.mark.parametrize("words", [{}, {"presettled": 1}, {"connections": 3}, {"streaming": 1}])
def test_bodies_of_several_sizes(words: Any) -> None:
    """Each end has the sequence of its number, also where messages take many frames."""
    mix = "10:50%,70k..90k:50%"
    keys = {"count": 12, "body_size": mix, "record_format": "v2", **words}
    with ScriptedPeer() as peer:
        assert_clean(run_pyfast(*arguments("send", peer.port, **keys)))
    ends = words.get("connections", 1)
    found: list[list[int]] = [[] for _ in range(ends)]
    for message in peer.messages:
        found[int(message.id) // IDS_OF_AN_END].append(len(message.body))
    parts = parse_body_size(mix)
    assert isinstance(parts, tuple)
    for number, sizes in enumerate(found):
        template = MixedTemplate(largest_body(parts), sizes=Sizes(parts, number))
        lengths = [len(template.encode(1)) for _ in range(12 // ends)]
        # The bytes around a body have one size.
        assert len({length - size for length, size in zip(lengths, sizes, strict=True)}) == 1
        assert sum(size == 10 for size in sizes) == 6 // ends
