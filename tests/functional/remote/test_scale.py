"""Thousands of connections and waiting tailers, and queues that roll under them (B.6, B.9)."""

from __future__ import annotations

import resource
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.processes import Running, free_port, wait_until
from support.remote import receive, replies, reply, request, server_command, serving

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.layout import roll_cycle
from quiver_fast.remote.client import Queue

CONNECTIONS = 2000
QUEUE, APPENDER, TAILER = "//h/q#Queue", "//h/q#appender", "//h/q#tailer"


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Let this process and its children have a descriptor for every connection and tailer."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 3 * CONNECTIONS
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"the system allows {hard} descriptors, the test needs {needed}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("descriptors")
@pytest.mark.timeout(120)
def test_thousands_of_waiting_connections_each_get_every_entry(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        readers = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(CONNECTIONS)]
        for reader in readers:
            reader.sendall(
                request("createTailer: { }", csp=QUEUE, tid=1)
                + request("hasNext: { wait: 60000 }", cid=1, tid=2)
                + request("hasNext: { wait: 60000 }", cid=1, tid=3)
            )
        for reader in readers:
            receive(reader, 1, timeout=30)
        with socket.create_connection(("127.0.0.1", port), 30) as writer:
            for value in ("first", "second"):
                writer.sendall(request(f"submit: {value}", csp=APPENDER, tid=1))
                receive(writer, 1)
            for reader in readers:
                said = replies(receive(reader, 2, timeout=30))
                assert [(tid, content["reply"]) for tid, content in said] == [
                    (2, ["first"]), (3, ["second"]),
                ]  # fmt: skip
            for reader in readers:
                reader.close()
            # The connections are gone, and with them their tailers: the next submit is as usual.
            writer.sendall(request("submit: third", csp=APPENDER, tid=9))
            assert reply(receive(writer, 1))[0] == 9


def test_thousands_of_tailers_of_one_connection(tmp_path: Path) -> None:
    with serving(tmp_path) as port, socket.create_connection(("127.0.0.1", port), 30) as sock:
        count = 2000
        sock.sendall(request("createTailer: { }", csp=QUEUE, tid=1) * count)
        receive(sock, count)
        sock.sendall(
            b"".join(
                request("hasNext: { wait: 60000 }", cid=cid, tid=cid) for cid in range(1, count + 1)
            )
        )
        sock.sendall(request("submit: news", csp=APPENDER, tid=-1))
        said = dict(replies(receive(sock, count + 1)))
        assert "index" in said.pop(-1)
        assert set(said) == set(range(1, count + 1))
        assert all(content["reply"] == ["news"] for content in said.values())


def test_tailers_share_descriptors_and_connections_give_theirs_back(tmp_path: Path) -> None:
    port = free_port()
    with Running(server_command(tmp_path, port)) as server:
        server.wait_until_listening(port)
        descriptors = Path(f"/proc/{server.process.pid}/fd")
        with Queue(f"csp://127.0.0.1:{port}/q") as queue, queue.appender() as appender:
            appender.submit("a")
            before = len(list(descriptors.iterdir()))
            queues = [Queue(f"csp://127.0.0.1:{port}/q") for _ in range(20)]
            for each in queues:
                for _ in range(20):
                    assert [entry.value for entry in each.tailer().read()] == ["a"]
            # A socket each, and the queue's file once for all 400 tailers.
            assert len(list(descriptors.iterdir())) == before + 21
            for each in queues:
                each.close()
            wait_until(lambda: len(list(descriptors.iterdir())) == before, "all are closed")


def test_hundreds_of_tailers_in_many_files_have_their_own_places(tmp_path: Path) -> None:
    """More files are read at once than the server keeps open, by tailers that take turns."""
    roll, folder = roll_cycle("TEST_SECONDLY"), tmp_path / "q"
    with Appender(folder, roll=roll.name) as appender:
        for number in range(5):
            last = appender.append_text(str(number))
    # The name is the only record of a file's cycle (A.5): seven more files, of the days before.
    cycles = [(last >> 32) - 86_400 * days for days in range(8)]
    for cycle in cycles[1:]:
        shutil.copy(folder / roll.file_name(cycles[0]), folder / roll.file_name(cycle))
    entries = [(cycle << 32 | n, str(n)) for cycle in sorted(cycles) for n in range(5)]
    port = free_port()
    with Running(server_command(tmp_path, port)) as server:
        server.wait_until_listening(port)
        descriptors = Path(f"/proc/{server.process.pid}/fd")
        with Queue(f"csp://127.0.0.1:{port}/q") as queue:
            queue.last_index()
            before = len(list(descriptors.iterdir()))
            tailers = [queue.tailer(index) for index, _ in entries for _ in range(6)]
            for turn in range(3):
                for number, tailer in enumerate(tailers):
                    found = [(entry.index, entry.value) for entry in tailer.read(batch=1)]
                    assert found == entries[number // 6 + turn :][:1]
            assert len(list(descriptors.iterdir())) == before + 4
            # An old file is let go with the last of its readers.
            for tailer in tailers[1:]:
                tailer.close()
            assert len(list(descriptors.iterdir())) == before + 1


def test_submits_of_many_clients_have_one_order(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        found: list[list[int]] = [[] for _ in range(4)]

        def submit(own: list[int], name: str) -> None:
            with Queue(f"csp://127.0.0.1:{port}/q") as queue, queue.appender() as appender:
                own += appender.submit_all((f"{name}-{n}" for n in range(2000)), window=50)

        threads = [threading.Thread(target=submit, args=(found[n], str(n))) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        written = {
            index: f"{name}-{n}" for name, own in enumerate(found) for n, index in enumerate(own)
        }
        assert sorted(written) == list(range(min(written), min(written) + 8000))
        assert all(own == sorted(own) for own in found)
        with Queue(f"csp://127.0.0.1:{port}/q") as queue, queue.tailer() as tailer:
            entries = {entry.index: entry.value for entry in tailer.read(batch=60_000)}
        assert entries == written


def test_waiting_tailers_go_on_across_rolls(tmp_path: Path) -> None:
    """Cycles of a second: every entry is pushed to those who wait, old cycles read again."""
    with serving(tmp_path, "roll=TEST_SECONDLY") as port:
        url = f"csp://127.0.0.1:{port}/q"
        with Queue(url) as queue, Queue(url) as first, Queue(url) as second:
            appender = queue.appender()
            tailers = [first.tailer(), second.tailer()]
            written = []
            cycles: set[int] = set()
            while len(cycles) < 3:
                written.append(appender.submit(str(len(written))))
                for tailer in tailers:
                    (entry,) = tailer.read(wait=30.0)
                    assert (entry.index, entry.value) == (written[-1], str(len(written) - 1))
                cycles.add(written[-1] >> 32)
                time.sleep(0.05)
            again = queue.tailer()
            found = []
            while entries := again.read():
                # A batch never crosses a cycle (B.6).
                assert len({entry.index >> 32 for entry in entries}) == 1
                found += [entry.index for entry in entries]
            assert found == written


def test_a_wait_over_a_roll_gets_the_first_entry_of_the_new_cycle(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "roll=TEST_SECONDLY") as port,
        socket.create_connection(("127.0.0.1", port), 10) as sock,
    ):
        sock.sendall(request("submit: old", csp=APPENDER, tid=1))
        old = int(reply(receive(sock, 1))[1]["index"])
        waiting = f"hasNext: {{ index: {old + 1}, wait: 60000 }}"
        sock.sendall(request(waiting, csp=TAILER, tid=2))
        time.sleep(1.1)
        sock.sendall(request("submit: new", csp=APPENDER, tid=3))
        said = dict(replies(receive(sock, 2)))
        new = int(said[3]["index"])
        assert new >> 32 > old >> 32
        assert said[2] == {"index": str(new), "reply": ["new"]}
