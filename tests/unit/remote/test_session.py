"""One connection of the queue protocol, byte by byte: B.1 to B.9 of the specification."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from support.remote import (
    END_OF_STREAM,
    META,
    MORE,
    document,
    documents,
    failure,
    meta,
    replies,
    reply,
    request,
)  # fmt: skip

from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.remote.serve.exchange import Exchange
from quiver_fast.remote.serve.store import Store

QUEUE, APPENDER, TAILER = "//h/orders#Queue", "//h/orders#appender", "//h/orders#tailer"
ILLEGAL_ARGUMENT = "java.lang.IllegalArgumentException"
ILLEGAL_STATE = "java.lang.IllegalStateException"
UNSUPPORTED = "java.lang.UnsupportedOperationException"
OUT_OF_BOUNDS = "java.lang.IndexOutOfBoundsException"
REJECTED = "java.util.concurrent.RejectedExecutionException"
CORRUPTED = "java.io.StreamCorruptedException"


@pytest.fixture
def store(tmp_path: Path):
    store = Store(QueueDirectory(tmp_path))
    yield store
    store.files.close()


@pytest.fixture
def session(store: Store) -> Exchange:
    return Exchange(store)


def create(session: Exchange, event: str) -> dict[str, str]:
    _, content = reply(session.send(request(f"{event}: {{ }}", csp=QUEUE, tid=1)))
    return content["reply"]


def submit(session: Exchange, *values: str) -> list[int]:
    sent = b"".join(request(f"submit: {value}", csp=APPENDER, tid=5) for value in values)
    return [int(content["index"]) for _, content in replies(session.send(sent))]


def tail(session: Exchange, arguments: str, now: float = 0.0, **keys: object) -> bytes:
    keys = keys or {"csp": TAILER}
    return session.send(request(f"hasNext: {{ {arguments} }}", tid=9, **keys), now)


# ---- B.5 -----------------------------------------------------------------------------


def test_the_specifications_exchange(session: Exchange) -> None:
    asked = """
        20 00 00 40 63 73 70 3a 20 22 2f 2f 68 2f 6f 72 64 65 72 73 23 51 75 65 75 65 22 0a 74
        69 64 3a 20 31 31 0a 14 00 00 00 63 72 65 61 74 65 41 70 70 65 6e 64 65 72 3a 20 7b 20
        7d 0a"""
    answered = """
        08 00 00 40 74 69 64 3a 20 31 31 0a 40 00 00 00 72 65 70 6c 79 3a 20 21 71 75 65 75 65
        2d 61 70 70 65 6e 64 65 72 20 7b 20 63 73 70 3a 20 22 2f 2f 68 2f 6f 72 64 65 72 73 23
        61 70 70 65 6e 64 65 72 22 2c 20 63 69 64 3a 20 31 20 7d 0a 20 20"""
    assert session.send(bytes.fromhex(asked)) == bytes.fromhex(answered)
    appended = session.send(
        b"\x10\0\0\x40cid: 1\ntid: 12\n \x28\0\0\0submit: { field1: one, field2: two }\n   "
    )
    first = int(appended[20:].split()[1])
    assert appended == b"\x08\0\0\x40tid: 12\n\x18\0\0\0index: %d\n  " % first
    session.send(request("submit: !!binary AQID/w==", cid=1, tid=13))
    create(session, "createTailer")
    assert session.send(
        b"\x10\0\0\x40cid: 2\ntid: 14\n \x30\0\0\0hasNext: { index: %d, batch: 4 }\n   " % first
    ) == (
        b"\x08\0\0\x40tid: 14\n\x54\0\0\0index: %d\nreply:\n"
        b"  - { field1: one, field2: two }\n  - !!binary AQID/w==\n" % first
    )


def test_the_rfcs_own_spellings_are_understood(session: Exchange) -> None:
    sent = document("csp://server/path/queue-name#Queue\n# or\ntid: 123456789\n", META)
    _, content = reply(session.send(sent + document("createAppender: { }")))
    assert content["reply"] == {"csp": "//server/path/queue-name#appender", "cid": "1"}
    value = "submit: !net.openhft.MyObject{ field1: one, field2: two }"
    tid, content = reply(session.send(request(value, cid=1, tid=123456789)))
    assert tid == 123456789
    last = session.send(request("lastWrittenIndex: { }  // of the appender", cid=1, tid=2))
    assert reply(last)[1]["reply"] == content["index"]


def test_a_document_may_come_in_any_pieces(session: Exchange) -> None:
    sent = request("createAppender: {\n}", csp=QUEUE, tid=3) + request("submit: a", cid=1, tid=4)
    said = b"".join(session.send(sent[i : i + 1]) for i in range(len(sent)))
    assert [tid for tid, _ in replies(said)] == [3, 4]


def test_a_batch_shares_its_meta_data(session: Exchange) -> None:
    create(session, "createAppender")
    batch = meta(cid=1, tid=7) + b"".join(document(f"submit: {n}", MORE) for n in range(3))
    answer = session.send(batch + document("submit: 3"))
    # "data with bit 31: one reply, more follow for this tid" (B.1)
    assert [bits for bits, _ in documents(answer)[1::2]] == [MORE, MORE, MORE, 0]
    said = replies(answer)
    assert [tid for tid, _ in said] == [7] * 4
    first = int(said[0][1]["index"])
    assert [int(content["index"]) for _, content in said] == [first + n for n in range(4)]


def test_no_tid_no_reply(session: Exchange) -> None:
    assert session.send(request("submit: quiet", csp=APPENDER)) == b""
    assert (
        reply(session.send(request("lastWrittenIndex:", csp=APPENDER, tid=1)))[1]["reply"] != "-1"
    )


@pytest.mark.parametrize("tid", ["0012", "+5", "-9223372036854775808", '"77"'])
def test_a_tid_is_echoed_verbatim(session: Exchange, tid: str) -> None:
    said = session.send(request("lastWrittenIndex:", csp=QUEUE, tid=tid))
    assert b"tid: " + tid.strip('"').encode() + b"\n" in said


@pytest.mark.parametrize("nothing", ["{ }", "{}", "{\n}", "", '""', '!!null ""', "{ other: 1 }"])
def test_every_spelling_of_no_argument(session: Exchange, nothing: str) -> None:
    said = session.send(request(f"createAppender: {nothing}\n", csp=QUEUE, tid=1))
    assert reply(said)[1]["reply"]["cid"] == "1"


def test_every_create_makes_a_new_one(session: Exchange) -> None:
    made = [create(session, event)["cid"] for event in ("createTailer", "createTailer")]
    assert made == ["1", "2"]


def test_start_and_end(session: Exchange) -> None:
    empty = create(session, "createTailer")
    assert empty["start"] == empty["end"]
    indexes = submit(session, "a", "b")
    full = create(session, "createTailer")
    assert (int(full["start"]), int(full["end"])) == (indexes[0], indexes[1] + 1)


def test_last_written_index(session: Exchange) -> None:
    create(session, "createAppender")

    def last(**keys: object) -> int:
        said = session.send(request("lastWrittenIndex: { }", tid=1, **keys))
        return int(reply(said)[1]["reply"])

    assert (last(csp=QUEUE), last(cid=1), last(csp=APPENDER)) == (-1, -1, -1)
    (index,) = submit(session, "a")
    assert (last(csp=QUEUE), last(cid=1), last(csp=APPENDER)) == (index, -1, index)


def test_close_frees_the_cid_for_good(session: Exchange) -> None:
    create(session, "createTailer")
    assert reply(session.send(request("close: { }", cid=1, tid=2))) == (2, {"reply": {}})
    for event in ("close: { }", "hasNext: { }"):
        assert failure(session.send(request(event, cid=1, tid=2)))[1] == ILLEGAL_STATE
    assert create(session, "createTailer")["cid"] == "2"


# ---- B.2, B.3 ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        'csp: "//h/orders#Queue"', "csp: '//h/orders#Queue'", "csp://h/orders#Queue",
        "csp: /orders", "csp: orders", "csp: orders#queue", 'csp: "//orders?view=QUEUE"',
        'csp: "csp://h:9876/orders"  # comment', "--- !!meta-data\r\ncsp: //h/orders\r\nother: x",
        "# first\n\ncsp: //h/orders   \n...\ncid: 77",
    ],
)  # fmt: skip
def test_spellings_of_one_csp(session: Exchange, text: str) -> None:
    (index,) = submit(session, "a")
    sent = document(f"{text}\ntid: 4\n", META) + document("lastWrittenIndex: { }")
    assert reply(session.send(sent)) == (4, {"reply": str(index)})


@pytest.mark.parametrize(
    "csp",
    [
        "//h/", "//h/a//b", "//h/..", "//h/a/./b", "//h/a%20b", "//h/a b", "//h/" + "a" * 129,
        "//h/" + "/".join("a" * 9), "//h/é", "//h/a?x=y", "//h\\x/a", "#tailer/x9",
        "//h/a#tailer/9x",
    ],
)  # fmt: skip
def test_a_malformed_csp_is_an_illegal_argument(session: Exchange, csp: str) -> None:
    said = session.send(request("createTailer: { }", csp=csp, tid=1))
    assert failure(said)[:2] == (1, ILLEGAL_ARGUMENT)
    assert not session.over


def test_a_tailers_cid_in_the_csp(session: Exchange) -> None:
    indexes = submit(session, "a", "b")
    create(session, "createTailer")
    for index in indexes:
        said = tail(session, "", csp="//h/orders#tailer/1")
        assert reply(said)[1]["index"] == str(index)


def test_csp_decides_over_cid(session: Exchange) -> None:
    create(session, "createTailer")
    sent = request("submit: a", cid=1, csp=APPENDER, tid=2)
    assert "index" in reply(session.send(sent))[1]


def test_a_route_holds_until_it_is_replaced_or_cleared(session: Exchange) -> None:
    session.send(meta(csp=APPENDER, tid=2))
    assert len(replies(session.send(document("submit: a") + document("submit: b")))) == 2
    assert session.send(document(b"", META) + document("userId: me")) == b""
    said = session.send(request("submit: a", tid=3))
    assert failure(said)[:2] == (3, ILLEGAL_ARGUMENT)


# ---- B.4 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "tid", "answer"),
    [
        ("heartbeat: 42", 3, "heartbeatReply: 42\n"),
        ("heartbeat: 42", None, "heartbeatReply: 42\n"),
        ("onClientClosing: now", 3, 'onClosingReply: ""\n'),
        ("header: { a: b }", 3, "header-reply: { wire-format: Text }\n"),
    ],
)
def test_session_messages(session: Exchange, event: str, tid: int | None, answer: str) -> None:
    keys = {} if tid is None else {"tid": tid}
    said = session.send(request(event, **keys))
    assert reply(said)[0] == (tid or 0)
    assert answer.encode() in said


def test_other_session_messages_are_ignored_and_bye_closes(session: Exchange) -> None:
    assert session.send(document("userId: me\ndomain: x\nsecurityToken: {\n")) == b""
    assert not session.over
    assert session.send(document("bye: now")) == b""
    assert session.over


def test_the_null_route_is_the_sessions(session: Exchange) -> None:
    sent = document('csp: !!null ""\ntid: 4\n', META) + document("heartbeat: 1")
    assert reply(session.send(sent)) == (4, {"heartbeatReply": "1"})


# ---- B.6 -----------------------------------------------------------------------------


def test_a_batch_ends_with_the_queue_and_with_its_size(session: Exchange) -> None:
    indexes = submit(session, *"abcde")
    _, content = reply(tail(session, f"index: {indexes[1]}, batch: 3"))
    assert content == {"index": str(indexes[1]), "reply": ["b", "c", "d"]}
    _, content = reply(tail(session, f"index: {indexes[3]}, batch: 100000"))
    assert content["reply"] == ["d", "e"]
    assert reply(tail(session, "index: 0"))[1]["index"] == str(indexes[0])


def test_a_batch_is_at_most_a_mebibyte_but_one_entry(session: Exchange) -> None:
    value = '"' + "x" * 400_000 + '"'
    indexes = submit(session, value, value, value, '"' + "y" * 2_000_000 + '"')
    assert len(reply(tail(session, f"index: {indexes[0]}, batch: 9"))[1]["reply"]) == 2
    assert len(reply(tail(session, f"index: {indexes[3]}, batch: 9"))[1]["reply"]) == 1


def test_a_tailer_stands_after_what_it_returned(session: Exchange) -> None:
    indexes = submit(session, *"abcd")
    create(session, "createTailer")
    assert reply(tail(session, "batch: 2", cid=1))[1]["reply"] == ["a", "b"]
    assert reply(tail(session, "", cid=1))[1] == {"index": str(indexes[2]), "reply": ["c"]}
    assert reply(tail(session, f"index: {indexes[1]}", cid=1))[1]["reply"] == ["b"]
    assert reply(tail(session, "", cid=1))[1]["reply"] == ["c"]


def test_waiting_ends_with_an_entry_or_with_the_time(session: Exchange) -> None:
    (index,) = submit(session, "a")
    create(session, "createTailer")
    assert tail(session, f"index: {index + 1}, wait: 500", 1.0, cid=1) == b""
    assert session.turn(1.499) == b""
    assert reply(session.turn(1.5)) == (9, {"index": str(index + 1), "reply": []})
    assert tail(session, "", 2.0, cid=1) == b""
    session.send(request("submit: b", csp=APPENDER), 2.1)
    said = session.turn(2.1)
    assert said == b""
    assert tail(session, f"index: {index + 2}, wait: 0", 3.0, cid=1) != b""


def test_an_entry_answers_those_who_wait_in_other_connections(store: Store) -> None:
    writer, readers = Exchange(store), [Exchange(store) for _ in range(3)]
    create(writer, "createAppender")
    for reader in readers:
        create(reader, "createTailer")
        assert tail(reader, "wait: 60000, batch: 5", cid=1) == b""
    submit(writer, "a", "b")
    for reader in readers:
        assert reply(reader.turn(0.1))[1]["reply"] == ["a", "b"]


def test_requests_of_one_tailer_wait_in_order_without_overlap(store: Store) -> None:
    reader, writer = Exchange(store), Exchange(store)
    create(reader, "createTailer")
    for tid in (11, 12, 13):
        assert reader.send(request("hasNext: { wait: 5000 }", cid=1, tid=tid)) == b""
    indexes = submit(writer, "a", "b")
    said = replies(reader.turn(1.0))
    assert [(tid, content["reply"]) for tid, content in said] == [(11, ["a"]), (12, ["b"])]
    assert reply(reader.turn(5.0)) == (13, {"index": str(indexes[1] + 1), "reply": []})


def test_waiting_blocks_its_own_cid_only(session: Exchange) -> None:
    create(session, "createTailer")
    create(session, "createTailer")
    (index,) = submit(session, "a")
    end = f"index: {index + 1}, wait: 60000"
    assert tail(session, end, cid=1) == b""
    assert session.send(request(f"hasNext: {{ {end} }}", csp=TAILER, tid=2)) == b""
    assert reply(tail(session, "", cid=2))[1]["reply"] == ["a"]
    assert reply(tail(session, f"index: {index}"))[1]["reply"] == ["a"]
    assert {tid for tid, _ in replies(session.half_close())} == {2, 9}


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        ("index: -1", ILLEGAL_ARGUMENT), ("batch: 0", ILLEGAL_ARGUMENT),
        ("wait: -1", ILLEGAL_ARGUMENT), ("index: x", ILLEGAL_ARGUMENT),
        ("index: 99999999999999999999", ILLEGAL_ARGUMENT), ("index: 1, index: 1", ILLEGAL_ARGUMENT),
        ("index: 9223372036854775807", OUT_OF_BOUNDS),
    ],
)  # fmt: skip
def test_wrong_arguments_of_has_next(session: Exchange, arguments: str, kind: str) -> None:
    assert failure(tail(session, arguments))[1] == kind
    create(session, "createTailer")
    assert failure(tail(session, arguments, cid=1))[1] == kind


def test_an_index_after_the_end_names_the_end(session: Exchange) -> None:
    (index,) = submit(session, "a")
    assert str(index + 1) in failure(tail(session, f"index: {index + 2}"))[2]


def test_a_stateless_tailer_needs_an_index(session: Exchange) -> None:
    assert failure(tail(session, "batch: 2"))[1] == ILLEGAL_ARGUMENT


@pytest.mark.parametrize(
    ("value", "lines"),
    [
        ("{\n a: b }", b"  - {\n     a: b }\n"),
        ("'a\r\n\n b'", b"  - 'a\r\n    \n     b'\n"),
        ('"a\rb"', b'  - "a\r    b"\n'),
        ("é", "  - é\n".encode()),
        ('!!binary ""', b'  - !!binary ""\n'),
    ],
)
def test_values_in_a_reply(session: Exchange, value: str, lines: bytes) -> None:
    (index,) = submit(session, value)
    said = tail(session, f"index: {index}")
    assert said.partition(b"reply:\n")[2].rstrip(b" ") == lines


# ---- B.7 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "keys", "kind"),
    [
        ("submit: {", {"csp": APPENDER}, ILLEGAL_ARGUMENT),
        ("submit:", {"csp": APPENDER}, ILLEGAL_ARGUMENT),
        ("submit: !!binary AQ=", {"csp": APPENDER}, ILLEGAL_ARGUMENT),
        ("submit: a", {"csp": QUEUE}, UNSUPPORTED),
        ("submit: a", {"csp": TAILER}, UNSUPPORTED),
        ("hasNext: { }", {"csp": APPENDER}, UNSUPPORTED),
        ("createTailer: { }", {"csp": APPENDER}, UNSUPPORTED),
        ("createTailer: 5", {"csp": QUEUE}, ILLEGAL_ARGUMENT),
        ("createTailer: { }", {"csp": "//h/orders#View"}, UNSUPPORTED),
        ("close: { }", {"csp": APPENDER}, UNSUPPORTED),
        ("remove: { }", {"csp": QUEUE}, UNSUPPORTED),
        ("submit: a", {"cid": 5}, ILLEGAL_STATE),
        ("submit: a", {"cid": 0}, ILLEGAL_STATE),
        ("hasNext: { }", {"csp": "//h/orders#tailer/5"}, ILLEGAL_STATE),
        ("submit: a", {}, ILLEGAL_ARGUMENT),
        ("no event", {"csp": QUEUE}, ILLEGAL_ARGUMENT),
        ("\n# nothing\n", {"csp": QUEUE}, ILLEGAL_ARGUMENT),
        ("submit: a\nsubmit: b", {"csp": APPENDER}, ILLEGAL_ARGUMENT),
        ("heartbeat: x", {}, ILLEGAL_ARGUMENT),
    ],
)
def test_what_fails_says_why_and_changes_nothing(
    session: Exchange, event: str, keys: dict[str, object], kind: str
) -> None:
    assert failure(session.send(request(event, tid=6, **keys)))[:2] == (6, kind)
    assert not session.over
    last = session.send(request("lastWrittenIndex:", csp=QUEUE, tid=7))
    assert reply(last)[1]["reply"] == "-1"


def test_an_empty_request_of_a_batch_is_an_illegal_argument(session: Exchange) -> None:
    said = session.send(meta(csp=QUEUE, tid=6) + document(b"", MORE))
    assert failure(said)[:2] == (6, ILLEGAL_ARGUMENT)


def test_a_failure_without_a_tid_closes_the_connection(session: Exchange) -> None:
    sent = request("submit: a", csp=APPENDER, tid=1) + request("submit: {", csp=APPENDER)
    said = session.send(sent + request("submit: b", csp=APPENDER, tid=2))
    assert [tid for tid, _ in replies(said)] == [1, 0]
    assert session.over
    assert session.send(request("submit: c", csp=APPENDER, tid=3)) == b""


def test_a_has_next_that_nobody_wants_still_has_a_right_index(session: Exchange) -> None:
    assert session.send(request("hasNext: { index: 0 }", csp=TAILER)) == b""
    assert not session.over
    said = session.send(request("hasNext: { index: 9223372036854775807 }", csp=TAILER))
    assert failure(said)[:2] == (0, OUT_OF_BOUNDS)
    assert session.over


def test_no_queue_where_creation_is_off(tmp_path: Path) -> None:
    session = Exchange(Store(QueueDirectory(tmp_path), create=False))
    for event, csp in (("createTailer: { }", QUEUE), ("submit: a", APPENDER)):
        said = session.send(request(event, csp=csp, tid=1))
        assert failure(said)[:2] == (1, "java.io.FileNotFoundException")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("argument", ["{ create: no }", "{ create }", "[ create ]", "false"])
def test_what_says_not_whether_a_queue_is_made(session: Exchange, argument: str) -> None:
    said = session.send(request(f"createTailer: {argument}", csp=QUEUE, tid=6))
    assert failure(said)[:2] == (6, ILLEGAL_ARGUMENT)


# ---- B.8 -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (b"\0\0\0\0", CORRUPTED),
        (b"\1\0\0\xc0", CORRUPTED),
        (b"\1\0\1\x40", CORRUPTED),
        (b"\1\0\1\1", CORRUPTED),
        (b"\xff\xff\xff\x3f", CORRUPTED),
        (b"\x20\0\0\0\x80", UNSUPPORTED),
        (b"\x20\0\0\x40\xb9", UNSUPPORTED),
        (document("no colon", META), ILLEGAL_ARGUMENT),
        (document("orders#tailer\ncsp: //h/orders", META), ILLEGAL_ARGUMENT),
        (document("orders#Queue\norders#Queue", META), ILLEGAL_ARGUMENT),
        (document("tid: x", META), ILLEGAL_ARGUMENT),
        (document("cid: 99999999999999999999", META), ILLEGAL_ARGUMENT),
        (document("tid: 1\ntid: 1", META), ILLEGAL_ARGUMENT),
        (document("cid: 1\ncid: 1", META), ILLEGAL_ARGUMENT),
        (document("csp: a\ncsp: a", META), ILLEGAL_ARGUMENT),
        (document('csp: "a', META), ILLEGAL_ARGUMENT),
    ],
)
def test_fatal_errors_end_the_connection_after_what_was_said(
    session: Exchange, sent: bytes, kind: str
) -> None:
    said = session.send(request("submit: a", csp=APPENDER, tid=1) + sent)
    (first, _), (last, _) = replies(said)
    assert (first, last) == (1, 0)
    assert f"!{kind} ".encode() in said
    assert session.over


def test_the_largest_documents(session: Exchange) -> None:
    padded = document(b"csp: orders#appender\ntid: 1\n".ljust(65536), META)
    body = b'submit: "' + b"x" * ((16 << 20) - 2) + b'"'
    assert "index" in reply(session.send(padded + document(body.ljust((16 << 20) + 65536))))[1]
    larger = b'submit: "' + b"x" * ((16 << 20) - 1) + b'"'
    assert failure(session.send(document(larger)))[1] == ILLEGAL_ARGUMENT


def test_a_document_cut_short_takes_no_effect(session: Exchange) -> None:
    sent = request("submit: a", csp=APPENDER, tid=1)
    assert session.send(sent[:-1]) == b""
    assert session.half_close() == b""
    assert session.over


# ---- B.9 -----------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["half-close", "end-of-stream"])
def test_the_end_of_input_answers_what_waits(session: Exchange, end: str) -> None:
    create(session, "createTailer")
    sent = request("hasNext: { wait: 60000 }", cid=1, tid=2)
    assert session.send(sent) == b""
    said = session.half_close() if end == "half-close" else session.send(END_OF_STREAM)
    assert reply(said)[1]["reply"] == []
    assert session.over


def test_reading_stops_at_four_mebibytes_of_replies_and_nothing_is_lost(store: Store) -> None:
    writer, reader = Exchange(store), Exchange(store)
    indexes = submit(writer, *['"' + "x" * 500_000 + '"'] * 2)
    one = request(f"hasNext: {{ index: {indexes[0]}, batch: 2 }}", csp=TAILER, tid=3)
    said = reader.send(one * 20)
    assert len(said) < (4 << 20) + (1 << 20) + 1000
    count = len(replies(said))
    assert count < 20
    while more := reader.turn(0.0):
        assert len(more) < (4 << 20) + (1 << 20) + 1000
        count += len(replies(more))
    assert count == 20
    assert reader.reads


def test_cids_and_waits_are_limited(session: Exchange) -> None:
    one = request("createTailer: { }", csp=QUEUE, tid=1)
    assert len(replies(session.send(one * 4096))) == 4096
    assert failure(session.send(one))[1] == REJECTED
    assert reply(session.send(request("close: { }", cid=9, tid=2)))[1] == {"reply": {}}
    assert "reply" in reply(session.send(one))[1]
    wait = request("hasNext: { wait: 60000 }", cid=7, tid=1)
    assert session.send(wait * 10000) == b""
    assert failure(session.send(wait))[1] == REJECTED
    assert len(replies(session.half_close())) == 10000


def test_closing_answers_what_waits_on_the_cid(session: Exchange) -> None:
    create(session, "createTailer")
    session.send(request("hasNext: { wait: 60000 }", cid=1, tid=2))
    said = replies(session.send(request("close: { }", cid=1, tid=3)))
    assert [tid for tid, _ in said] == [2, 3]
    assert said[0][1]["reply"] == []


def test_every_exception_is_yaml_whatever_its_message(session: Exchange) -> None:
    said = session.send(request("createTailer: { }", csp='//h/a"\\', tid=1))
    assert yaml.load(said[said.index(b"exception") :], yaml.CBaseLoader)
