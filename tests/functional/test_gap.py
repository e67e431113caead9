"""The gap in the ledger is the time for which a server stood still, or refused connections."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.documents import parsed
from support.processes import run
from support.server import Server, running_server

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
WORDS = ("--reconnect", "--reconnect-pause", "5ms,5ms", "--rate", "1k", "-d", "3s", "--json")
RUNS = 10


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.mark.measured
@pytest.mark.parametrize("kind", ["stop", "refuse"])
def test_the_gap_is_within_20_ms_of_a_fault(server: Server, tmp_path: Path, kind: str) -> None:
    url = f"//127.0.0.1:{server.port}/gap-{kind}"
    pid = ("--fault-pid", str(server.process.pid)) if kind == "stop" else ()
    for number in range(RUNS):
        out = str(tmp_path / f"{number}")
        end = run([*QUIVER, url, *WORDS, "--fault", f"1s {kind} 1s", *pid, "--output", out])
        document = parsed(end.stdout)
        (fault,), (failure,) = document["faults"], document["ledger"]["failures"]
        lasted = (fault["until"] - fault["at"]) / 10**9
        assert failure["fault"] == 0
        assert abs(failure["receiver_gap"] - lasted) <= 0.02, (number, failure, fault)
        assert document["ledger"]["lost"] == 0
