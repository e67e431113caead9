"""Limits, defaults and spellings at their edges: B.2, B.3, B.5, B.6, B.9, B.10."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.remote import META, MORE, document, failure, meta, replies, reply, request

from quiver_fast.errors import PeerError
from quiver_fast.loop import balance
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.remote.serve.exchange import Exchange
from quiver_fast.remote.serve.store import Store
from quiver_fast.remote.wire.replies import cid_of

QUEUE, APPENDER, TAILER = "//h/q#Queue", "//h/q#appender", "//h/q#tailer"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(QueueDirectory(tmp_path))
    yield store
    store.files.close()


@pytest.fixture
def session(store: Store) -> Exchange:
    return Exchange(store)


def test_a_cid_is_that_of_its_connection(store: Store) -> None:
    mine, other = Exchange(store), Exchange(store)
    mine.send(request("createAppender: { }", csp=QUEUE, tid=1))
    said = other.send(request("submit: a", cid=1, tid=2))
    assert failure(said)[:2] == (2, "java.lang.IllegalStateException")
    assert "index" in reply(mine.send(request("submit: a", cid=1, tid=3)))[1]


def test_one_tid_may_be_used_again_at_once(session: Exchange) -> None:
    said = replies(session.send(request("submit: a", csp=APPENDER, tid=7) * 3))
    assert [tid for tid, _ in said] == [7, 7, 7]


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        ("/".join(["a"] * 8), True), ("a" * 128, True), ("A.b_c-9", True), ("...", True),
        # 8 segments and 7 slashes: 1024 bytes, and one more.
        ("/".join(["a" * 127] * 7 + ["a" * 128]), True),
        ("/".join(["a" * 127] * 6 + ["a" * 128] * 2), False),
    ],
)  # fmt: skip
def test_the_longest_names(session: Exchange, name: str, valid: bool) -> None:
    said = session.send(request("createTailer: { }", csp=f"//h/{name}#Queue", tid=1))
    assert ("reply" in reply(said)[1]) is valid


@pytest.mark.parametrize("view", ["Queue", "queue", "QUEUE", "qUeUe"])
def test_views_have_no_case(session: Exchange, view: str) -> None:
    for csp in (f"//h/q#{view}", f"//h/q?view={view}"):
        assert "reply" in reply(session.send(request("createTailer:", csp=csp, tid=1)))[1]


@pytest.mark.parametrize(
    "text",
    [
        '"submit": a', "# first\nsubmit: a", "---\nsubmit: a", "\n\nsubmit: a\n\n",
        "submit: a # comment", "submit: a // comment", "submit:   a  \r\n", "submit: a\n# end\n",
    ],
)  # fmt: skip
def test_spellings_of_one_event(session: Exchange, text: str) -> None:
    index = int(reply(session.send(request(text, csp=APPENDER, tid=1)))[1]["index"])
    said = session.send(request(f"hasNext: {{ index: {index} }}", csp=TAILER, tid=2))
    assert reply(said)[1]["reply"] == ["a"]


@pytest.mark.parametrize(
    "text", ["submit: a\n...", "submit: a\n---", "submit: a\nb", "...submit: a"]
)
def test_after_an_argument_come_only_blanks_and_comments(session: Exchange, text: str) -> None:
    said = session.send(request(text, csp=APPENDER, tid=1))
    assert failure(said)[1] == "java.lang.IllegalArgumentException"


@pytest.mark.parametrize(
    ("arguments", "seconds"),
    [("", 1.0), ("wait: 1", 0.001), ("wait: 60000", 60.0), ("wait: 9223372036854775807", 60.0)],
)
def test_how_long_a_wait_is(session: Exchange, arguments: str, seconds: float) -> None:
    """A second where nothing is said, a minute at most."""
    session.send(request("createTailer: { }", csp=QUEUE, tid=1))
    assert session.send(request(f"hasNext: {{ {arguments} }}", cid=1, tid=2), 10.0) == b""
    assert session.turn(10.0 + seconds - 0.0005) == b""
    assert reply(session.turn(10.0 + seconds))[1]["reply"] == []


def test_a_batch_has_at_most_65536_entries(session: Exchange) -> None:
    route = meta(csp=APPENDER, tid=1)
    said = session.send(route + document("submit: a", MORE) * 65_540)
    index = int(said.split(b"index: ", 1)[1].split()[0])
    asked = f"hasNext: {{ index: {index}, batch: 9223372036854775807 }}"
    content = reply(session.send(request(asked, csp=TAILER, tid=2)))[1]
    assert len(content["reply"]) == 65_536


def test_requests_of_one_turn_are_answered_together(session: Exchange) -> None:
    said = session.send(b"".join(request("submit: a", csp=APPENDER, tid=n) for n in range(500)))
    assert [tid for tid, _ in replies(said)] == list(range(500))


def test_submits_of_all_connections_have_one_order(store: Store) -> None:
    sessions = [Exchange(store) for _ in range(3)]
    indexes = []
    for turn in range(30):
        said = sessions[turn % 3].send(request("submit: a", csp=APPENDER, tid=turn) * (turn % 4))
        indexes += [int(content["index"]) for _, content in replies(said)]
    assert indexes == list(range(indexes[0], indexes[0] + len(indexes)))


def test_the_largest_meta_data_and_one_byte_more(session: Exchange) -> None:
    largest = document(b"csp: //h/q#Queue\ntid: 1\n".ljust(65536), META)
    assert "reply" in reply(session.send(largest + document("createTailer:")))[1]
    said = session.send((65537 | META).to_bytes(4, "little"))
    assert failure(said)[:2] == (0, "java.io.StreamCorruptedException")


@pytest.mark.parametrize(
    ("text", "cid"),
    [
        (b'reply: !queue-tailer { csp: "//h/q#tailer", cid: 5, start: 1, end: 2 }\n', 5),
        (b"reply: !<fully_qualified_path>queue-tailer { csp://server/q#Tailer, cid: 12 }\n", 12),
        (b"reply: !<path>queue-appender {\n  csp://server/q,\n  cid:   7\n}\n", 7),
    ],
)
def test_the_rfcs_reply_is_read_although_it_is_no_yaml(text: bytes, cid: int) -> None:
    assert cid_of(text, "h:1") == cid


@pytest.mark.parametrize("text", [b"reply: { }\n", b"reply: { cid: x }\n", b""])
def test_a_reply_without_a_cid_is_an_error(text: bytes) -> None:
    with pytest.raises(PeerError, match="malformed reply"):
        cid_of(text, "h:1")


@pytest.mark.parametrize("tid", [None, 1])
@pytest.mark.parametrize(
    "asked",
    [
        "hasNext: { index: 9223372036854775807 }", "hasNext: { index: -1 }", "hasNext: { }",
        "hasNext: { index: 0, wait: 60000 }", "hasNext: { index: 0, batch: 0 }", "submit: {",
        "close: { }",
    ],
)  # fmt: skip
@pytest.mark.parametrize("view", [QUEUE, APPENDER, TAILER])
def test_no_request_leaves_a_target_behind(
    store: Store, view: str, asked: str, tid: int | None
) -> None:
    """The builds that count objects notice it."""
    before = balance.left()
    session = Exchange(store)
    session.send(request(asked, csp=view, **({} if tid is None else {"tid": tid})))
    session.half_close()
    del session
    assert balance.left() == before
