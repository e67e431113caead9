"""Receivers that are slow, pause, release or reject because they were asked to: at our server."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast, run_pyfast
from support.control import controlled
from support.judgement import assert_clean, assert_error
from support.processes import Running, free_port, wait_until
from support.server import Server, running_server

from quiver_fast.arrow.amqp.outcome_text import modified_state
from quiver_fast.conform.wire.codec import Value, decode
from quiver_fast.conform.wire.frames import plain
from quiver_fast.receiving import Modify

HOUR = 3_600_000_000


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    return f"q-{abs(hash(request.node.name))}"


def send(server: Server, path: str, count: int, **changes: object) -> None:
    assert_clean(run_pyfast(*arguments("send", server.port, path=path, count=count, **changes)))


def receive(server: Server, path: str, **changes: object) -> list[str]:
    return arguments("receive", server.port, path=path, **{"count": 0, **changes})


def check_left(server: Server, path: str, count: int) -> None:
    """See that exactly so many messages are in the queue."""
    send(server, path, 1)
    end = run_pyfast(*receive(server, path, count=count + 1))
    assert_clean(end)
    assert len(end.lines) == count + 1


def test_a_slow_consumer_takes_one_message_at_a_time(
    server: Server, tmp_path: Path, path: str
) -> None:
    send(server, path, 12)
    with controlled(tmp_path, *receive(server, path, receive_delay=HOUR)) as arrow:
        wait_until(lambda: arrow.records() == 1, "the record of the first message")
        arrow.say("stop")
        end, report = arrow.end()
    assert_clean(end)
    assert (len(end.lines), report["received"], report["queue_empty"]) == (1, 1, False)
    check_left(server, path, 11)


def test_a_pause_leaves_messages_where_they_are(server: Server, tmp_path: Path, path: str) -> None:
    send(server, path, 12)
    with controlled(tmp_path, *receive(server, path, pause="1us:1h", credit_window=5)) as arrow:
        arrow.wait_ready()
        arrow.say("stop")
        end, report = arrow.end()
    assert_clean(end)
    assert (end.lines, report["received"], report["queue_empty"]) == ([], 0, False)
    check_left(server, path, 12)


def test_a_signal_ends_a_pause(server: Server, path: str) -> None:
    send(server, path, 12)
    with Running(pyfast(*receive(server, path, receive_delay=HOUR))) as arrow:
        wait_until(lambda: arrow.stdout_so_far().count("\n") == 1, "the first record")
        arrow.process.send_signal(signal.SIGTERM)
        end = arrow.wait()
    assert (end.code, len(end.lines)) == (143, 1)
    check_left(server, path, 11)


@pytest.mark.parametrize("size", [1, 200_000])
@pytest.mark.parametrize(
    "slow", [{"receive_delay": 50}, {"pause": "2ms:1ms"}, {"receive_delay": 50, "pause": "2ms:1ms"}]
)
def test_every_message_comes_once(
    server: Server, path: str, slow: dict[str, object], size: int
) -> None:
    count = 400 if size == 1 else 20
    send(server, path, count, body_size=size, record_format="v2")
    end = run_pyfast(*receive(server, path, count=count, record_format="v2", **slow))
    assert_clean(end)
    assert [line.split(",")[0] for line in end.lines] == [str(1 + n) for n in range(count)]


def test_many_ends_are_slow_each(server: Server, tmp_path: Path, path: str) -> None:
    words = receive(server, path, connections=3, links=2, receive_delay=100, pause="5ms:1ms")
    with controlled(tmp_path, *words) as arrow:
        arrow.wait_ready()
        send(server, path, 600)
        arrow.say("sent 600")
        end, report = arrow.end()
    assert_clean(end)
    assert (len(end.lines), report["received"], report["queue_empty"]) == (600, 600, True)


def test_a_peer_that_ends_takes_back_what_waits() -> None:
    port = free_port()
    words = arguments("receive", port, connection_mode="server", channel_mode="passive", count=0,
                      receive_delay=HOUR, duration=1)  # fmt: skip
    with Running(pyfast(*words)) as receiver:
        wait_until(lambda: receiver.listens_on(port), "the receiver listens")
        with Running(pyfast(*arguments("send", port, count=0, duration=1))) as sender:
            wait_until(lambda: sender.stdout_so_far() != "", "the first records")
            sender.process.send_signal(signal.SIGTERM)
            assert sender.wait().code == 143
        end = receiver.wait()
    assert (end.code, len(end.lines)) == (0, 1)


@pytest.mark.parametrize(
    ("shares", "parts"),
    [
        ({"release": "10%", "reject": "5%"}, (100_000, 50_000)),
        ({"release": "99%"}, (990_000, 0)),
        ({"reject": "0.3%"}, (0, 3000)),
        ({"modify": "12%:failed", "reject": "2%"}, (0, 20_000, 120_000)),
        (
            {"release": "10%", "modify": "10%:x-opt-why=it", "reject": "2%"},
            (100_000, 20_000, 100_000),
        ),
    ],
)
def test_shares_are_exact(
    server: Server, tmp_path: Path, path: str, shares: dict[str, object], parts: tuple[int, ...]
) -> None:
    send(server, path, 1000, record_format="v2")
    report = tmp_path / "report.json"
    end = run_pyfast(
        *receive(server, path, count=1000, record_format="v2", report_file=report, **shares)
    )
    assert_clean(end)
    found = json.loads(report.read_text())
    keys = ("received", "released", "rejected", "modified")
    received, released, rejected, modified = (found[key] for key in keys)
    assert received + rejected == 1000
    deliveries = 1000 + released + modified
    shares_of = [deliveries * part // 1_000_000 for part in (*parts, 0)[:3]]
    assert [released, rejected, modified] == shares_of
    # A released message is recorded once, when it has come again.
    ids = [line.split(",")[0] for line in end.lines]
    assert len({*ids}) == len(ids) == received
    check_left(server, path, 0)


def test_shares_are_of_all_ends_of_a_process(server: Server, tmp_path: Path, path: str) -> None:
    words = receive(server, path, connections=3, links=2, release="1%", reject="2%")
    with controlled(tmp_path, *words) as arrow:
        arrow.wait_ready()
        send(server, path, 600)
        arrow.say("sent 600")
        end, report = arrow.end()
    assert_clean(end)
    deliveries = 600 + report["released"]
    assert (report["released"], report["rejected"]) == (deliveries // 100, deliveries // 50)
    assert len(end.lines) == report["received"] == 600 - report["rejected"]
    assert sum(report["ends"]["counts"]) == report["received"]


def test_undeliverable_messages_stay_for_other_receivers(
    server: Server, tmp_path: Path, path: str
) -> None:
    send(server, path, 1000, record_format="v2")
    report = tmp_path / "report.json"
    words = {"record_format": "v2", "report_file": report, "modify": "5%:failed:undeliverable"}
    end = run_pyfast(*receive(server, path, count=1000, **words))
    assert_clean(end)
    found = json.loads(report.read_text())
    assert (found["received"], found["modified"], len(end.lines)) == (950, 50, 950)
    check_left(server, path, 50)


def test_fields_of_modified_messages() -> None:
    fields = (("x-opt-why", "it"), ("x-n", ""))
    for modify in (Modify(1, True, False, fields), Modify(1, False, True), Modify(1)):
        value = decode(modified_state(modify))[0]
        assert value.value[0] == Value("ulong", 0x27)
        flags = [modify.failed, modify.undeliverable]
        found = plain(value.value[1])
        assert found == ([*flags, dict(fields)] if modify.annotations else flags)


def test_what_is_settled_cannot_be_released() -> None:
    port = free_port()
    modes = {"connection_mode": "server", "channel_mode": "passive"}
    with Running(pyfast(*arguments("send", port, presettled=1, **modes))) as sender:
        wait_until(lambda: sender.listens_on(port), "the sender listens")
        end = run_pyfast(*arguments("receive", port, release="50%"))
    assert_error(end, "message 1 came settled: it cannot be refused")
