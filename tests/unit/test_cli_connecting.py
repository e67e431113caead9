"""`quiver --churn` and `--hold` without a server: refused options, and reports."""

from __future__ import annotations

from typing import Any

import pytest

from quiver_fast.analysis.read.answer_file import CHURN, HOLD
from quiver_fast.arrow.amqp.churn import Churn
from quiver_fast.cli.pair.command import main
from quiver_fast.cli.pair.connecting import cost_of, failures, server_at
from quiver_fast.cli.pair.figures_text import campaign_text

URL = "//localhost/q0"
LATENCY = {
    "count": 3, "p50_us": 120.0, "p90_us": 1500.0, "p99_us": 2e6, "p99_9_us": 2e6, "max_us": 2e6,
}  # fmt: skip
SERVER = {"pid": 7, "memory_begin": 12_340_000, "memory_end": 20_000_000, "cpu_seconds": 1.5}
DOCUMENT: dict[str, Any] = {
    "target": URL,
    "of": "session",
    "rate": 1000,
    "attempts": {"due": 5, "begun": 4, "succeeded": 3, "failed": 2},
    "achieved_rate": 3.0,
    "latency": LATENCY,
    "steps": [{"step": "begin", "latency": LATENCY}],
    "failures": [{"reason": "gone", "count": 2}],
    "server": SERVER,
    "output_dir": "/tmp/out",
}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--churn", "1k"], "--churn needs a URL"),
        ([URL, "--churn", "1k", "--rate", "5"], "--rate does not go with --churn"),
        ([URL, "--churn", "1k", "--impl", "rhea"], "--impl does not go with --churn"),
        ([URL, "--churn", "1k", "--runs", "3"], "--runs does not go with --churn"),
        ([URL, "--churn", "1k", "--sweep", "rate=1,2"], "--sweep does not go with --churn"),
        ([URL, "--churn", "1k", "--duration", "0"], "--churn needs --duration"),
        ([URL, "--churn-of", "link"], "--churn-of needs --churn"),
        (["--hold", "10"], "--hold needs a URL"),
        ([URL, "--hold", "10", "--churn", "5"], "--hold does not go with --churn"),
        ([URL, "--sessions", "2"], "--sessions needs --hold"),
        ([URL, "--hold", "10", "--links", "2"], "--links needs --sessions: a link is in a session"),
        ([URL, "--churn", "9", "--sessions", "2"], "--sessions does not go with --churn"),
        ([URL, "--hold", "10", "--durable"], "--durable does not go with --hold"),
        (["csp://localhost/q0", "--hold", "1"], "a csp URL does not go with --hold"),
        (["csp://localhost/q0", "--churn", "1"], "a csp URL does not go with --churn"),
    ],
)
def test_options_without_effect_are_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert capsys.readouterr().err == f"quiver: error: {message}\n"


def test_the_report() -> None:
    lines = campaign_text(CHURN, DOCUMENT).splitlines()
    assert [line.split()[-2:] for line in lines if line.startswith("Server memory")] == [
        ["12.3", "MB"],
        ["20.0", "MB"],
    ]
    table = lines[lines.index("STEPS") + 2 :][:3]
    assert [line.split() for line in table] == [
        ["Step", "Median", "90", "%", "99", "%", "99.9", "%", "Maximum"],
        # Three values have no 90th percentile.
        *([step, "120", "us", "-", "-", "-", "2.00", "s"] for step in ("begin", "all")),
    ]
    assert lines[-2:] == ["Count  Reason", "    2  gone"]


def test_without_a_success_there_is_no_table() -> None:
    text = campaign_text(
        CHURN, DOCUMENT | {"latency": None, "steps": [], "failures": [], "server": None}
    )
    assert "STEPS" not in text
    assert "FAILURES" not in text
    assert "Server" not in text


def test_the_commonest_failure_is_first() -> None:
    found = failures({"rare": 1, "common": 1200})
    assert [one["reason"] for one in found] == ["common", "rare"]


@pytest.mark.parametrize("address", ["192.0.2.1", "2001:db8::1%eth0"])
def test_a_server_elsewhere_has_no_process_here(address: str) -> None:
    assert server_at(address, 5672) is None


def unasked(*_: object) -> Any:
    raise AssertionError("nothing is begun")


def test_a_run_that_is_stopped_at_once_has_begun_nothing() -> None:
    churn = Churn(
        "127.0.0.1", 1, 1, unasked, lambda: True, kind="connection", rate=1000, duration=1,
        address_at=unasked, make_message=unasked, name="x",
    )  # fmt: skip
    churn.run()
    assert (churn.due, churn.begun, churn.succeeded, churn.failed) == (0, 0, 0, 0)


class Costly:
    """A process of which three marks are known."""

    pid, memory, cpu_seconds = 7, [10_000_000, 30_000_000, 31_000_000], [0.02, 0.5]


def held(opened: int) -> dict[str, Any]:
    cost = cost_of(Costly(), opened)  # type: ignore[arg-type]
    opening = {"opened": opened, "failed": 0, "seconds": 2.0, "latency": None}
    return {
        "target": URL, "opening": opening, "holding": {"seconds": 10.0, "lost": 0},
        "failures": [], "losses": [], "server": None, "own": cost, "output_dir": "/tmp/out",
    }  # fmt: skip


def test_the_cost_of_a_connection() -> None:
    [line] = [
        line for line in campaign_text(HOLD, held(1000)).splitlines() if line.startswith("quiver")
    ]
    assert line.split() == [
        "quiver", "10.0", "MB", "31.0", "MB", "20.0", "kB", "20", "us", "5.0", "%",
    ]  # fmt: skip


def test_without_a_connection_there_is_no_cost_of_one() -> None:
    [line] = [
        line for line in campaign_text(HOLD, held(0)).splitlines() if line.startswith("quiver")
    ]
    assert line.split()[5:] == ["-", "-", "5.0", "%"]
