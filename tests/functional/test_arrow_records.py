"""Golden tests: the records of each revision of the contract, to the byte."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from support.arrows import run_pair

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


# -- v1, positional


def positional(mode: str, operation: str, port: int, count: int, directory: Path) -> list[str]:
    return [str(directory), mode, operation, "127.0.0.1", str(port), "q", str(count), "10", "100"]


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
