"""Golden tests: the records of each revision of the contract, to the byte."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from support.arrows import arguments_v2, pyfast, run_pair, run_pyfast
from support.judgement import assert_clean
from support.processes import Running, free_port
from support.scripted_peer import ScriptedPeer

TIME = r"(\d{13})"


def masked(lines: list[str]) -> list[str]:
    """Replace every plausible time in milliseconds by T."""
    now = time.time() * 1000

    def mask(match: re.Match[str]) -> str:
        return "T" if abs(now - int(match[1])) < 60_000 else match[1]

    return [re.sub(rf"(?<=[,])?(?<!\d){TIME}(?!\d)", mask, line) for line in lines]


# -- v3, today's upstream


@pytest.mark.parametrize("set_id", [0, 1])
def test_v3_message_id_does_not_change_the_records(set_id: int) -> None:
    pair = run_pair("pyfast", "pyfast", count=5, set_message_id=set_id)
    pair.check(5)
    assert masked(pair.sender.lines) == ["T,0"] * 5
    assert masked(pair.receiver.lines) == ["T,T"] * 5


# -- v2


@pytest.mark.parametrize("settlement", [0, 1])
def test_v2_pair(settlement: int) -> None:
    pair = run_pair("pyfast", "pyfast", contract=arguments_v2, count=600, settlement=settlement)
    pair.check(600)
    sent = [line for line in pair.sender.lines if line[0] not in "Ss"]
    ids = [line.rsplit(",", 1)[0] for line in sent]
    assert len(set(ids)) == 600
    assert masked(sent) == [f"{identifier},T" for identifier in ids]
    assert masked(pair.receiver.lines) == [f"{identifier},T,T" for identifier in ids]


# -- v1, positional


def positional(mode: str, operation: str, port: int, count: int, directory: Path) -> list[str]:
    return [str(directory), mode, operation, "127.0.0.1", str(port), "q", str(count), "10", "100"]


def test_v1_sender(tmp_path: Path) -> None:
    with ScriptedPeer() as peer:
        end = run_pyfast(*positional("client", "send", peer.port, 5, tmp_path))
        assert [message.body for message in peer.messages] == [b"x" * 10] * 5
        sent_ids = [str(message.id) for message in peer.messages]
        assert [target for _, target in peer.links] == ["q"]
    assert_clean(end)
    assert masked(end.lines) == [f"{identifier},T" for identifier in sent_ids]
    assert len(set(sent_ids)) == 5


@pytest.mark.parametrize("server", ["send", "receive"])
def test_v1_pair(server: str, tmp_path: Path) -> None:
    client = "receive" if server == "send" else "send"
    port = free_port()
    with Running(pyfast(*positional("server", server, port, 50, tmp_path))) as listening:
        listening.wait_until_listening(port)
        ends = {client: run_pyfast(*positional("client", client, port, 50, tmp_path))}
        ends[server] = listening.wait()
    for end in ends.values():
        assert_clean(end)
    ids = [line.split(",")[0] for line in ends["send"].lines]
    assert masked(ends["receive"].lines) == [f"{identifier},T,T" for identifier in ids]


# -- ours


@pytest.mark.parametrize(
    ("record_format", "sender", "receiver"),
    [
        ("v1", r"[^,]+,\d{13}", r"[^,]+,\d{13},\d{13}"),
        ("v2", r"[^,]+,\d{13}", r"[^,]+,\d{13},\d{13}"),
        ("v3", r"\d{13},0", r"\d{13},\d{13}"),
    ],
)
def test_record_format_overrides(record_format: str, sender: str, receiver: str) -> None:
    pair = run_pair("pyfast", "pyfast", count=10, record_format=record_format, set_message_id=1)
    pair.check(10)
    assert all(re.fullmatch(sender, line) for line in pair.sender.lines)
    assert all(re.fullmatch(receiver, line) for line in pair.receiver.lines)


@pytest.mark.parametrize(("unit", "digits"), [("ms", 13), ("us", 16), ("ns", 19)])
def test_time_unit_tells_itself_by_its_digits(unit: str, digits: int) -> None:
    pair = run_pair("pyfast", "pyfast", count=10, time_unit=unit)
    pair.check(10)
    for line in pair.receiver.lines:
        sent, received = line.split(",")
        assert (len(sent), len(received)) == (digits, digits)
        assert 0 <= int(received) - int(sent) < 10 ** (digits - 9)
