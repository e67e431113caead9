"""Queues on disk behind sessions: restarts, rolls, durability, and queues in others' hands."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from support.remote import failure, replies, reply, request

from quiver_fast.errors import OutputError, UsageError
from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.remote.serve.exchange import Exchange
from quiver_fast.remote.serve.store import Store

APPENDER, TAILER = "//h/q#appender", "//h/q#tailer"


def submit(session: Exchange, value: str) -> int:
    return int(reply(session.send(request(f"submit: {value}", csp=APPENDER, tid=1)))[1]["index"])


def read(session: Exchange, arguments: str) -> dict[str, object]:
    return reply(session.send(request(f"hasNext: {{ {arguments} }}", csp=TAILER, tid=2)))[1]


def test_a_queue_goes_on_after_a_restart(tmp_path: Path) -> None:
    store = Store(QueueDirectory(tmp_path))
    first = submit(Exchange(store), "one")
    store.files.close()
    store = Store(QueueDirectory(tmp_path))
    session = Exchange(store)
    assert submit(session, "two") == first + 1
    assert read(session, "index: 0, batch: 9") == {"index": str(first), "reply": ["one", "two"]}
    store.files.close()


def test_a_reader_that_makes_no_queue(tmp_path: Path) -> None:
    store = Store(QueueDirectory(tmp_path))
    session = Exchange(store)
    asked = request("createTailer: { other: 1, create: false }", csp="//h/a/b#Queue", tid=1)
    expected = (1, "java.io.FileNotFoundException", "there is no queue a/b")
    assert failure(session.send(asked)) == expected
    assert list(tmp_path.iterdir()) == []
    assert "reply" in reply(session.send(request("createTailer:", csp="//h/a/b", tid=1)))[1]
    assert "reply" in reply(session.send(asked))[1]
    store.files.close()
    # One that the server has yet to open is there too.
    store = Store(QueueDirectory(tmp_path))
    assert "reply" in reply(Exchange(store).send(asked))[1]
    store.files.close()


def test_a_batch_never_crosses_a_cycle_and_the_next_begins_it(tmp_path: Path) -> None:
    store = Store(QueueDirectory(tmp_path, roll="TEST_SECONDLY"))
    session = Exchange(store)
    first = submit(session, "one")
    time.sleep(1.1)
    second = submit(session, "two")
    assert second >> 32 > first >> 32
    assert read(session, "index: 0, batch: 9") == {"index": str(first), "reply": ["one"]}
    found = read(session, f"index: {first + 1}, batch: 9")
    assert found == {"index": str(second), "reply": ["two"]}
    # An index of a cycle that was never written is that of the next entry.
    assert read(session, f"index: {(second >> 32) - 1 << 32 | 7}")["index"] == str(second)
    store.files.close()


@pytest.mark.parametrize("durability", ["group", "interval:5"])
def test_what_is_acknowledged_and_what_is_behind_it_keep_their_order(
    tmp_path: Path, durability: str
) -> None:
    store = Store(QueueDirectory(tmp_path, durability=durability))
    session = Exchange(store)
    sent = b"".join(
        request(event, csp=APPENDER, tid=tid)
        for tid, event in enumerate(
            ["submit: a", "lastWrittenIndex: { }", "submit: {", "submit: b", "lastWrittenIndex:"]
        )
    )
    said = replies(session.send(sent))
    assert [tid for tid, _ in said] == [0, 1, 2, 3, 4]
    first = int(said[0][1]["index"])
    assert (said[1][1]["reply"], said[4][1]["reply"]) == (str(first), str(first + 1))
    assert "exception" in said[2][1]
    store.files.close()


def test_a_queue_in_other_hands_is_an_io_error_until_it_is_free(tmp_path: Path) -> None:
    other = Appender(tmp_path / "q")
    store = Store(QueueDirectory(tmp_path))
    session = Exchange(store)
    said = session.send(request("submit: a", csp=APPENDER, tid=1))
    assert failure(said)[:2] == (1, "java.io.IOException")
    other.close()
    assert submit(session, "a") > 0
    store.files.close()


def test_text_that_is_no_value_is_shown_as_bytes(tmp_path: Path) -> None:
    other = Appender(tmp_path / "q")
    for text in ("fine", "}\nreply:\n  - forged", "two: three"):
        other.append_text(text)
    other.append_raw(b"x")
    other.close()
    store = Store(QueueDirectory(tmp_path))
    assert read(Exchange(store), "index: 0, batch: 9")["reply"] == [
        "fine", "fQpyZXBseToKICAtIGZvcmdlZA==", "dHdvOiB0aHJlZQ==", "eA==",
    ]  # fmt: skip
    store.files.close()


def test_queues_have_names_with_slashes_and_are_apart(tmp_path: Path) -> None:
    store = Store(QueueDirectory(tmp_path))
    session = Exchange(store)
    for name in ("a", "a/b"):
        session.send(request(f"submit: in {name}", csp=f"//h/{name}#appender", tid=1))
    for name in ("a", "a/b"):
        said = session.send(request("hasNext: { index: 0, batch: 9 }", csp=f"{name}#tailer", tid=2))
        assert reply(said)[1]["reply"] == [f"in {name}"]
    store.files.close()


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError):
        QueueDirectory(tmp_path / "file")
    with pytest.raises(UsageError):
        QueueDirectory(tmp_path, durability="often")
    with pytest.raises(UsageError):
        QueueDirectory(tmp_path, roll="NEVER")
