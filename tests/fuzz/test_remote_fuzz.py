"""Any bytes at all: a specified answer or a specified error, and nobody else disturbed."""

import base64
import os
import re
import socket
import struct
import tempfile

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.remote import META, document, documents, receive, replies, reply, request, serving
from textwire_twin import stored_form as slow_stored_form

from quiver_fast.queuefile.directory import QueueDirectory
from quiver_fast.remote.serve.exchange import Exchange
from quiver_fast.remote.serve.store import Store
from quiver_fast.remote.wire.replies import entries_of

CLASSES = {
    "java.lang.IllegalArgumentException",
    "java.lang.IllegalStateException",
    "java.lang.UnsupportedOperationException",
    "java.lang.IndexOutOfBoundsException",
    "java.util.concurrent.RejectedExecutionException",
    "java.io.StreamCorruptedException",
}
# Each example makes queues, which are synced to disk: where there is one, a disk of memory.
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
lines = st.lists(
    st.sampled_from(
        [
            "cid: 1", "cid: 2", "cid: 9", "tid: 7", "tid: 0", "tid: -3", "tid: x", "csp: //h/q",
            'csp: "//h/q#appender"', "csp: //h/q#tailer", "csp://h/q#tailer/2", "csp: q#Queue",
            "csp: //h/..", 'csp: !!null ""', "# c", "---", "", "x: y", "junk", 'tid: "4"',
        ]
    ),
    max_size=4,
).map("\n".join)  # fmt: skip
events = st.sampled_from(
    [
        "createAppender: { }", "createTailer: {}", "submit: { a: b }", "submit: hello, world",
        "submit: !!binary AQID", "submit: {", "hasNext: { }", "hasNext: { index: 0, batch: 9 }",
        "hasNext: { wait: 5, batch: 2 }", "hasNext: { index: -1 }", "lastWrittenIndex: { }",
        "close: { }", "heartbeat: 5", "header: x", "onClientClosing: ", "bye: ", "other: { }", "",
        "submit: é", "submit: '\n- x'", "hasNext: { index: 99999999999999999 }", '"submit": 5',
    ]
)  # fmt: skip
headers = st.integers(0, 2**32 - 1).map(lambda number: number.to_bytes(4, "little"))
pieces = st.one_of(
    lines.map(lambda text: document(text, META)),
    events.map(document),
    st.builds(lambda route, event: document(route, META) + document(event), lines, events),
    st.binary(max_size=60).map(document),
    headers,
    st.binary(max_size=20),
)


def class_of(body):
    """Return the class that an exception's document names: YAML's reader drops it."""
    found = re.match(rb"exception: !([\w.]+) \{ message: ", body)
    assert found, body
    return found[1].decode()


@given(st.lists(pieces, max_size=12), st.lists(st.integers(1, 50), max_size=8))
@settings(deadline=None, max_examples=examples(600))
def test_any_bytes_get_an_answer_or_an_error(parts, cuts):
    data = b"".join(parts)
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        store = Store(QueueDirectory(directory))
        session, other = Exchange(store), Exchange(store)
        other.send(request("createAppender: { }", csp="//h/other", tid=1))
        said = b""
        for cut in cuts:
            said += session.send(data[:cut])
            data = data[cut:]
        said += session.send(data) + session.half_close(100.0)
        bodies = [body for _, body in documents(said)[1::2]]
        for (tid, content), body in zip(replies(said), bodies, strict=True):
            if "exception" in content:
                assert class_of(body) in CLASSES
                assert set(content["exception"]) == {"message", "stackTrace"}
            else:
                assert set(content) <= {
                    "reply", "index", "heartbeatReply", "header-reply", "onClosingReply",
                }  # fmt: skip
            assert -(2**63) <= tid < 2**63
        assert session.over
        # Neither what it said nor what it stored is to be seen by anybody else.
        assert reply(other.send(request("submit: mine", cid=1, tid=2)))[0] == 2
        last = reply(other.send(request("lastWrittenIndex: { }", csp="//h/other", tid=3)))[1]
        mine = f"hasNext: {{ index: {last['reply']}, batch: 9 }}"
        answer = reply(other.send(request(mine, csp="//h/other#tailer", tid=4)))[1]
        assert answer["reply"] == ["mine"]
        store.files.close()


characters = st.text(
    st.sampled_from(list("{}[]!<>,:#'\\\"-|&* \n\r\tab1é\x85\u2028\0/?")), max_size=30
)


@given(st.one_of(characters.map(str.encode), st.binary(max_size=30)), st.binary(max_size=30))
@settings(
    deadline=None,
    max_examples=examples(400),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_what_is_accepted_comes_back_the_same(store, text, raw):
    """A value is refused, or every tailer gets its stored form; bytes always come back."""
    assume(b"!!binary" not in text)
    session = Exchange(store)
    said = session.send(request(b"submit: " + text, csp="//h/same#appender", tid=1))
    content = reply(said)[1]
    expected = slow_stored_form(text)
    value = base64.b64encode(raw) or b'""'
    last = session.send(request(b"submit: !!binary " + value, csp="//h/same#appender", tid=2))
    index = int(reply(last)[1]["index"])
    got = [raw]
    if "exception" in content:
        assert expected is None
    else:
        index -= 1
        assert int(content["index"]) == index
        got = [expected.decode(), *got]
    asked = request(f"hasNext: {{ index: {index}, batch: 9 }}", csp="//h/same#tailer", tid=3)
    assert entries_of(documents(session.send(asked))[1][1], "h:1") == (index, got)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    store = Store(QueueDirectory(tmp_path_factory.mktemp("values")))
    yield store
    store.files.close()


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    """A server for all examples: what one of them breaks, a later one meets."""
    with serving(tmp_path_factory.mktemp("queues")) as port:
        yield port


def read_to_the_end(sock):
    data = b""
    sock.settimeout(20)
    while more := sock.recv(1 << 16):
        data += more
    return data


def leave(sock, ending):
    """End a connection in one of the ways that peers have."""
    if ending == "half-close":
        sock.shutdown(socket.SHUT_WR)
        # Whatever it says, every document is whole.
        documents(read_to_the_end(sock))
    elif ending == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif ending == "stop-reading":
        sock.shutdown(socket.SHUT_RD)
    sock.close()


ending = st.sampled_from(["half-close", "reset", "close", "stop-reading"])
visits = st.tuples(st.lists(st.lists(pieces, max_size=4), max_size=4), ending)


@given(st.lists(visits, min_size=1, max_size=5))
@settings(
    deadline=None,
    max_examples=examples(120),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_visitors_of_any_kind_disturb_nobody(port, visitors):
    """Several connections, interleaved, with any bytes and any end; a bystander goes on."""
    with socket.create_connection(("127.0.0.1", port), 20) as bystander:
        bystander.sendall(request("createTailer: { }", csp="//h/bystander#Queue", tid=1))
        receive(bystander, 1)
        bystander.sendall(request("hasNext: { index: 0, wait: 60000 }", cid=1, tid=2))
        socks = [socket.create_connection(("127.0.0.1", port), 20) for _ in visitors]
        for turn in range(4):
            for sock, (sent, _) in zip(socks, visitors, strict=True):
                try:
                    for piece in sent[turn : turn + 1]:
                        sock.sendall(b"".join(piece))
                except ConnectionError:
                    pass  # the server has ended it, as it must after a fatal error
        for sock, (_, how) in zip(socks, visitors, strict=True):
            try:
                leave(sock, how)
            except TimeoutError:
                raise  # it was left hanging
            except OSError:
                sock.close()  # reset by the server, whose last word was not awaited
        bystander.sendall(request("submit: mine", csp="//h/bystander#appender", tid=3))
        said = dict(replies(receive(bystander, 2)))
        assert said[2]["reply"] == ["mine"]
        assert "index" in said[3]
