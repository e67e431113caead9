"""A rate that was missed: the commands say how many messages were never sent, and gates close."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.documents import parsed
from support.processes import Finished, run
from support.scripted_peer import ScriptedPeer

ARROW = (sys.executable, "-m", "quiver_fast.cli.arrow.command")
ANALYZE = (sys.executable, "-m", "quiver_fast.cli.analyze.command")
SECONDS = 60
START = 1_790_000_000_000_000
RATE, SENT, DURATION = 1000, 1200, 2
LATENCY_US = 300


@pytest.fixture(name="stalled", scope="module")
def run_of_a_stalled_sender(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the files of a run: 2,000 messages due in two seconds, 1,200 of them sent."""
    folder = tmp_path_factory.mktemp("stalled") / "out"
    folder.mkdir()
    due = [START + number * 1_000_000 // RATE for number in range(SENT)]
    (folder / "sender-transfers.csv").write_text("".join(f"{time},0\n" for time in due))
    received = "".join(f"{time},{time + LATENCY_US}\n" for time in due)
    (folder / "receiver-transfers.csv").write_text(received)
    for role, operation in (("sender", "send"), ("receiver", "receive")):
        (folder / f"{role}-summary.json").write_text(json.dumps(summary(operation)))
    return folder


def summary(operation: str) -> dict[str, object]:
    config = {
        "operation": operation, "impl": "pyfast", "url": "amqp://broker.example/q0",
        "output_dir": "out", "connection_mode": "client", "count": 0, "duration": DURATION,
        "body_size": 100, "credit_window": 1000, "transaction_size": 0, "durable": False,
        "set_message_id": False, "rate": RATE,
    }  # fmt: skip
    late = {"p50": 8.0, "p99": 41.0, "p99.9": 210.0, "max": 980.0}
    schedule = {"rate": RATE, "late_us": late, "sending_ns": DURATION * 10**9}
    arrow = {"schedule": schedule if operation == "send" else None}
    arrow = {key: value for key, value in arrow.items() if value}
    return {"config": config, "complete": True, "reason": None, "exit_code": 0, "arrow": arrow}


def analyze(*words: str | Path) -> Finished:
    return run([*ANALYZE, *map(str, words)], SECONDS)


def test_a_sender_without_credit_owes_the_rest() -> None:
    """The peer gives credit for 100 messages; 1,000 are due within the second."""
    with ScriptedPeer(credit=100) as peer:
        target = f"//127.0.0.1:{peer.port}/q0"
        end = run(
            [*ARROW, "send", target, "--rate", "1000", "-d", "1", "--summary", "--json"], SECONDS
        )
    assert end.code == 0, end
    found = parsed(end.stdout)
    schedule, results = found["schedule"], found["results"]
    assert schedule["sent"] == results["message_count"] == results["message_rate"] <= 100
    assert schedule["due"] == schedule["sent"] + schedule["never_sent"] == 1000
    assert (schedule["achieved"], schedule["missed"]) == (schedule["sent"], True)
    never = f"{schedule['never_sent']} of 1,000 due were never sent"
    assert f"the sender missed the rate of 1000 messages/s: {never}\n" in end.stderr


def test_the_figures_of_a_stalled_sender_are_told(stalled: Path) -> None:
    document = json.loads(analyze(stalled, "--json").stdout)
    schedule = document["sender"]["schedule"]
    assert schedule | {"late_us": None} == {
        "rate": 1000, "due": 2000, "sent": 1200, "never_sent": 800, "achieved": 600,
        "late_us": None, "late_by_us": None, "over_time": None, "missed": True,
    }  # fmt: skip
    assert document["results"]["sender_rate"] == 600
    text = analyze(stalled).stdout
    for line in (
        "Due ................................................... 2,000 messages",
        "Never sent .............................................. 800 messages",
        "Achieved rate ........................................... 600 messages/s",
        "of the messages that were sent; 800 were due and never sent",
    ):
        assert f"\n{line}\n" in text
    page = stalled.parent / "page.html"
    assert analyze(stalled, "--html", page).code == 0
    shown = page.read_text()
    assert "the rate was missed: 800 due were never sent" in shown
    assert "Of the messages that were sent; 800 were due and never sent" in shown


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("sender-rate<590", None),
        ("sender-rate<610", "600 messages/s"),
        ("never_sent>799", "800 messages"),
        # 500 messages of 2,000 waited 301 ms or more.
        ("p75>310ms", None),
        ("p75>300ms", "300.25 ms with 800 messages that were due and never sent"),
        ("max>300ms", "800 ms with 800 messages that were due and never sent"),
    ],
)
def test_gates_close_on_what_was_never_sent(stalled: Path, condition: str, why: str | None) -> None:
    end = analyze(stalled, "--fail-if", condition)
    if why is None:
        assert end.code == 0, end
        return
    assert end.code == 99
    assert f"threshold {condition} is breached: {why} (" in end.stderr
