"""Our clients against a server that answers in the RFC's own words."""

from __future__ import annotations

import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest
from support.processes import Finished, run
from support.remote import META, document

from quiver_fast.errors import PeerError
from quiver_fast.remote.client import Entry, Queue

FIRST = 1286348638468324
MARKER = "--- !!data\n"
APPENDER = (
    f"{MARKER}reply: !<fully_qualified_path>.queue-appender "
    "{ csp://server/path/map-name#appender, cid: 1234 }\n"
)
TAILER = (
    f"{MARKER}reply: !<fully_qualified_path>queue-tailer {{ csp://server/path/map-name#tailer, "
    f"cid: 12345, start: {FIRST}, end: {FIRST + 2} }}\n"
)
ENTRY = '{ id: "%d", t: 1500000000000, body: "x" }'


def tool(name: str, *words: str) -> Finished:
    return run([sys.executable, "-m", f"quiver_fast.cli.{name}.command", *words], timeout=60)


class Rfc:
    """Answers of a server that knows the RFC and nothing else; entries are the arrow's."""

    def __init__(self, **changed: str) -> None:
        self.changed = changed
        self.written = self.batches = 0

    def answer(self, event: str) -> str:
        """Return the reply to an event, as the RFC prints it."""
        if event in self.changed:
            return self.changed[event]
        if event == "createAppender":
            return APPENDER
        if event == "createTailer":
            return TAILER
        if event == "submit":
            self.written += 1
            return f"{MARKER}index: {FIRST + self.written}\n"
        if event == "close":
            return f"{MARKER}reply: {{ }}\n"
        self.batches += 1
        if self.batches > 1:
            return f"{MARKER}index: {FIRST + 2}\nreply: [ ]\n"
        entries = "".join(f"  - {ENTRY % number}\n" for number in (1, 2))
        return f"{MARKER}index: {FIRST} # the actual index read.\nreply: \n{entries}"


@contextmanager
def answering(answer: Callable[[str], str]) -> Iterator[str]:
    """Serve any number of connections one after another; yields the queue's URL."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve, args=(listener, answer), daemon=True)
        thread.start()
        yield f"csp://127.0.0.1:{listener.getsockname()[1]}/q"
        # Closing a socket does not wake a thread that waits for it.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def _serve(listener: socket.socket, answer: Callable[[str], str]) -> None:
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        # A client that met a malformed reply goes at once.
        with suppress(ConnectionError), sock, sock.makefile("rwb") as stream:
            _converse(stream, answer)


def _converse(stream, answer: Callable[[str], str]) -> None:
    tid = b""
    while len(head := stream.read(4)) == 4:
        header = int.from_bytes(head, "little")
        body = stream.read(header & 0x3FFFFFFF)
        if header & META:
            tid = re.search(rb"tid: (\d+)", body)[1]
            continue
        event = re.match(rb"\w+", body)[0].decode()
        meta = b"--- !!meta-data\ntid: " + tid + b"\n"
        stream.write(document(meta, META) + document(answer(event)))
        stream.flush()


def test_the_python_client() -> None:
    with answering(Rfc().answer) as url, Queue(url) as queue:
        assert list(queue.appender().submit_all(["a", "b"])) == [FIRST + 1, FIRST + 2]
        tailer = queue.tailer()
        assert (tailer.start, tailer.end) == (FIRST, FIRST + 2)
        assert tailer.read() == [Entry(FIRST + n - 1, ENTRY % n) for n in (1, 2)]


def test_the_queue_command() -> None:
    with answering(Rfc().answer) as url:
        ended = tool("queue", "dump", url)
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.count("body:") == 2


def test_the_sending_arrow() -> None:
    with answering(Rfc().answer) as url:
        ended = tool("arrow", "send", url, "--count", "100")
    assert (ended.code, ended.stderr) == (0, "")


def test_the_receiving_arrow() -> None:
    with answering(Rfc().answer) as url:
        ended = tool("arrow", "receive", url, "--count", "2")
    assert (ended.code, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("event", "said", "command"),
    [
        ("createAppender", "reply: { }\n", ["arrow", "send", "--count", "1"]),
        ("submit", "what: now\nmore: lines\n", ["arrow", "send", "--count", "1"]),
        ("createTailer", "reply: { cid: x }\n", ["arrow", "receive", "--count", "1"]),
        ("hasNext", "index: x\nreply:\n  - a\n", ["arrow", "receive", "--count", "1"]),
        ("hasNext", "index: x\nreply:\n  - a\n", ["queue", "dump"]),
    ],
)
def test_a_malformed_reply_is_one_line(event: str, said: str, command: list[str]) -> None:
    with answering(Rfc(**{event: said}).answer) as url:
        ended = tool(*command, url)
    assert ended.code == 1
    lines = ended.stderr.splitlines()
    assert len(lines) == 1
    assert all("error: " in line and "a malformed reply: b'" in line for line in lines)


def test_a_reply_without_a_tid_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with Queue(f"csp://127.0.0.1:{port}/q") as queue:
            peer, _ = listener.accept()
            with peer:
                peer.sendall(document(b"--- !!meta-data\n", META))
                with pytest.raises(PeerError, match="a malformed reply"):
                    queue.last_index()
