"""The exchanges of the RFC "Remote connectivity for Chronicle Queue", word for word."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.remote import META, document, failure, reply, request

from quiver_fast.errors import PeerError
from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.remote.serve.exchange import Exchange
from quiver_fast.remote.serve.store import Store
from quiver_fast.remote.wire import replies

# Requests of a client, as (meta-data, data), each with its marker.
CREATE_APPENDER = (
    "--- !!meta-data\ncsp://server/path/queue-name#Queue\n# or\ncid: 1212\ntid: 123456789\n",
    "--- !!data\ncreateAppender: { }\n",
)
LAST_WRITTEN_INDEX = (
    "cid: {cid}\ntid: 123456789\n",
    "--- !!data\nlastWrittenIndex: { }  // gets the last index of the appender not the chronicle\n",
)
SUBMIT = (
    "--- !!meta-data\ncsp://server/path/queue-name#appender\n# or\ncid: 1212\ntid: 123456789\n",
    "--- !!data\nsubmit: !net.openhft.MyObject{ field1: one, field2: two }\n",
)
CREATE_TAILER = (
    "--- !!meta-data\ncsp://server/path/queue-name#Queue\n# or\ncid: 1212\ntid: 123456789\n",
    "--- !!data\ncreateTailer: { }\n",
)
HAS_NEXT = (
    "--- !!meta-data\ncsp://server/path/queue-name#tailer/{cid}\n# or\ncid: 1212\ntid: 123456789\n",
    "--- !!data\nhasNext: { index: {index}, batch: 4 }\n",
)

# Replies of a server.
META_OF_REPLY = b"--- !!meta-data\ntid: 123456789\n"
APPENDER = (
    b"--- !!data\nreply: !<fully_qualified_path>.queue-appender "
    b"{ csp://server/path/map-name#appender, cid: 1234 }\n"
)
INDEX = b"--- !!data\nindex: 1286348638468324\n"
TAILER = (
    b"--- !!data\nreply: !<fully_qualified_path>queue-tailer { csp://server/path/map-name#tailer, "
    b"cid: 12345, start: 1286348000000000, end: 1286348638469999 }\n"
)
BATCH = b"""--- !!data
index: 1286348638468324 # the actual index read.
reply:\x20
  - { field1: one, field2: two }
  - !!binary 981273kwajduy81e2hkjhsd=
  - { field1: three, field2: four }
  - !!binary jsagdiy981273kajduy81e32hkjhsd==
"""


@pytest.fixture
def session(tmp_path: Path):
    store = Store(QueueDirectory(tmp_path))
    yield Exchange(store)
    store.files.close()


def ask(session: Exchange, documents: tuple[str, str], **numbers: object) -> dict[str, object]:
    meta, data = documents
    for name, number in numbers.items():
        meta = meta.replace(f"{{{name}}}", str(number))
        data = data.replace(f"{{{name}}}", str(number))
    tid, content = reply(session.send(document(meta, META) + document(data)))
    assert tid == 123456789
    return content


def test_our_server_answers_every_request_of_the_rfc(session: Exchange) -> None:
    appender = ask(session, CREATE_APPENDER)["reply"]
    assert appender["csp"] == "//server/path/queue-name#appender"
    assert ask(session, LAST_WRITTEN_INDEX, cid=appender["cid"])["reply"] == "-1"
    first = ask(session, SUBMIT)["index"]
    tailer = ask(session, CREATE_TAILER)["reply"]
    assert (tailer["csp"], tailer["start"]) == ("//server/path/queue-name#tailer", first)
    assert int(tailer["end"]) == int(first) + 1
    batch = ask(session, HAS_NEXT, cid=tailer["cid"], index=first)
    assert batch["index"] == first
    assert len(batch["reply"]) == 1


@pytest.mark.parametrize(
    ("uri", "event"),
    [
        ("queue-name", "createAppender: { }"),
        ("queue-name#Queue", "createTailer: { }"),
        ("queue-name#appender", "submit: { field1: one, field2: two }"),
        ("queue-name#tailer", "hasNext: { index: 0, wait: 0 }"),
        ("//server/path/queue-name#Queue  # the queue", "createTailer: { }"),
    ],
)
def test_each_uri_of_the_table_of_services_is_a_route(
    session: Exchange, uri: str, event: str
) -> None:
    sent = document(f"{uri}\ntid: 1\n", META) + document(event)
    tid, content = reply(session.send(sent))
    assert tid == 1
    assert "exception" not in content


def test_keys_may_be_quoted_as_javas_text_wire_does(session: Exchange) -> None:
    sent = document('"csp": "//h/q#Queue"\n"tid": 5\n', META) + document("createTailer: { }")
    tid, content = reply(session.send(sent))
    assert (tid, content["reply"]["csp"]) == (5, "//h/q#tailer")
    sent = document("'cid': 77\n'tid': 6\n", META) + document("close: { }")
    assert failure(session.send(sent))[:2] == (6, "java.lang.IllegalStateException")


def test_our_client_reads_every_reply_of_the_rfc() -> None:
    assert replies.tid_of(META_OF_REPLY, "h:1") == 123456789
    assert replies.cid_of(replies.text_of(APPENDER), "h:1") == 1234
    assert replies.index_of(replies.text_of(INDEX), "h:1") == 1286348638468324
    tailer = replies.text_of(TAILER)
    assert replies.cid_of(tailer, "h:1") == 12345
    assert replies.start_of(tailer, "h:1") == 1286348000000000
    assert replies.end_of(tailer, "h:1") == 1286348638469999
    first, values = replies.entries_of(replies.text_of(BATCH), "h:1")
    assert first == 1286348638468324
    assert values[::2] == ["{ field1: one, field2: two }", "{ field1: three, field2: four }"]
    assert [type(value) for value in values[1::2]] == [bytes, bytes]


def test_names_of_hosts_are_no_keys() -> None:
    tailer = b'reply: !queue-tailer { csp: "//end:1/cid#tailer", cid: 3, start: 1, end: 2 }\n'
    assert (replies.cid_of(tailer, "h:1"), replies.end_of(tailer, "h:1")) == (3, 2)


@pytest.mark.parametrize(
    "text",
    [
        b"", b"index:\n", b"index: x\nreply: []\n", b"index: 99999999999999999999\nreply: []\n",
        b"index: 1\n", b"index: 1\nreply: { }\n", b"index: 1\nreply:\n  - \xff\n",
        b"index: 1\nreply:\n  - !!binary ?\n", b"reply:\n  - a\n",
    ],
)  # fmt: skip
def test_a_malformed_batch_is_one_line(text: bytes) -> None:
    with pytest.raises(PeerError, match="h:1: a malformed reply: b") as raised:
        replies.entries_of(replies.text_of(text), "h:1")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("text", [b"", b"cid: 1\n", b"tid: x\n", b"xtid: 1\n"])
def test_a_malformed_tid_is_one_line(text: bytes) -> None:
    with pytest.raises(PeerError, match="h:1: a malformed reply: b"):
        replies.tid_of(text, "h:1")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b'exception: !java.io.IOException { message: "a \\"b\\" c", stackTrace: [ ] }\n',
         'IOException: a "b" c'),
        (b'exception: !Own$Failure { message: "two\nlines", stackTrace: [ a, b ] }\n',
         "Own$Failure: two lines"),
        (b"exception: { }\nmore\n", "a malformed reply: b'exception: { }\\nmore\\n'"),
        (b"what: { }\n", "a malformed reply: b'what: { }\\n'"),
    ],
)  # fmt: skip
def test_an_exception_is_one_line(text: bytes, said: str) -> None:
    assert replies.message_of(text) == said


def test_a_route_line_does_not_need_a_request_before(session: Exchange) -> None:
    session.send(request("submit: a", csp="//h/q#appender", tid=1))
    sent = document("q#tailer\ntid: 2\n", META) + document("hasNext: { index: 0 }")
    assert reply(session.send(sent))[1]["reply"] == ["a"]
