"""`quiver --fan-out`: real runs in which each receiver gets every message."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.documents import parsed
from support.processes import Finished, run
from support.server import Server, running_server

from quiver_fast.conform.wire.client import FrameClient
from quiver_fast.conform.wire.codec import Value

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
ANALYZE = (sys.executable, "-m", "quiver_fast.cli.analyze.command")
SECONDS = 120
NONE = ("unreceived", "lost", "duplicate", "foreign", "older")


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def fan_out(server: Server, address: str, *words: str) -> Finished:
    url = f"//127.0.0.1:{server.port}/{address}"
    return run([*QUIVER, url, "--fan-out", *words], SECONDS)


def rows_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    receivers = [end for end in document["ends"] if end["role"] == "receiver"]
    return [row for end in receivers for row in end["members"]]


@pytest.mark.parametrize(
    "words",
    [
        ("--processes", "2"),
        ("--processes", "7", "--settlement"),
        ("--streaming",),
        ("--presettled",),
        ("--transaction-size", "10"),
        ("--release", "10%"),
    ],
)
def test_each_receiver_gets_every_message(
    server: Server, tmp_path: Path, words: tuple[str, ...]
) -> None:
    end = fan_out(
        server, f"topic-{tmp_path.name}", "--senders", "2", "--receivers", "5", "--count",
        "1001", *words, "--json", "--output", str(tmp_path / "out"), "--fail-if", "lacking>0",
    )  # fmt: skip
    assert end.code == 0, end
    document = parsed(end.stdout)
    delivery = document["delivery"]
    assert (delivery["sent"], delivery["copies"], delivery["received"]) == (1001, 5005, 5005)
    assert [delivery[key] for key in NONE] == [0] * len(NONE)
    assert document["fan_out"]["lacking"] == 0
    assert document["fan_out"]["skew"]["seconds"] < SECONDS
    rows = rows_of(document)
    assert [row["delivery"]["sent"] for row in rows] == [1001] * 5
    assert [row["delivery"]["received"] for row in rows] == [1001] * 5
    again = parsed(run([*ANALYZE, str(tmp_path / "out"), "--json"], SECONDS).stdout)
    for key in ("fan_out", "delivery", "results"):
        assert again[key] == document[key]


def test_a_duration_tells_who_was_behind_when_the_sending_ended(
    server: Server, tmp_path: Path
) -> None:
    end = fan_out(
        server, "topic-late", "--receivers", "2", "--rate", "1k", "--duration", "2s", "--json",
        "--output", str(tmp_path / "out"), "--fail-if", "skew>60s", "--fail-if",
        "skew_messages>100k", "--fail-if", "queue-growth>500",
    )  # fmt: skip
    assert end.code == 0, end
    document = parsed(end.stdout)
    assert document["fan_out"]["skew"]["messages"] is not None
    assert document["delivery"]["received"] == document["delivery"]["copies"]
    assert document["queue_growth"] is None


def test_a_queue_shares_messages(server: Server, tmp_path: Path) -> None:
    end = fan_out(
        server, "shared", "--receivers", "3", "--count", "300", "--timeout", "2", "--json",
        "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert end.code == 1, end
    problem = "--fan-out: each message came once, not to each of 3 receivers: the address shares"
    assert end.stderr.splitlines()[-1].startswith(f"quiver: error: {problem}")
    document = parsed(end.stdout)
    assert not document["complete"]
    assert document["fan_out"]["lacking"] == 3
    assert document["delivery"]["unreceived"] == 600


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--queues", "2", "--senders", "2"), "--queues: each receiver gets all messages"),
        (("--record-format", "v3"), "--record-format v3: ids show"),
        (("--reject", "1%"), "--reject"),
        (("--reconnect",), "--reconnect"),
        (("--warmup", "1s"), "several senders or receivers"),
        (("--away", "1s", "--streaming"), "--away does not go with --streaming"),
        (("--away", "1s", "--processes", "2"), "--processes does not go with --away"),
    ],
)
def test_what_it_does_not_go_with(server: Server, words: tuple[str, ...], why: str) -> None:
    end = fan_out(server, "topic", "--receivers", "2", *words)
    assert end.code == 2, end
    assert why in end.stderr


def test_only_copies_wait_for_a_receiver(server: Server) -> None:
    url = f"//127.0.0.1:{server.port}/topic"
    end = run([*QUIVER, url, "--receivers", "2", "--away", "1s"], SECONDS)
    assert end.code == 2, end
    assert "--away needs --fan-out" in end.stderr


def test_peers_have_no_topic() -> None:
    end = run([*QUIVER, "--fan-out"], SECONDS)
    assert end.code == 2
    assert end.stderr.startswith("quiver: error: --fan-out needs a URL")


def test_a_receiver_that_is_away_gets_everything_later(server: Server, tmp_path: Path) -> None:
    """Its subscription keeps the messages, and ends with the run."""
    end = fan_out(
        server, "topic-away", "--receivers", "2", "--rate", "1k", "--duration", "3s", "--away",
        "1s", "--json", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert end.code == 0, end
    document = parsed(end.stdout)
    assert [document["delivery"][key] for key in NONE] == [0] * len(NONE)
    assert document["fan_out"]["lacking"] == 0
    here, away = rows_of(document)
    assert here["delivery"] == away["delivery"]
    assert away["latency"]["max_us"] > 1e6
    name = document["ends"][-1]["config"]["id"]
    with FrameClient(server.port) as client:
        client.open(container_id=name)
        client.begin()
        client.attach_receiver("", name=name, source=Value("null", None))
        assert client.expect("detach").condition == "amqp:not-found"


def test_a_receiver_comes_back_when_the_sending_ends(server: Server, tmp_path: Path) -> None:
    end = fan_out(
        server, "topic-back", "--receivers", "1", "--count", "500", "--away", "1h", "--json",
        "--transaction-size", "10", "--output", str(tmp_path / "out"),
    )  # fmt: skip
    assert end.code == 0, end
    assert parsed(end.stdout)["delivery"]["received"] == 500
