"""Requests and replies: at our server, between peers, and with a responder of the test."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.arrows import arguments, run_pyfast
from support.clients import Clients
from support.control import controlled
from support.documents import parsed
from support.judgement import assert_clean
from support.processes import Finished, run
from support.server import Server, running_server

from quiver_fast.errors import EXIT_THRESHOLD


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def path(request: pytest.FixtureRequest) -> str:
    return f"q-{abs(hash(request.node.name))}"


def quiver(*words: str) -> Finished:
    return run([sys.executable, "-m", "quiver_fast.cli.pair.command", *words], 90)


def measured(*words: str) -> dict[str, Any]:
    done = quiver("--request-reply", "--json", "--quiet", *words)
    assert done.code == 0, done.stderr
    document = parsed(done.stdout)
    assert document["complete"] is True
    return document


def account(document: dict[str, Any]) -> dict[str, int]:
    """Return the counts of the requests, all of which are accounted for."""
    section = document["sender"]["request_reply"]
    counts = {key: value for key, value in section.items() if isinstance(value, int)}
    assert counts["requests"] == counts["replies"] + counts["timed_out"] + counts["waiting"]
    settled = document["sender"]["settlement"]
    assert (settled["all"]["count"], settled["unmatched"]) == (counts["replies"], 0)
    assert settled["unsettled"] == counts["timed_out"] + counts["waiting"]
    return counts


def none_but(**counts: int) -> dict[str, int]:
    names = ("requests", "replies", "timed_out", "waiting", "late", "unanswered", "duplicate")
    return dict.fromkeys((*names, "foreign"), 0) | counts


@pytest.mark.parametrize("ends", [(), ("--senders", "3", "--receivers", "2")])
@pytest.mark.parametrize("peers", [False, True])
def test_every_request_gets_its_reply(
    server: Server, path: str, ends: tuple[str, ...], peers: bool
) -> None:
    if peers and ends:
        ends = ("--senders", "2", "--receivers", "2")
    url = () if peers else (f"//127.0.0.1:{server.port}/{path}",)
    # The last one is beyond any machine's noise: no request times out.
    words = ("--rate", "300", "--count", "300", "--reply-timeout", "1h")
    document = measured(*url, *ends, *words)
    assert account(document) == none_but(requests=300, replies=300)
    section = document["sender"]["request_reply"]
    assert (section["back"]["count"], section["work"]["count"]) == (300, 300)
    assert document["delivery"]["received"] == 300
    replied = [
        one["arrow"]["request_reply"]["replied"]
        for one in document.get("ends") or [document["receiver"]]
        if one["config"]["operation"] == "receive"
    ]
    assert sum(replied) == 300


def test_the_queue_may_be_purged_and_figures_be_limited(server: Server, path: str) -> None:
    url = f"//127.0.0.1:{server.port}/{path}"
    words = ("--rate", "100", "--count", "20", "--reply-timeout", "1h", "--purge")
    done = quiver("--request-reply", "--quiet", url, *words, "--fail-if", "round_trip_p50>3600s",
                  "--fail-if", "timed_out>0", "--fail-if", "foreign_replies<1")  # fmt: skip
    assert done.code == EXIT_THRESHOLD
    assert "foreign_replies" in done.stderr
    assert "timed_out" not in done.stderr


def test_large_replies_come_in_several_frames(server: Server, path: str) -> None:
    url = f"//127.0.0.1:{server.port}/{path}"
    words = ("--rate", "50", "--count", "40", "--body-size", "300000", "--reply-timeout", "1h")
    assert account(measured(url, *words)) == none_but(requests=40, replies=40)


def test_work_is_part_of_the_round_trip(server: Server, path: str) -> None:
    url = f"//127.0.0.1:{server.port}/{path}"
    words = ("--rate", "20", "--count", "20", "--work", "5ms", "--reply-timeout", "1h")
    document = measured(url, *words)
    assert account(document) == none_but(requests=20, replies=20)
    assert document["sender"]["request_reply"]["work"]["min_us"] >= 4990
    assert document["sender"]["settlement"]["all"]["min_us"] >= 5000


def test_requests_that_wait_too_long_are_timed_out(server: Server, path: str) -> None:
    url = f"//127.0.0.1:{server.port}/{path}"
    # Five of 20 requests a second can be answered.
    words = ("--rate", "20", "--count", "20", "--work", "200ms", "--reply-timeout", "500ms")
    done = quiver("--request-reply", "--json", "--quiet", url, *words)
    counts = account(parsed(done.stdout))
    assert done.code == 0, done.stderr
    assert counts["timed_out"] >= 10
    assert counts["timed_out"] == counts["late"] + counts["unanswered"]
    assert f"{counts['timed_out']} of 20 requests had no reply in time" in done.stderr


def test_late_duplicate_and_foreign_replies_are_counted(
    server: Server, tmp_path: Path, path: str
) -> None:
    words = arguments("send", server.port, path=path, count=3, rate=1000, record_format="v2",
                      request_reply=1, reply_timeout=1_000_000, run_id="run")  # fmt: skip
    with Clients(server.port) as clients, controlled(tmp_path, *words) as arrow:
        connection = clients.connect()
        requests = clients.consumer(connection, path, credit=10)
        replies = clients.producer(connection, None)
        first, second, _ = (each.message for each in requests.take(3))
        assert [first.id, second.id] == ["run-1", "run-2"]
        ids = (first.id, first.id, "run-4", "other-1", "run-x", None, 7)
        for reply_id in ids:
            replies.publish("", address=first.reply_to, correlation_id=reply_id)
        # Nobody answers the third one, and the second one is too late.
        clients.pause(1.2)
        replies.send("", address=first.reply_to, correlation_id=second.id)
        end, report = arrow.end()
    found = report["request_reply"]
    assert_clean(end)
    assert (found["in_time"], found["duplicate"], found["foreign"]) == (1, 1, 5)
    assert (found["timed_out"], found["back"], found["work"]) == (2, [], [])
    assert [line for line in end.lines if line[0] in "Ss"] == [
        line for line in end.lines if line.startswith("S1,")
    ]


def test_a_responder_that_ends_leaves_timed_out_requests(
    server: Server, tmp_path: Path, path: str
) -> None:
    words = {"path": path, "record_format": "v2", "request_reply": 1, "run_id": "r"}
    sending = arguments("send", server.port, count=60, rate=100, reply_timeout=300_000, **words)
    receiving = arguments("receive", server.port, count=20, **words)
    with controlled(tmp_path, *sending) as requester:
        responder = run_pyfast(*receiving)
        end, report = requester.end()
    assert_clean(responder)
    assert_clean(end)
    found = report["request_reply"]
    assert found["in_time"] + found["late"] == 20
    assert found["in_time"] + found["timed_out"] == 60


def test_a_reply_to_nobody_is_not_delivered(server: Server, tmp_path: Path, path: str) -> None:
    report = tmp_path / "report"
    words = arguments("receive", server.port, path=path, count=3, record_format="v2",
                      request_reply=1, report_file=report)  # fmt: skip
    with Clients(server.port) as clients:
        producer = clients.producer(clients.connect(), path)
        for reply_to in (None, path + "-replies", None):
            times = {"SendTime": int(1000 * time.time())}
            producer.publish("", id="1", reply_to=reply_to, properties=times)
        assert_clean(run_pyfast(*words))
        told = json.loads(report.read_text())
        assert (told["received"], told["request_reply"]["replied"]) == (3, 1)
        replies = clients.consumer(clients.connect(), path + "-replies", credit=1)
        reply = replies.take_one().message
    assert (reply.correlation_id, reply.address, len(reply.body)) == ("1", path + "-replies", 100)
    assert {"SendTime", "ReceiveTime"} == reply.properties.keys()


@pytest.mark.parametrize(
    "words",
    [
        ("--rate", "0"),
        ("--rate", "10", "--streaming"),
        ("--rate", "10", "--transaction-size", "5"),
        ("--rate", "10", "--presettled"),
        ("--rate", "10", "--reconnect"),
        ("--rate", "10", "--release", "1%"),
        ("--rate", "10", "--record-format", "v3"),
    ],
)
def test_options_that_do_not_go_with_it(words: tuple[str, ...]) -> None:
    done = quiver("//127.0.0.1:1/q0", "--request-reply", *words)
    assert (done.code, done.stderr.count("\n")) == (2, 1)
    assert "--request-reply" in done.stderr


def test_a_time_out_needs_requests() -> None:
    done = quiver("//127.0.0.1:1/q0", "--reply-timeout", "1s")
    assert (done.code, done.stderr) == (2, "quiver: error: --reply-timeout needs --request-reply\n")
