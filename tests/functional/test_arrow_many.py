"""The arrow with `connections`, `links` and `queues`: many ends in one process, end to end."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from support.arrows import arguments, pyfast, run_pyfast
from support.control import controlled
from support.judgement import assert_clean, assert_error
from support.processes import Running, free_port, run, wait_until
from support.server import Server, running_server

FIRST_IDS = 10**13
CONNECTIONS, LINKS, COUNT = 50, 2, 10_000
MANY = {"connections": CONNECTIONS, "links": LINKS}


@pytest.fixture(name="server")
def a_server(tmp_path: Path) -> Iterator[Server]:
    with running_server(tmp_path) as server:
        yield server


def lines(path: Path) -> list[list[str]]:
    found = path.read_text().splitlines()
    return [line.split(",") for line in found if not line.startswith("@")]


class Arrow:
    """An arrow whose records and report are kept."""

    def __init__(self, stack: ExitStack, folder: Path, name: str, *words: str) -> None:
        self.records = folder / f"{name}.csv"
        self._report = folder / f"{name}.json"
        output = stack.enter_context(self.records.open("wb"))
        command = pyfast(*words, f"report-file={self._report}")
        self.process = stack.enter_context(Running(command, stdout=output))

    def end(self) -> dict[str, Any]:
        end = self.process.wait(90)
        assert (end.code, end.stderr) == (0, "")
        report: dict[str, Any] = json.loads(self._report.read_text())
        return report


@pytest.mark.parametrize("count", [100, 2000, 20_000])
def test_settled_messages_end_the_run_without_a_word_of_the_peer(
    server: Server, count: int
) -> None:
    words = arguments("send", server.port, connections=2, count=count, presettled=1)
    end = run(pyfast(*words), timeout=60)
    assert (end.code, end.stdout.count("\n") - end.stdout.count("@")) == (0, count)


@pytest.mark.parametrize("record_format", ["v3", "v2"])
def test_two_processes_of_each_side_at_a_server(
    server: Server, tmp_path: Path, record_format: str
) -> None:
    common = {
        **MANY, "count": COUNT, "queues": 4, "path": "many-%d", "record_format": record_format,
        "settlement": int(record_format == "v2"),
    }  # fmt: skip
    with ExitStack() as stack:
        receivers = [
            Arrow(stack, tmp_path, f"r{first}", *arguments(
                "receive", server.port, first_end=first, **(common | {"settlement": 0})))
            for first in (0, 100)
        ]  # fmt: skip
        senders = [
            Arrow(stack, tmp_path, f"s{first}", *arguments(
                "send", server.port, first_end=first, **common))
            for first in (0, 100)
        ]  # fmt: skip
        sent = [one.end() for one in senders]
        received = [one.end() for one in receivers]
    assert [one["ends"] for one in sent] == [
        {"first": first, "counts": [COUNT // 100] * 100} for first in (0, 100)
    ]
    assert [one["accepted"] for one in sent] == [COUNT, COUNT]
    assert [sum(one["ends"]["counts"]) for one in received] == [COUNT, COUNT]
    all_sent = [line for one in senders for line in lines(one.records)]
    all_received = [line for one in receivers for line in lines(one.records)]
    if record_format == "v3":
        assert len(all_sent) == len(all_received) == 2 * COUNT
        assert sorted(line[0] for line in all_sent) == sorted(line[0] for line in all_received)
        return
    ids = sorted(int(line[0]) for line in all_sent if line[0][0] not in "Ss")
    settled = sorted(int(line[0][1:]) for line in all_sent if line[0][0] in "Ss")
    assert ids == settled == sorted(int(line[0]) for line in all_received)
    assert ids == [end * FIRST_IDS + n for end in range(200) for n in range(1, COUNT // 100 + 1)]


@pytest.mark.parametrize("listens", ["send", "receive"])
def test_peers_connect_to_a_process_of_either_role(tmp_path: Path, listens: str) -> None:
    port = free_port()
    words = {
        side: arguments(
            side, port, **MANY, count=COUNT, record_format="v2",
            connection_mode="server" if side == listens else "client",
            channel_mode="passive" if side == listens else "active",
        )
        for side in ("send", "receive")
    }  # fmt: skip
    other = "send" if listens == "receive" else "receive"
    with ExitStack() as stack:
        listener = Arrow(stack, tmp_path, listens, *words[listens])
        wait_until(lambda: listener.process.listens_on(port), "the arrow listens")
        client = Arrow(stack, tmp_path, other, *words[other])
        reports = {other: client.end(), listens: listener.end()}
    assert reports["send"]["accepted"] == reports["receive"]["received"] == COUNT
    sent, received = (lines(tmp_path / f"{side}.csv") for side in ("send", "receive"))
    assert sorted(line[0] for line in sent) == sorted(line[0] for line in received)
    assert len({line[0] for line in sent}) == COUNT


def test_a_wrapper_says_when_all_have_all(server: Server, tmp_path: Path) -> None:
    words = arguments("receive", server.port, connections=5, links=3, count=0)
    with controlled(tmp_path, *words) as arrow:
        arrow.wait_ready()
        assert_clean(run_pyfast(*arguments("send", server.port, connections=3, count=600)))
        arrow.say("sent 600")
        end, report = arrow.end()
    assert_clean(end)
    assert (report["received"], report["queue_empty"]) == (600, True)


def test_a_signal_ends_all_in_order(server: Server, tmp_path: Path) -> None:
    with ExitStack() as stack:
        words = arguments("send", server.port, **MANY, count=0, rate=500)
        sender = Arrow(stack, tmp_path, "s", *words)
        wait_until(lambda: sender.records.stat().st_size > 0, "messages are sent")
        sender.process.send_signal(signal.SIGINT)
        end = sender.process.wait(30)
    assert_error(end, "interrupted by SIGINT", code=130)
    report = json.loads((tmp_path / "s.json").read_text())
    assert report["sent"] == report["accepted"] == len(lines(sender.records)) > 0


def test_the_connection_that_fails_is_named(tmp_path: Path) -> None:
    with running_server(tmp_path, max_connections=3) as server:
        end = run_pyfast(*arguments("send", server.port, connections=5, duration=5))
        assert_error(end, "(connection ", " of 5)")
    with running_server(tmp_path, max_sessions=3) as server:
        end = run_pyfast(*arguments("send", server.port, links=5, duration=5))
        assert_error(end, "(connection 1 of 1)", "links=5 need one each")


def test_a_server_that_dies_is_one_line(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(running_server(tmp_path))
        words = arguments("receive", server.port, **MANY, count=0)
        receiver = Arrow(stack, tmp_path, "r", *words)
        wait_until(
            lambda: len(server.process.net_connections("tcp")) > CONNECTIONS, "all are connected"
        )
        server.kill()
        assert_error(receiver.process.wait(30), "(connection ", f" of {CONNECTIONS})", within=60)


def test_a_side_that_listens_says_how_many_came(tmp_path: Path) -> None:
    port = free_port()
    words = arguments(
        "receive", port, connections=3, count=0, connection_mode="server", channel_mode="passive"
    )
    with controlled(tmp_path, *words) as arrow:
        wait_until(lambda: _connects(port), "the arrow listens")
        arrow.say("stop")
        end, _ = arrow.end()
    assert_error(end, "told to stop before all connections to 127.0.0.1:")


def _connects(port: int) -> bool:
    # A probe that says nothing is no peer.
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_a_limit_of_open_files_is_raised_or_told() -> None:
    few = ["sh", "-c", 'ulimit -Sn 64; ulimit -Hn 128; exec "$@"', "sh"]
    end = run([*few, *pyfast(*arguments("send", 1, connections=50))])
    # The soft limit is no obstacle: the peer is.
    assert_error(end, "cannot connect to 127.0.0.1:1")
    end = run([*few, *pyfast(*arguments("send", 1, connections=500, count=0))])
    assert_error(end, "connections=500 take 532 open files", "128", "ulimit")


@pytest.mark.parametrize(
    ("changes", "fragment"),
    [
        ({"transaction_size": 5}, "transaction-size"),
        ({"streaming": 1}, "streaming"),
        ({"scheme": "csp"}, "scheme=csp"),
        ({"count": 3}, "count=3 is less than 1 for each of 4 links"),
        ({"queues": 2}, "a path with %d"),
        ({"connections": 0}, "connections"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(
    changes: dict[str, object], fragment: str
) -> None:
    words = arguments("send", 1, **{"connections": 2, "links": 2, **changes})
    assert_error(run_pyfast(*words), fragment, code=2)
