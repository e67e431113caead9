"""The Python client against the server."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.measured import Figure
from support.processes import free_port
from support.remote import serving

from quiver_fast.errors import LinkError, PeerError, UsageError
from quiver_fast.remote.client import Entry, Queue, quote


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("queues")) as port:
        yield f"csp://127.0.0.1:{port}"


def test_submit_and_read(server: str) -> None:
    with Queue(f"{server}/plain") as queue:
        assert queue.last_index() == -1
        with queue.appender() as appender:
            assert appender.last_index() == -1
            index = appender.submit("{ a: b }")
            assert appender.submit(b"\x00\xff") == index + 1
            assert appender.last_index() == index + 1
        assert queue.last_index() == index + 1
        with queue.tailer() as tailer:
            assert tailer.start == index
            assert tailer.read() == [
                Entry(index, "{ a: b }"),
                Entry(index + 1, b"\x00\xff"),
            ]
            assert tailer.read() == []


def test_many_values_and_an_iterator(server: str) -> None:
    with Queue(f"{server}/many") as queue, queue.appender() as appender, queue.tailer() as tailer:
        indexes = list(appender.submit_all((str(n) for n in range(5000)), window=300))
        assert indexes == list(range(indexes[0], indexes[0] + 5000))
        entries = list(itertools.islice(tailer, 5000))
        assert [entry.value for entry in entries] == [str(n) for n in range(5000)]
        again = queue.tailer(indexes[4990])
        assert [entry.index for entry in again.read()] == indexes[4990:]


@given(st.lists(st.one_of(st.text(max_size=50), st.binary(max_size=50)), min_size=1, max_size=5))
@settings(deadline=None, max_examples=examples(100), suppress_health_check=list(HealthCheck))
def test_any_text_and_any_bytes_come_back(server: str, values: list[str | bytes]) -> None:
    sent = [quote(value) if isinstance(value, str) else value for value in values]
    with Queue(f"{server}/any") as queue, queue.appender() as appender:
        first, *_ = list(appender.submit_all(sent))
        entries = queue.tailer(first).read()
    assert [entry.value for entry in entries] == sent


@pytest.mark.parametrize("value", ["{\n  a: b\n}", "'a\r\n    b'", "'a\r    b\n\n'", '"\n  - c"'])
def test_lines_come_back_as_they_were(server: str, value: str) -> None:
    with Queue(f"{server}/lines") as queue, queue.appender() as appender:
        index = appender.submit(value)
        assert queue.tailer(index).read()[0].value == value


def test_a_refusal_says_why_and_leaves_the_connection(server: str) -> None:
    with Queue(f"{server}/refusals") as queue, queue.appender() as appender:
        with pytest.raises(LinkError, match="IllegalArgumentException"):
            appender.submit("{ a: ")
        assert appender.submit("ok") == queue.last_index()
        with pytest.raises(LinkError, match="after the end"):
            queue.tailer(2**62).read()


def test_a_tailer_goes_on_where_it_was_after_the_server_was_gone(tmp_path: Path) -> None:
    with serving(tmp_path) as port:
        queue = Queue(f"csp://127.0.0.1:{port}/q")
        queue.appender().submit("one")
        tailer = queue.tailer(reconnect=10)
        assert [entry.value for entry in tailer.read()] == ["one"]
    with pytest.raises(PeerError):
        Queue(f"csp://127.0.0.1:{port}/q")
    with serving(tmp_path, port=port):
        with Queue(f"csp://127.0.0.1:{port}/q") as other:
            other.appender().submit("two")
        assert [entry.value for entry in tailer.read()] == ["two"]
        queue.close()


def test_the_parts_of_a_queue_do_not_meet_after_a_reconnection(tmp_path: Path) -> None:
    """A cid counts on its own connection only: the next one gives the same numbers again."""
    with serving(tmp_path) as port:
        queue = Queue(f"csp://127.0.0.1:{port}/q")
        appender = queue.appender()
        one, two = queue.tailer(reconnect=10), queue.tailer(reconnect=10)
        indexes = list(appender.submit_all(["a", "b"]))
        assert [entry.value for entry in one.read(batch=1)] == ["a"]
    with serving(tmp_path, port=port):
        assert [entry.value for entry in two.read(batch=1)] == ["a"]
        # Whether its submit took effect is for the caller to find out, so it stays lost.
        with pytest.raises(PeerError, match="lost"):
            appender.submit("never")
        assert [entry.value for entry in one.read()] == ["b"]
        assert [entry.value for entry in two.read()] == ["b"]
        assert queue.last_index() == indexes[-1]
        with queue.appender() as again:
            assert again.submit("c") == indexes[-1] + 1
        assert [[entry.value for entry in tailer.read()] for tailer in (one, two)] == [["c"]] * 2
        queue.close()
        with pytest.raises(PeerError, match="closed"):
            queue.appender()


def seconds_to_give_up(directory: Path) -> float:
    """Have a tailer look for a server that is gone, for half a second; return how long it did."""
    with serving(directory) as port:
        tailer = Queue(f"csp://127.0.0.1:{port}/q").tailer(reconnect=0.5)
    started = time.monotonic()
    with pytest.raises(PeerError, match="cannot connect"):
        tailer.read()
    return time.monotonic() - started


def test_a_tailer_gives_up(tmp_path: Path) -> None:
    assert seconds_to_give_up(tmp_path) > 0.2


@pytest.mark.measured
def test_a_tailer_gives_up_in_time(tmp_path: Path, figure: Figure) -> None:
    figure("time of half a second's tries", seconds_to_give_up(tmp_path), at_most=5, unit="s")


def test_an_iterator_goes_on_by_index_over_restarts(tmp_path: Path) -> None:
    found: list[Entry] = []
    port = free_port()
    with serving(tmp_path, port=port):
        tailer = Queue(f"csp://127.0.0.1:{port}/q").tailer(reconnect=30)
    reader = threading.Thread(target=lambda: found.extend(itertools.islice(tailer, 60)))
    indexes: list[int] = []
    for turn in range(3):
        with serving(tmp_path, port=port):
            if turn == 0:
                reader.start()
            with Queue(f"csp://127.0.0.1:{port}/q") as queue, queue.appender() as appender:
                indexes += appender.submit_all([f"{turn}-{n}" for n in range(20)])
    if reader.is_alive():
        with serving(tmp_path, port=port):
            reader.join(60)
    assert [entry.index for entry in found] == indexes


def test_a_url_of_something_else() -> None:
    bad_ports = ("csp://h:99999/q", "csp://h:x/q", "csp://[h/q")
    for url in ("amqp://h/q", "csp:///q", "csp://h", "q", *bad_ports):
        with pytest.raises(UsageError):
            Queue(url)
    with pytest.raises(PeerError, match="cannot connect"):
        Queue(f"csp://127.0.0.1:{free_port()}/q")
