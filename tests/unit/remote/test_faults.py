"""Replies of a session when its queue's files fail (B.7, A.10, A.11)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.remote import failure, replies, reply, request

from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.remote.serve.exchange import Exchange
from quiver_fast.remote.serve.store import Store

APPENDER, TAILER, QUEUE = "//h/q#appender", "//h/q#tailer", "//h/q#Queue"
IO_ERROR = "java.io.IOException"


def lose_disk() -> None:
    """Put a pipe in the place of the queue files' descriptors: no fdatasync works on one."""
    pipe, other = os.pipe()
    for link in Path("/proc/self/fd").iterdir():
        try:
            is_queue_file = os.readlink(link).endswith(".cq4")
        except FileNotFoundError:
            continue  # the descriptor of this listing
        if is_queue_file:
            os.dup2(pipe, int(link.name))
    os.close(pipe)
    os.close(other)


def submit(value: str, tid: int) -> bytes:
    return request(f"submit: {value}", csp=APPENDER, tid=tid)


def test_a_failed_sync_fails_every_reply_that_rode_on_it(tmp_path: Path) -> None:
    store = Store(QueueDirectory(tmp_path, durability="group"))
    sessions = [Exchange(store), Exchange(store)]
    index = int(reply(sessions[0].send(submit("safe", 1)))[1]["index"])
    lose_disk()
    said = replies(
        sessions[0].send(
            submit("a", 2)
            + request("lastWrittenIndex: { }", csp=APPENDER, tid=3)
            + submit("b", 4)
            + request("hasNext: { index: 0 }", csp=TAILER, tid=5)
        )
    )
    # A tailer's reply does not wait for a sync; the appender's keep their order.
    assert [tid for tid, _ in said if tid != 5] == [2, 3, 4]
    contents = dict(said)
    assert "exception" in contents[2]
    assert "exception" in contents[4]
    assert contents[5] == {"index": str(index), "reply": ["safe"]}
    for session in sessions:
        assert failure(session.send(submit("c", 6)))[:2] == (6, IO_ERROR)
        assert not session.over


def test_a_failed_sync_without_a_tid_ends_the_connection(tmp_path: Path) -> None:
    """Fire and forget: what was lost must not be lost in silence (B.7)."""
    store = Store(QueueDirectory(tmp_path, durability="group"))
    session = Exchange(store)
    session.send(submit("safe", 1))
    lose_disk()
    session.send(submit("x", 2))
    said = session.send(request("submit: y", csp=APPENDER))
    assert failure(said)[:2] == (0, IO_ERROR)
    assert session.over


def test_a_sync_that_fails_after_a_submit_without_a_tid_ends_the_connection(
    tmp_path: Path,
) -> None:
    """The loss is known only after the request was taken; what came behind is still answered."""
    store = Store(QueueDirectory(tmp_path, durability="group"))
    sessions = [Exchange(store), Exchange(store)]
    assert sessions[0].send(request("submit: safe", csp=APPENDER)) == b""
    assert not sessions[0].over
    lose_disk()
    assert failure(sessions[0].send(request("submit: x", csp=APPENDER)))[:2] == (0, IO_ERROR)
    assert sessions[0].over
    assert failure(sessions[1].send(submit("y", 2)))[:2] == (2, IO_ERROR)
    assert not sessions[1].over


def test_many_losses_without_a_tid_are_said_once(tmp_path: Path) -> None:
    store = Store(QueueDirectory(tmp_path, durability="group"))
    session = Exchange(store)
    session.send(submit("safe", 1))
    lose_disk()
    silent = request("submit: x", csp=APPENDER)
    said = replies(session.send(silent + silent + submit("y", 2) + silent))
    assert [tid for tid, _ in said] == [0, 2]
    assert all("exception" in content for _, content in said)
    assert session.over


def test_a_cycle_file_that_is_no_queue_file_is_passed_by(tmp_path: Path) -> None:
    store = Store(QueueDirectory(tmp_path))
    session = Exchange(store)
    index = int(reply(session.send(submit("new", 1)))[1]["index"])
    (tmp_path / "q" / "20200101F.cq4").write_bytes(b"not a queue file")
    said = reply(session.send(request("hasNext: { index: 0 }", csp=TAILER, tid=2)))[1]
    assert said == {"index": str(index), "reply": ["new"]}
    store.files.close()


@pytest.mark.parametrize("obstacle", ["file", "table"])
def test_a_queue_that_cannot_be_opened_is_an_io_error(tmp_path: Path, obstacle: str) -> None:
    store = Store(QueueDirectory(tmp_path))
    if obstacle == "file":
        (tmp_path / "q").write_text("in the way of the queue's directory")
    else:
        (tmp_path / "q" / "metadata.cq4t").mkdir(parents=True)
    session = Exchange(store)
    for event, csp in (("submit: a", APPENDER), ("createTailer: { }", QUEUE)):
        assert failure(session.send(request(event, csp=csp, tid=3)))[:2] == (3, IO_ERROR)
    assert not session.over
    other = session.send(request("submit: a", csp="//h/other#appender", tid=4))
    assert "index" in reply(other)[1]
    store.files.close()
