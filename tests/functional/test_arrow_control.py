"""Lines between an arrow and its wrapper: `ready`, `flushed`, `sent N`, `stop`, silence."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast, run_pyfast
from support.control import Controlled, controlled
from support.judgement import assert_clean, assert_error
from support.pages_peer import Pages
from support.processes import Finished, Running, free_port, wait_until
from support.remote import serving
from support.scripted_peer import Event, ScriptedPeer, close_connection_plainly, detach_plainly
from support.server import Server, running_server


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path) as running:
        yield running


def receive(port: int, **changes: object) -> list[str]:
    return arguments("receive", port, **{"count": 0, **changes})


def send(port: int, count: int, **changes: object) -> None:
    assert_clean(run_pyfast(*arguments("send", port, count=count, **changes)))


@contextlib.contextmanager
def peer_for(scheme: str, directory: Path) -> Iterator[int]:
    if scheme == "csp":
        with serving(directory / "store") as port:
            yield port
    else:
        with running_server(directory) as running:
            yield running.port


KINDS = [
    {"scheme": "amqp"},
    {"scheme": "amqp", "connections": 2},
    {"scheme": "amqp", "transaction_size": 3},
    {"scheme": "csp"},
]


def test_ready_comes_before_anything_was_sent(server: Server, tmp_path: Path) -> None:
    with controlled(tmp_path, *receive(server.port, count=10)) as arrow:
        arrow.wait_ready()
        send(server.port, 10)
        end, report = arrow.end()
    assert_clean(end)
    assert (report["received"], report["complete"]) == (10, True)


def test_ready_means_that_credit_was_given(tmp_path: Path) -> None:
    with (
        ScriptedPeer(to_send=0) as peer,
        controlled(tmp_path, *receive(peer.port, credit_window=70)) as arrow,
    ):
        arrow.wait_ready()
        wait_until(lambda: peer.credit_seen == [70], "the peer has our credit")
        arrow.say("stop")
        arrow.end()


def test_a_sender_is_ready_when_it_is_attached(tmp_path: Path) -> None:
    words = arguments("send", 0, count=0)
    with ScriptedPeer(credit=0) as peer:
        words[words.index("port=0")] = f"port={peer.port}"
        with controlled(tmp_path, *words) as arrow:
            arrow.wait_ready()
            arrow.say("stop")
            end, report = arrow.end()
    assert_clean(end)
    assert (report["sent"], report["complete"]) == (0, True)


@pytest.mark.parametrize("size", [1, 100])
def test_the_sent_number_ends_the_receiver_when_it_is_reached(
    server: Server, tmp_path: Path, size: int
) -> None:
    with controlled(tmp_path, *receive(server.port, body_size=size)) as arrow:
        arrow.wait_ready()
        arrow.say("sent 300")
        send(server.port, 200, body_size=size)
        wait_until(lambda: arrow.records() == 200, "two hundred records")
        assert arrow.running.process.poll() is None
        send(server.port, 100, body_size=size)
        end, report = arrow.end()
    assert_clean(end)
    assert len(end.lines) == report["received"] == 300
    assert report["queue_empty"] is True


def test_the_sent_number_may_come_when_all_is_received(server: Server, tmp_path: Path) -> None:
    with controlled(tmp_path, *receive(server.port)) as arrow:
        arrow.wait_ready()
        send(server.port, 300)
        wait_until(lambda: arrow.records() == 300, "three hundred records")
        assert arrow.running.process.poll() is None
        arrow.say("sent 300")
        end, report = arrow.end()
    assert_clean(end)
    assert (report["received"], report["queue_empty"]) == (300, True)


def test_nothing_sent_is_a_number_too(server: Server, tmp_path: Path) -> None:
    with controlled(tmp_path, *receive(server.port)) as arrow:
        arrow.wait_ready()
        arrow.say("sent 0")
        end, report = arrow.end()
    assert_clean(end)
    assert (report["received"], report["queue_empty"], report["complete"]) == (0, True, True)


def test_stop_ends_in_order_and_reads_what_is_there(server: Server, tmp_path: Path) -> None:
    send(server.port, 40)
    with controlled(tmp_path, *receive(server.port, credit_window=1000)) as arrow:
        arrow.wait_ready()
        arrow.say("stop")
        end, report = arrow.end()
    assert_clean(end)
    assert len(end.lines) == report["received"] == 40
    assert (report["queue_empty"], report["complete"]) == (True, True)


def test_stop_leaves_what_is_beyond_the_credit(tmp_path: Path) -> None:
    # The peer has more for every credit, and one drain takes at most one window of it.
    with (
        ScriptedPeer() as peer,
        controlled(tmp_path, *receive(peer.port, credit_window=10)) as arrow,
    ):
        arrow.wait_ready()
        wait_until(lambda: arrow.records() > 0, "the first records")
        arrow.say("stop")
        end, report = arrow.end()
    assert_clean(end)
    assert report["queue_empty"] is False
    assert len(end.lines) == report["received"] == peer.sent


def test_a_count_ends_the_receiver_whatever_the_wrapper_said(
    server: Server, tmp_path: Path
) -> None:
    with controlled(tmp_path, *receive(server.port, count=50)) as arrow:
        arrow.wait_ready()
        arrow.say("sent 1000")
        send(server.port, 60)
        end, report = arrow.end()
    assert_clean(end)
    assert (report["received"], report["queue_empty"]) == (50, None)


def test_a_duration_does_not_end_a_controlled_receiver(server: Server, tmp_path: Path) -> None:
    with controlled(tmp_path, *receive(server.port, duration=1)) as arrow:
        arrow.wait_ready()
        with pytest.raises(subprocess.TimeoutExpired):
            arrow.running.process.wait(1.5)
        send(server.port, 5)
        arrow.say("sent 5")
        end, report = arrow.end()
    assert_clean(end)
    assert report["received"] == 5


def test_stop_ends_a_sender_in_order(server: Server, tmp_path: Path) -> None:
    words = arguments("send", server.port, count=0, duration=600, rate=1000)
    with controlled(tmp_path, *words) as arrow:
        arrow.wait_ready()
        wait_until(lambda: arrow.records() > 0, "the first records")
        arrow.say("sent 1", "stop")
        end, report = arrow.end()
    assert_clean(end)
    assert len(end.lines) == report["sent"] == report["accepted"] > 0
    assert report["complete"] is True


@pytest.mark.parametrize("kind", KINDS)
def test_a_sender_that_is_held_begins_at_start(tmp_path: Path, kind: dict[str, object]) -> None:
    """Its duration begins then, too."""
    with peer_for(str(kind["scheme"]), tmp_path) as port:
        words = arguments("send", port, count=0, duration=1, rate=300, **kind)
        with controlled(tmp_path, *words, first="hold") as arrow:
            arrow.wait_ready()
            # Long enough for one that is not held to send.
            time.sleep(0.1)
            start = time.time_ns() // 1_000_000
            arrow.say("start")
            end, report = arrow.end()
    assert_clean(end)
    assert report["sent"] > 200
    assert min(int(line.split(",")[0]) for line in end.lines) >= start


@pytest.mark.parametrize("kind", KINDS)
def test_no_message_is_due_at_the_end(tmp_path: Path, kind: dict[str, object]) -> None:
    """A rate of 1,000 is 1,000 messages in a second, the first at its begin."""
    with peer_for(str(kind["scheme"]), tmp_path) as port:
        words = arguments("send", port, count=0, duration=1, rate=1000, time_unit="us", **kind)
        with controlled(tmp_path, *words) as arrow:
            end, report = arrow.end()
    assert_clean(end)
    times = [int(line.split(",")[0]) for line in end.lines]
    assert 0 < report["sent"] == len(times) <= 1000
    assert max(times) - min(times) < 1_000_000


@pytest.mark.parametrize("kind", KINDS)
def test_stop_ends_a_sender_that_is_held(tmp_path: Path, kind: dict[str, object]) -> None:
    with peer_for(str(kind["scheme"]), tmp_path) as port:
        words = arguments("send", port, count=5, **kind)
        with controlled(tmp_path, *words, first="hold") as arrow:
            arrow.wait_ready()
            arrow.say("stop")
            end, report = arrow.end()
    assert_clean(end)
    assert report["sent"] == 0


UNKNOWN = [
    "",
    "sent",
    "sent ",
    "sent x",
    "sent -1",
    "sent 1x",
    "stopp",
    "STOP",
    "pause 3",
    "x" * 500,
]


def test_unknown_lines_say_nothing(server: Server, tmp_path: Path) -> None:
    with controlled(tmp_path, *receive(server.port)) as arrow:
        arrow.wait_ready()
        arrow.say(*UNKNOWN, "sent 9" + "9" * 30)
        send(server.port, 20)
        wait_until(lambda: arrow.records() == 20, "twenty records")
        assert arrow.running.process.poll() is None
        arrow.say("sent 20")
        end, report = arrow.end()
    assert_clean(end)
    assert report["received"] == 20


def test_a_line_may_come_in_pieces(server: Server, tmp_path: Path) -> None:
    with controlled(tmp_path, *receive(server.port)) as arrow:
        arrow.wait_ready()
        for piece in (b"se", b"nt ", b"1", b"2\nst"):
            arrow.socket.sendall(piece)
        send(server.port, 12)
        end, report = arrow.end()
    assert_clean(end)
    assert report["received"] == 12


@pytest.mark.parametrize("operation", ["send", "receive"])
def test_a_wrapper_that_is_gone_is_a_sigterm(
    server: Server, tmp_path: Path, operation: str
) -> None:
    words = arguments(operation, server.port, count=0, rate=100)
    with controlled(tmp_path, *words) as arrow:
        arrow.wait_ready()
        arrow.hang_up()
        end, report = arrow.end()
    assert_error(end, "interrupted by SIGTERM", code=128 + signal.SIGTERM)
    assert report["complete"] is False


def test_a_wrapper_that_goes_after_its_last_word_is_obeyed(server: Server, tmp_path: Path) -> None:
    with controlled(tmp_path, *receive(server.port)) as arrow:
        arrow.wait_ready()
        send(server.port, 10)
        arrow.say("sent 1000")
        arrow.hang_up()
        end, report = arrow.end()
    assert_clean(end)
    assert (report["received"], report["queue_empty"]) == (10, True)


def test_a_listening_arrow_hears_that_its_wrapper_is_gone(tmp_path: Path) -> None:
    port = free_port()
    words = receive(port, connection_mode="server", channel_mode="passive")
    with controlled(tmp_path, *words) as arrow:
        arrow.running.wait_until_listening(port)
        arrow.hang_up()
        end, _ = arrow.end()
    assert_error(end, "SIGTERM", code=128 + signal.SIGTERM)


def test_a_listening_arrow_hears_stop(tmp_path: Path) -> None:
    port = free_port()
    words = receive(port, connection_mode="server", channel_mode="passive")
    with controlled(tmp_path, *words) as arrow:
        arrow.running.wait_until_listening(port)
        arrow.say("stop")
        end, _ = arrow.end()
    assert_error(end, "told to stop before a peer connected")


@pytest.mark.parametrize("act", [detach_plainly, close_connection_plainly])
def test_a_peer_that_ends_in_order_ends_a_timed_receiver(tmp_path: Path, act: object) -> None:
    """Peer to peer the sender closes its link at the end of its duration."""
    with (
        ScriptedPeer(after=30, act=act, to_send=30) as peer,  # type: ignore[arg-type]
        controlled(tmp_path, *receive(peer.port, duration=1)) as arrow,
    ):
        end, report = arrow.end()
    assert_clean(end)
    assert (report["received"], report["queue_empty"]) == (30, None)


def test_the_descriptor_must_be_a_stream_socket() -> None:
    with open("/dev/null") as stream:
        words = [*receive(1), f"control-fd={stream.fileno()}"]
        with Running(pyfast(*words), pass_fds=(stream.fileno(),)) as running:
            assert_error(running.wait(), "control-fd", code=2)
    assert_error(run_pyfast(*receive(1), "control-fd=99"), "control-fd=99", code=2)
    assert_error(run_pyfast(*receive(1), "control-fd=x"), "control-fd", code=2)


class NoDrain(ScriptedPeer):
    """RabbitMQ 3.10, as far as it matters here: it must never be asked to drain."""

    def __init__(self, **script: object) -> None:
        super().__init__(**script)  # type: ignore[arg-type]
        self.was_drained = False

    def on_connection_bound(self, event: Event) -> None:
        event.connection.properties = {"product": "RabbitMQ", "version": "3.10.8"}
        event.connection.container = "rabbit@host"

    def on_link_flow(self, event: Event) -> None:
        if event.link.is_sender and event.link.drain_mode:
            self.was_drained = True
            event.session.close()


def test_a_peer_that_cannot_be_drained_is_not(tmp_path: Path) -> None:
    with (
        NoDrain(to_send=30) as peer,
        controlled(tmp_path, *receive(peer.port, credit_window=100)) as arrow,
    ):
        arrow.wait_ready()
        arrow.say("stop")
        end, report = arrow.end()
    assert_clean(end)
    assert not peer.was_drained
    assert (report["received"], report["queue_empty"]) == (30, None)
    assert report["peer"] == {
        "product": "RabbitMQ",
        "version": "3.10.8",
        "container": "rabbit@host",
        "address": "127.0.0.1",
        "port": peer.port,
    }


class SilentDrain(ScriptedPeer):
    """Never answers a drain: its link is not drained while it believes to have messages."""

    def on_sendable(self, event: Event) -> None:
        """Send nothing."""


def test_a_peer_that_does_not_answer_a_drain_is_left(tmp_path: Path) -> None:
    with SilentDrain() as peer, controlled(tmp_path, *receive(peer.port)) as arrow:
        arrow.wait_ready()
        arrow.say("stop")
        end, report = arrow.end()
    assert_clean(end)
    assert report["queue_empty"] is False
    assert report["peer"]["product"] is None


@pytest.mark.parametrize(("there", "empty"), [(3, True), (5, True), (6, False), (50, False)])
def test_only_a_drain_without_a_message_proves_an_empty_queue(
    tmp_path: Path, there: int, empty: bool
) -> None:
    with Pages(to_send=there) as peer, controlled(tmp_path, *receive(peer.port)) as arrow:
        arrow.wait_ready()
        arrow.say("stop")
        end, report = arrow.end()
    assert_clean(end)
    # A page, and then the one message that a second drain asks for.
    assert report["received"] == peer.sent == min(there, 6)
    assert report["queue_empty"] is empty


def test_a_sender_waits_for_credit_before_its_clock(tmp_path: Path) -> None:
    """The duration is not used up by a peer that is late with its credit."""

    class Late(ScriptedPeer):
        def on_link_opened(self, event: Event) -> None:
            self.link = event.link
            event.container.schedule(1.5, self)

        def on_timer_task(self, event: Event) -> None:
            self.link.flow(10_000_000)

    with (
        Late() as peer,
        controlled(
            tmp_path, *arguments("send", peer.port, count=0, duration=1, rate=1000)
        ) as arrow,
    ):
        end, report = arrow.end()
    assert_clean(end)
    assert report["sent"] > 0
    assert end.seconds >= 2.5


# -- over csp


def test_control_over_csp(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as port:
        words = receive(port, scheme="csp", tail_from="end", run_id="r")
        with controlled(tmp_path, *words) as arrow:
            arrow.wait_ready()
            send(port, 200, scheme="csp", run_id="r")
            wait_until(lambda: arrow.records() == 200, "two hundred records")
            assert arrow.running.process.poll() is None
            arrow.say("sent 200")
            end, report = arrow.end()
    assert_clean(end)
    assert (report["received"], report["queue_empty"]) == (200, True)
    unsaid = dict.fromkeys(("product", "version", "container"))
    assert report["peer"] == {**unsaid, "address": "127.0.0.1", "port": port}


HALF_SECOND = 500_000_000


def flushes(arrow: Controlled) -> Iterator[tuple[int, int]]:
    """Yield when the arrow says that it wrote its records, and their bytes, until it ends."""
    while (line := arrow.hear()) != "(closed)":
        word, time, size = line.split()
        assert word == "flushed"
        yield int(time), int(size)


def assert_told(told: list[tuple[int, int]], end: Finished) -> None:
    """Each half second was told of once, by whole lines, and at the end all of them."""
    halves = [time // HALF_SECOND for time, _ in told[:-1]]
    assert halves == sorted(set(halves))
    assert told == sorted(told)
    assert all(size == 0 or end.stdout[size - 1] == "\n" for _, size in told)
    assert told[-1][1] == len(end.stdout)


@pytest.mark.parametrize("kind", KINDS)
def test_a_receiver_tells_what_it_has_written(tmp_path: Path, kind: dict[str, object]) -> None:
    scheme = str(kind["scheme"])
    with (
        peer_for(scheme, tmp_path) as port,
        controlled(tmp_path, *receive(port, **kind)) as arrow,
    ):
        arrow.wait_ready()
        lines = flushes(arrow)
        told = [next(lines)]
        assert told[0][1] == 0
        send(port, 30, scheme=scheme)
        while told[-1][1] == 0:
            told.append(next(lines))
        arrow.say("sent 30")
        told += lines
        end, report = arrow.end()
    assert_clean(end)
    assert len(end.lines) == report["received"] == 30
    assert_told(told, end)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sender_tells_what_it_has_written(tmp_path: Path, kind: dict[str, object]) -> None:
    with peer_for(str(kind["scheme"]), tmp_path) as port:
        words = arguments("send", port, count=0, rate=300, **kind)
        with controlled(tmp_path, *words) as arrow:
            arrow.wait_ready()
            lines = flushes(arrow)
            told = [next(lines)]
            while told[-1][1] == told[0][1]:
                told.append(next(lines))
            arrow.say("stop")
            told += lines
            end, report = arrow.end()
    assert_clean(end)
    assert len(end.lines) == report["sent"] > 0
    assert_told(told, end)


def test_stop_over_csp(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as port:
        send(port, 50, scheme="csp")
        with controlled(tmp_path, *receive(port, scheme="csp", duration=1)) as arrow:
            arrow.wait_ready()
            wait_until(lambda: arrow.records() == 50, "fifty records")
            arrow.say("stop")
            end, report = arrow.end()
    assert_clean(end)
    assert (report["received"], report["queue_empty"]) == (50, True)


def test_stop_over_csp_leaves_what_was_not_asked_for(tmp_path: Path) -> None:
    with serving(tmp_path / "store") as port:
        send(port, 5000, scheme="csp")
        with controlled(tmp_path, *receive(port, scheme="csp", credit_window=3)) as arrow:
            arrow.say("stop")
            end, report = arrow.end()
    assert_clean(end)
    assert len(end.lines) == report["received"] < 5000
    assert report["queue_empty"] is False


def test_a_wrapper_that_is_gone_over_csp(tmp_path: Path) -> None:
    with (
        serving(tmp_path / "store") as port,
        controlled(tmp_path, *receive(port, scheme="csp")) as arrow,
    ):
        arrow.wait_ready()
        arrow.hang_up()
        end, _ = arrow.end()
    assert_error(end, "SIGTERM", code=128 + signal.SIGTERM)
