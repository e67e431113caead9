"""`quiver` and `quiver-arrow` through a remote queue: every option, and what has no counterpart."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.processes import Finished, run
from support.remote import serving

from quiver_fast.records.parser import read_transfers

DELIVERY = ("lost", "foreign", "duplicate", "reordered", "negative_latency")
ARROW_FILES = ["snapshots.csv", "summary.json", "transfers.csv.zst"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("queues")) as port:
        yield f"csp://127.0.0.1:{port}"


def tool(name: str, *words: str | Path) -> Finished:
    return run([sys.executable, "-m", f"quiver_fast.cli.{name}", *map(str, words)], timeout=60)


def document_of(*words: str | Path) -> dict[str, Any]:
    """Run `quiver --json` and demand success."""
    ended = tool("pair", "--json", *words)
    assert ended.code == 0, ended.stderr
    document: dict[str, Any] = json.loads(ended.stdout)
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


def test_rate_and_duration(server: str) -> None:
    # A queue tells nobody that its sender is done: the receiver's own clock ends it, before
    # or after the sender's, so that the last entries may be missing.
    words = ["-d", "2", "--rate", "1000", "--time-unit", "us"]
    document = document_of(f"{server}/paced", *words)
    assert document["sender"]["schedule"]["achieved"] == pytest.approx(1000, rel=0.02)
    assert 1700 <= document["results"]["message_count"] <= 2010
    document = document_of(f"{server}/timed", "-d", "1")
    assert 0.5 < document["results"]["duration"] < 3


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
        summary = json.loads((tmp_path / folder / f"{role}-summary.json").read_text())
        assert (summary["complete"], summary["config"]["scheme"]) == (True, "csp")


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
