"""Effects of a queue server's options on its files and connections."""

from __future__ import annotations

import socket
import struct
import time
from pathlib import Path

import pytest
from support.remote import receive, reply, request, serving

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.bulk import append_records
from quiver_fast.queuefile.layout import roll_cycle
from quiver_fast.queuefile.tailer import Tailer
from quiver_fast.remote.client import Queue

# CLOCK_REALTIME_COARSE is up to a tick behind.
COARSE_MS = 20


def submit(port: int, value: str) -> int:
    with Queue(f"csp://127.0.0.1:{port}/q") as queue, queue.appender() as appender:
        return appender.submit(value)


def cycles(store: Path) -> list[int]:
    return Tailer(store / "q").cycles()


def wait_for_the_cycle_after(index: int) -> None:
    """Wait until the queue's coarse clock, too, is in a later cycle than an entry's."""
    roll = roll_cycle("TEST_SECONDLY")
    while roll.cycle_at(time.time_ns() // 1_000_000 - COARSE_MS) <= index >> roll.shift:
        time.sleep(0.02)


def test_retention_deletes_whole_old_files_but_never_the_newest(tmp_path: Path) -> None:
    with serving(tmp_path, "roll=TEST_SECONDLY", "retain=1") as port:
        old = submit(port, "old")
        assert cycles(tmp_path) == [old >> 32]
        wait_for_the_cycle_after(old)
        assert cycles(tmp_path) == [old >> 32]
        new = submit(port, "new")
        assert cycles(tmp_path) == [new >> 32]
        # A tailer at an index that is gone gets the first one that there is.
        with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
            sock.sendall(request(f"hasNext: {{ index: {old} }}", csp="//h/q#tailer", tid=1))
            found = reply(receive(sock, 1))[1]
        assert found == {"index": str(new), "reply": ["new"]}


def test_retention_keeps_what_it_is_told_to_keep_and_works_at_the_start(tmp_path: Path) -> None:
    with Appender(tmp_path / "q", roll="TEST_SECONDLY") as appender:
        first = appender.append_text("1")
        wait_for_the_cycle_after(first)
        second = appender.append_text("2")
        wait_for_the_cycle_after(second)
        third = appender.append_text("3")
    kept = [index >> 32 for index in (second, third)]
    with serving(tmp_path, f"retain={(third >> 32) - (second >> 32) + 1}"):
        assert cycles(tmp_path) == kept
    with serving(tmp_path, "retain=1"):
        assert cycles(tmp_path) == kept[1:]


@pytest.mark.parametrize("verify", [0, 1])
def test_verify_walks_the_older_files_wholly(tmp_path: Path, verify: int) -> None:
    """Damage before the last index slot of a file that is not the newest."""
    with Appender(tmp_path / "q", roll="TEST4_DAILY") as appender:
        first = append_records(appender, b"x" * 4097, 1) - 1 & ~0xFFFFFFFF
    path = min((tmp_path / "q").glob("*.cq4"))
    data = bytearray(path.read_bytes())
    # Two runs of entries of one byte: header, the byte, and pad. The third entry is lost.
    entry = struct.pack("<I", 1) + b"x\0\0\0"
    at = data.index(3 * entry) + 2 * len(entry)
    data[at : at + 4] = bytes(4)
    path.write_bytes(data)
    dropped = f"{path}: damaged at {at}; 4094 entries from there on are dropped\n"
    with serving(tmp_path, f"verify={verify}", says=dropped if verify else ""):
        pass
    kept = (path.read_bytes()[at : at + 4], path.read_bytes()[at + 8 : at + 16])
    assert kept == ((struct.pack("<I", 0xC0000000), bytes(8)) if verify else (bytes(4), entry))
    tailer = Tailer(tmp_path / "q")
    assert [tailer.read() for _ in range(2)] == [(first, b"x"), (first + 1, b"x")]


def test_connections_beyond_the_limit_are_closed(tmp_path: Path) -> None:
    with serving(tmp_path, "max-connections=2") as port:
        address = ("127.0.0.1", port)
        # The harness looked whether the server listens: that connection may go first.
        deadline = time.monotonic() + 10
        while True:
            sockets = [socket.create_connection(address, timeout=10) for _ in range(2)]
            if all(serves(sock) for sock in sockets):
                break
            assert time.monotonic() < deadline
            for sock in sockets:
                sock.close()
        with socket.create_connection(address, timeout=10) as third:
            assert not serves(third)
        sockets.pop().close()
        while True:
            with socket.create_connection(address, timeout=10) as again:
                if serves(again):
                    break
            assert time.monotonic() < deadline
        assert serves(sockets[0])
        sockets[0].close()


def serves(sock: socket.socket) -> bool:
    """Say whether a request is answered; otherwise the connection has ended."""
    try:
        sock.sendall(request("lastWrittenIndex: { }", csp="//h/q", tid=1))
        return sock.recv(1000) != b""
    except ConnectionError:
        return False
