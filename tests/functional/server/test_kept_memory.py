"""Messages that have gone through leave nothing with the arrows and the server that had them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import psutil
import pytest
from support.arrow_streams import ENDLESS
from support.arrows import arguments, pyfast
from support.measured import Figure
from support.processes import Running, wait_until
from support.server import Server

COUNT = 500_000
# Memory that the first objects of each kind allocate does not count.
FIRST = 50_000
# A hundred bytes of each message would be 50 MB.
MOST = 8 << 20

KINDS: Mapping[str, tuple[dict[str, object], dict[str, object]]] = {
    "plain": ({}, {}),
    "transactions": ({"transaction_size": 100}, {}),
    "ids and times": ({"set_message_id": 1, "rate": 200_000}, {}),
    "durable": ({"durable": 1, "transaction_size": 1000}, {"store": "messages"}),
}


def own_bytes(process: psutil.Process) -> int:
    """Return the memory of a process, without the pages of files that it has mapped."""
    memory = process.memory_info()
    return int(memory.rss - memory.shared)


def wait_for(records: BinaryIO, count: int) -> None:
    """Wait until so many records more were written."""
    left = count

    def are_written() -> bool:
        nonlocal left
        left -= records.read().count(b"\n")
        return left <= 0

    wait_until(are_written, f"{count} records")


@pytest.mark.measured
@pytest.mark.parametrize("kind", KINDS)
def test_half_a_million_messages(
    start: Callable[..., Server], tmp_path: Path, figure: Figure, kind: str
) -> None:
    both, keys = KINDS[kind]
    keys = {name: tmp_path / str(value) for name, value in keys.items()}
    # A full queue pauses the sender, so that it holds the same number at both times.
    server = start(queue_limit=1 << 20, **keys)
    written = tmp_path / "received"
    with (
        written.open("wb") as output,
        written.open("rb") as records,
        Running(
            pyfast(*arguments("receive", server.port, count=ENDLESS, **both)),
            stdout=output.fileno(),
        ) as receiver,
        Running(pyfast(*arguments("send", server.port, count=ENDLESS, **both))) as sender,
    ):
        ends = {
            "server": server.process,
            "sender": psutil.Process(sender.process.pid),
            "receiver": psutil.Process(receiver.process.pid),
        }
        wait_for(records, FIRST)
        before = {name: own_bytes(end) for name, end in ends.items()}
        wait_for(records, COUNT)
        for name, end in ends.items():
            grown = own_bytes(end) - before[name]
            figure(f"bytes grown by the {name}", grown, at_most=MOST, unit="B")
