"""`quiver --filter`: each message that was sent is received, or known to be filtered."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.documents import parsed
from support.processes import Finished, run
from support.server import Server, running_server

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
ANALYZE = (sys.executable, "-m", "quiver_fast.cli.analyze.command")
SECONDS = 120
COUNT = 1000
RED = ("--properties", "color=red:20%,green:80%,n=%n", "--filter")


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def filtered(server: Server, address: str, *words: str) -> Finished:
    url = f"//127.0.0.1:{server.port}/{address}"
    return run([*QUIVER, url, "--count", str(COUNT), *words], SECONDS)


@pytest.mark.parametrize(
    ("words", "received"),
    [
        ((*RED, "color = 'red'"), 200),
        ((*RED, "color = 'red'", "--senders", "2", "--receivers", "3"), 200),
        ((*RED, "color = 'red'", "--senders", "4", "--processes", "2"), 200),
        ((*RED, "n BETWEEN 11 AND 60 OR n IS NULL"), 50),
        ((*RED, "color = 'blue'"), 0),
        ((*RED, "color = 'red'", "--settlement", "--transaction-size", "10"), 200),
        ((*RED, "color = 'red'", "--reconnect"), 200),
        ((*RED, "color = 'red'", "--record-format", "v3"), 200),
        (("--properties", "color=red:20%,green:80%", "--filter-properties", "color=*reen"), 800),
        (("--subject", "kind", "--filter-properties", "subject=k*"), COUNT),
        (("--subject", "kind", "--filter", "JMSType = 'other' AND JMSPriority = 4"), 0),
    ],
)
def test_each_message_is_received_or_filtered(
    server: Server, tmp_path: Path, words: tuple[str, ...], received: int
) -> None:
    out = str(tmp_path / "out")
    end = filtered(server, tmp_path.name, *words, "--json", "--output", out,
                   "--fail-if", "unreceived>0", "--fail-if", "lost>0")  # fmt: skip
    assert end.code == (0 if received else 1), end
    assert ("no transfers: its filter let none through" in end.stderr) == (received == 0)
    delivery = parsed(end.stdout)["delivery"]
    counts = {key: delivery[key] for key in ("sent", "received", "filtered", "unreceived", "lost")}
    # A few of four ends' numbers are not twenty in a hundred.
    about = 4 if "4" in words else 0
    assert abs(counts.pop("received") - received) <= about
    assert abs(counts.pop("filtered") + received - COUNT) <= about
    assert counts == {"sent": COUNT, "unreceived": 0, "lost": 0}
    assert delivery["unmatched"] == (None if "v3" in words else 0)
    if not received:
        # Empty records have no format.
        return
    again: Any = parsed(run([*ANALYZE, out, "--json", "--quiet"], SECONDS).stdout)
    assert again["delivery"] == delivery


def test_what_the_broker_alone_knows_is_not_lost(server: Server, tmp_path: Path) -> None:
    end = filtered(server, tmp_path.name, *RED, "amqp.creation_time IS NULL AND color = 'red'",
                   "--output", str(tmp_path / "out"))  # fmt: skip
    assert re.search(r"Received \.+ 200 messages", end.stdout)
    assert re.search(r"Filtered \.+ not known", end.stdout)
    assert "it is not known which of them the filter leaves out" in end.stderr
