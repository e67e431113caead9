"""Real searches of a relay whose capacity is known exactly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.documents import parsed
from support.processes import run
from support.server import running_server
from support.token_bucket import TokenBucket

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
SEARCHES, HELD = 10, 9
CAPACITY = 800
BODY = ("--body-size", "2000")
# In a trial of 2 s a rate that is 2 % beyond the capacity is 40 ms late at the end.
CONDITION = "p99<50ms"


def bytes_of_messages(port: int, count: int) -> int:
    """Return the bytes that the sender of so many messages writes."""
    with TokenBucket(port, 1e9) as relay:
        url = f"//127.0.0.1:{relay.port}/size"
        end = run([*QUIVER, url, "--count", str(count), *BODY, "--quiet"], 60)
        assert end.code == 0, end
        return max(relay.forwarded)


@pytest.mark.slow
@pytest.mark.measured
@pytest.mark.timeout(1800)
def test_ten_searches_hold_the_capacity(tmp_path: Path) -> None:
    held = []
    with running_server(tmp_path) as server:
        size = (bytes_of_messages(server.port, 4000) - bytes_of_messages(server.port, 2000)) / 2000
        with TokenBucket(server.port, CAPACITY * size) as relay:
            for number in range(SEARCHES):
                url = f"//127.0.0.1:{relay.port}/q{number}"
                search = ("--find-rate", CONDITION, "--rate", "100", "--within", "2m", *BODY)
                out = ("--output", str(tmp_path / f"out-{number}"), "--json", "--quiet")
                end = run([*QUIVER, url, *search, "--warm-up", "0", *out], 240)
                found = parsed(end.stdout)["found_rate"]
                held.append((found["low"] or 0) <= CAPACITY <= (found["high"] or 0))
                print(found["rate"], found["low"], found["high"], found["confirmed"], end.stderr)
    assert sum(held) >= HELD
