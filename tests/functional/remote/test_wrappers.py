"""`quiver` and `quiver-arrow` through a remote queue: every option, also without a counterpart."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.documents import parsed
from support.measured import Figure
from support.processes import Finished, Running, free_port, run, wait_until
from support.remote import serving

from quiver_fast.cli.arrow import command as arrow_command
from quiver_fast.cli.server import command as server_command
from quiver_fast.errors import UsageError
from quiver_fast.records.parser import read_transfers
from quiver_fast.server import config as server_config

DELIVERY = ("lost", "foreign", "duplicate", "reordered", "negative_latency")
ARROW_FILES = ["snapshots.csv", "summary.json", "transfers.csv.zst"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("queues")) as port:
        yield f"csp://127.0.0.1:{port}"


def tool(name: str, *words: str | Path) -> Finished:
    return run(
        [sys.executable, "-m", f"quiver_fast.cli.{name}.command", *map(str, words)], timeout=60
    )


def document_of(*words: str | Path) -> dict[str, Any]:
    """Run `quiver --json` and demand success."""
    ended = tool("pair", "--json", *words)
    assert ended.code == 0, ended.stderr
    document: dict[str, Any] = parsed(ended.stdout)
    assert document["complete"] is True
    return document


def measure(*words: str | Path) -> dict[str, Any]:
    """Run `quiver --json`, and demand a perfect delivery as well."""
    document = document_of(*words)
    assert [document["delivery"][key] for key in DELIVERY] == [0] * len(DELIVERY)
    return document


@pytest.mark.parametrize(
    "words",
    [
        [], ["--body-size", "0"], ["--body-size", "100k", "-c", "200"], ["--credit", "1"],
        ["--credit", "10k"], ["--time-unit", "us"], ["--time-unit", "ns"], ["--rate", "2k"],
        ["--set-message-id"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_pair_and_its_options(server: str, words: list[str]) -> None:
    document = measure(f"{server}/{'-'.join(words).strip('-') or 'plain'}", "-c", "1000", *words)
    expected = 200 if "-c" in words else 1000
    assert document["results"]["message_count"] == expected
    assert document["sender"]["arrow"]["accepted"] == expected
    assert document["receiver"]["arrow"]["received"] == expected


def test_a_queue_that_is_not_empty_does_not_mix_runs(server: str) -> None:
    for _ in range(2):
        assert measure(f"{server}/again", "-c", "700")["results"]["message_count"] == 700


@pytest.mark.parametrize("revision", ["v1", "v2", "v3"])
def test_record_formats_and_ids(server: str, revision: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    measure(f"{server}/{revision}", "-c", "500", "--record-format", revision, "--output", out)
    for role in ("sender", "receiver"):
        transfers = read_transfers(out / f"{role}-transfers.csv.zst", record_format=revision)
        assert len(transfers) == 500
        assert (transfers.ids is not None) is (revision != "v3")


def test_settlement_is_the_index(server: str) -> None:
    settlement = measure(f"{server}/settled", "-c", "1000", "--settlement")["sender"]["settlement"]
    assert settlement["all"]["count"] == 1000
    assert settlement["sampled"]["count"] == 4
    assert (settlement["unsettled"], settlement["unmatched"]) == (0, 0)


PACED = ("-d", "1", "--rate", "1000", "--time-unit", "us")


def test_rate_and_duration(server: str) -> None:
    # A queue tells nobody that its sender is done: the receiver's own clock ends it, before
    # or after the sender's, so that the last entries may be missing.
    document = document_of(f"{server}/paced", *PACED)
    assert document["sender"]["schedule"]["rate"] == 1000
    assert 0 < document["results"]["message_count"] <= 1010
    document = document_of(f"{server}/timed", "-d", "1")
    assert document["results"]["message_count"] > 0


@pytest.mark.measured
def test_rate_and_duration_are_kept(server: str, figure: Figure) -> None:
    document = document_of(f"{server}/paced-again", *PACED)
    achieved = document["sender"]["schedule"]["achieved"]
    figure("achieved rate", achieved, at_least=980, at_most=1020, unit="/s")
    count = document["results"]["message_count"]
    figure("messages of a second", count, at_least=100, at_most=1010)
    duration = document_of(f"{server}/timed-again", "-d", "1")["results"]["duration"]
    figure("duration of a second", duration, at_least=0.1, at_most=3, unit="s")


def test_the_ends_apart(server: str, tmp_path: Path) -> None:
    url = f"{server}/apart"
    sent = tool("arrow", "send", url, "-c", "300", "--output", tmp_path / "s", "--settlement")
    assert (sent.code, sent.stdout, sent.stderr) == (0, "", "")
    received = tool("arrow", "receive", url, "-c", "300", "--output", tmp_path / "r", "--summary")
    assert (received.code, received.stderr) == (0, "")
    assert "300 messages" in received.stdout
    for role, folder in (("sender", "s"), ("receiver", "r")):
        names = sorted(path.name for path in (tmp_path / folder).iterdir())
        assert [name.removeprefix(f"{role}-") for name in names] == ARROW_FILES
        summary = parsed((tmp_path / folder / f"{role}-summary.json").read_text())
        assert (summary["complete"], summary["config"]["scheme"]) == (True, "csp")


def connections(server: str) -> int:
    """Return how many clients are connected to a server of this machine."""
    remote = f":{int(server.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()]
    return sum(row[2].endswith(remote) and row[3] == "01" for row in rows)


def test_a_receiver_that_begins_at_the_end(server: str, tmp_path: Path) -> None:
    """It gets messages sent after it came, and none from before."""
    url = f"{server}/tail"
    out = tmp_path / "r"
    assert tool("arrow", "send", url, "-c", "20").code == 0
    words = ["--tail-from", "end", "-c", "5", "--record-format", "v1", "--output", str(out)]
    command = [sys.executable, "-m", "quiver_fast.cli.arrow.command", "receive", url, *words]
    with Running(command) as receiver:
        # It asks for the end as its first words; a sender takes far longer to get there.
        wait_until(lambda: connections(server) > 0, "it is connected")
        late = ["-c", "5", "--record-format", "v1", "--output", str(tmp_path / "s")]
        assert tool("arrow", "send", url, *late).code == 0
        ended = receiver.wait()
    assert (ended.code, ended.stderr) == (0, "")
    transfers = read_transfers(out / "receiver-transfers.csv.zst", record_format="v1")
    sent = read_transfers(tmp_path / "s" / "sender-transfers.csv.zst", record_format="v1")
    assert list(transfers.ids) == list(sent.ids)
    summary = parsed((out / "receiver-summary.json").read_text())
    assert summary["config"]["tail_from"] == "end"
    every = tool("arrow", "receive", url, "--tail-from", "start", "-c", "25", "--summary")
    assert "25 messages" in every.stdout


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["send", "csp://127.0.0.1:1/q"], "--tail-from is for receivers"),
        (["receive", "amqp://127.0.0.1:1/q"], "--tail-from needs a csp URL"),
    ],
)
def test_only_receivers_of_a_queue_begin_at_its_end(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert arrow_command.main([*words, "--tail-from", "end"]) == 2
    assert capsys.readouterr() == ("", f"quiver-arrow: error: {reason}\n")


@pytest.mark.parametrize(
    "words",
    [
        ["--durable"], ["--presettled"], ["--transaction-size", "5"], ["--max-frame-size", "600"],
        ["--sasl-mechanisms", "PLAIN"], ["--username", "me"], ["--tls-insecure"],
        ["--trust-store", "FILE"], ["--cert", "FILE", "--key", "FILE"], ["--body-size", "20m"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
@pytest.mark.parametrize("command", [["pair"], ["arrow", "send"]], ids=" ".join)
def test_what_a_queue_has_not_is_an_error_at_start(
    command: list[str], words: list[str], tmp_path: Path
) -> None:
    """Nothing listens there: the error comes before any connection is tried."""
    (tmp_path / "file").touch()
    words = [word.replace("FILE", str(tmp_path / "file")) for word in words]
    out = tmp_path / "out"
    ended = tool(command[0], *command[1:], "csp://127.0.0.1:1/q", "-c", "1", *words,
                 "--output", out)  # fmt: skip
    assert (ended.code, ended.stdout, len(ended.stderr.splitlines())) == (2, "", 1)
    assert not out.exists()


@pytest.mark.parametrize("flag", ["--server", "--passive"])
def test_an_arrow_is_a_client_and_active(flag: str) -> None:
    ended = tool("arrow", "receive", "csp://127.0.0.1:1/q", flag)
    assert (ended.code, len(ended.stderr.splitlines())) == (2, 1)
    assert flag in ended.stderr


def test_nobody_there_is_said_by_the_arrow_and_by_its_wrapper() -> None:
    ended = tool("arrow", "send", "csp://127.0.0.1:1/q", "-c", "1")
    assert ended.code == 1
    for line in ended.stderr.splitlines():
        assert "cannot connect to 127.0.0.1:1: Connection refused" in line


# ---- quiver-server -------------------------------------------------------------------


def server_tool(url: str, *words: str | Path) -> list[str]:
    return [sys.executable, "-m", "quiver_fast.cli.server.command", url, *map(str, words)]


def test_the_server_command_serves_a_queue_by_its_url(tmp_path: Path) -> None:
    """As for AMQP: nothing but the URL is needed, and the ready file tells when it serves."""
    port, ready = free_port(), tmp_path / "ready"
    url = f"csp://127.0.0.1:{port}/orders/new"
    with Running(server_tool(url, "--ready-file", ready, "--no-create")) as server:
        wait_until(lambda: ready.exists(), "the server is ready")
        assert ready.read_text() == "ready\n"
        assert measure(url, "-c", "100")["results"]["message_count"] == 100
        # The URL's queue is there from the start, and no other comes into being.
        other = tool("queue", "append", f"csp://127.0.0.1:{port}/other", "x")
        assert "FileNotFoundException" in other.stderr
        server.process.send_signal(signal.SIGTERM)
        ended = server.wait()
    assert ended.code == 0
    assert ended.stderr == (
        f"quiver-server-pyfast: listening on csp://127.0.0.1:{port}; its queues end when it stops\n"
    )


def test_the_server_command_keeps_what_it_is_told_to_keep(tmp_path: Path) -> None:
    for turn in (1, 2):
        port, ready = free_port(), tmp_path / f"ready-{turn}"
        words = ["--store", tmp_path / "store", "--durability", "group", "--quiet"]
        url = f"csp://127.0.0.1:{port}/q"
        with Running(server_tool(url, "--ready-file", ready, *words)) as server:
            wait_until(lambda ready=ready: ready.exists(), "the server is ready")
            assert tool("queue", "append", url, str(turn), "--quiet").code == 0
            server.process.send_signal(signal.SIGINT)
            ended = server.wait()
            assert (ended.code, ended.stderr) == (0, "")
    dumped = tool("queue", "dump", str(tmp_path / "store" / "q")).stdout
    assert [line.split()[-1] for line in dumped.splitlines()] == ["1", "2"]


@pytest.mark.parametrize(
    "words",
    [
        ["--user", "me", "--password", "p"], ["--trust-store", "FILE"], ["--csp-port", "7"],
        ["--cert", "FILE", "--key", "FILE"], ["--queue-limit", "1m"],
        ["--max-message-size", "0"], ["--max-sessions", "5"], ["--addresses", "a"],
        ["--allow-insecure-plain"], ["--connect", "amqp://h"], ["--connect-password-file", "FILE"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_what_a_queue_server_has_not_is_an_error_at_start(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("text")
    words = [word.replace("FILE", str(tmp_path / "file")) for word in words]
    flag = "a user (--user)" if words[0] == "--user" else words[0]
    assert server_command.main(["csp://127.0.0.1/q", *words]) == 2
    assert capsys.readouterr() == ("", f"quiver-server: error: a csp URL does not go with {flag}\n")
    key = words[0].removeprefix("--").removesuffix("-file")
    contract = ["host=127.0.0.1", "port=-", "path=q", "ready-file=-", "scheme=csp", f"{key}=1"]
    with pytest.raises(UsageError, match=f"scheme=csp does not go with {key}$"):
        server_config.parse(contract)


def test_a_broker_of_amqp_serves_no_remote_queue(capsys: pytest.CaptureFixture[str]) -> None:
    assert server_command.main(["csp://127.0.0.1/q", "--impl", "rabbitmq"]) == 2
    assert capsys.readouterr().err == (
        "quiver-server: error: implementation 'rabbitmq' does not support csp URLs\n"
    )


def test_a_name_that_no_queue_can_have_is_an_error_at_start() -> None:
    ended = run(server_tool("csp://127.0.0.1/a/../b", "--quiet"))
    assert ended.code == 2
    assert "quiver-server: error: 'a/../b' cannot be the name of a queue" in ended.stderr


def bodies_in(url: str) -> list[str]:
    """Return the bodies in the entries of a queue."""
    shown = tool("queue", "dump", url, "--json").stdout
    entries = [json.loads(line) for line in shown.splitlines()]
    return [re.sub(r'.*body: "(.*)" }', r"\1", entry["text"]) for entry in entries]


def test_bodies_of_several_sizes(server: str) -> None:
    mix = "5:75%,10..20k:25%"
    document = measure(f"{server}/mixed", "-c", "40", "--body-size", mix)
    assert document["sender"]["config"]["body_size"] == mix
    sizes = [len(body) for body in bodies_in(f"{server}/mixed")]
    assert sizes.count(5) == 30
    assert len(set(sizes)) > 5


def test_a_file_as_the_body(server: str, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_text('He said "hé\\"\n\x80 and \U0001f600')
    measure(f"{server}/file", "-c", "3", "--body-file", file)
    assert bodies_in(f"{server}/file") == ['He said \\"hé\\\\\\"\\n\\x80 and \U0001f600'] * 3
    file.write_bytes(b"\xff")
    refused = tool("pair", f"{server}/none", "-c", "3", "--body-file", file)
    assert refused.code != 0
    assert "over csp a body is text in UTF-8" in refused.stderr
