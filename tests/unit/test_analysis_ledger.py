"""The ledger of a run with failures: against a slow twin, and by hand on the cases that matter."""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ends_records import loaded
from support.failing_runs import START, FailingRun, Line
from support.page_labels import unknown_labels

from quiver_fast.analysis.tables import sorted_rows
from quiver_fast.cli.analyze.command import main as quiver_analyze
from quiver_fast.errors import EXIT_THRESHOLD, RecordError

shapes = st.sampled_from([(1, 1), (3, 1), (2, 3)])


rooms = st.sampled_from([1 << 20, 400])


@given(st.integers(0, 10**9), shapes, st.sampled_from(["ms", "us", "ns"]), st.booleans(), rooms)
def test_against_the_twin(
    seed: int, shape: tuple[int, int], unit: str, hashed: bool, room: int
) -> None:
    run = FailingRun(random.Random(seed), *shape, unit=unit, hashed=hashed)
    with tempfile.TemporaryDirectory() as folder, patch.object(sorted_rows, "ROOM", room):
        found = run.ledger(Path(folder) / "run")
    slow = run.slow_ledger()
    assert found["failures"] == slow["failures"]
    assert {key: found[key] for key in slow} == slow


def loss(lost: float, back: float | None, **changes: Any) -> dict[str, Any]:
    """Return a lost connection, by seconds after the start."""
    return {
        "ends": [0, 0], "lost_at": START + int(lost * 10**9),
        "back_at": None if back is None else START + int(back * 10**9), "reason": "reset",
        "attempts": 1, "pause": 0.0, "place": None, "in_doubt": [], "resent": [],
    } | changes  # fmt: skip


class Paced(FailingRun):
    """A message each 10 ms for some seconds, settled after 1 ms and received after 2."""

    def __init__(self, *failures: dict[str, Any], resent: Any = (), seconds: int = 6) -> None:
        super().__init__(random.Random(1), messages=0)
        self.failures = {
            "sender": [[one | {"resent": list(resent)} for one in failures]],
            "receiver": [list(failures)],
        }
        for number in range(100 * seconds):
            at = 10 * number
            self._add("sender", Line(0, "sent", number, at, at))
            self._add("sender", Line(0, "settled", number, 0, at + 1))
            self.receive(number, at + 2)

    def receive(self, number: int, at: int) -> None:
        self._add("receiver", Line(0, "received", number, 10 * number, at))

    def without(self, *kinds: str, ids: range) -> None:
        """Leave lines out: of ``kinds``, about these messages."""
        for (lines,) in self.lines.values():
            lines[:] = [one for one in lines if one.kind not in kinds or one.id not in ids]


DRAINED = {
    "settled_at": {"boot": "b", "ns": 1},
    "drained_at": {"boot": "b", "ns": 2, "senders_ended": True},
}


def test_one_acknowledged_message_that_was_dropped_is_lost(tmp_path: Path) -> None:
    run = Paced(loss(2, 2.5))
    run.without("received", ids=range(77, 78))
    found = run.ledger(tmp_path / "run", **DRAINED)
    assert (found["acknowledged_received"], found["acknowledged_unreceived"]) == (599, 1)
    assert (found["lost"], found["in_doubt"]) == (1, 0)


def test_nobody_knows_of_a_queue_that_was_not_read_to_its_end(tmp_path: Path) -> None:
    run = Paced(loss(2, 2.5))
    run.without("received", ids=range(77, 78))
    assert run.ledger(tmp_path / "run")["lost"] is None


def test_messages_in_doubt_are_not_lost(tmp_path: Path) -> None:
    run = Paced(loss(2, 2.5, in_doubt=[[195, 200]]))
    run.without("settled", ids=range(195, 201))
    run.without("received", ids=range(198, 201))
    found = run.ledger(tmp_path / "run", **DRAINED)
    assert (found["lost"], found["in_doubt_received"], found["in_doubt_unreceived"]) == (0, 3, 3)
    data = loaded(tmp_path / "run")
    assert data.delivery is not None
    assert (data.delivery["unreceived"], data.delivery["lost"]) == (3, 0)


@pytest.mark.parametrize(
    ("resent", "at", "fate"),
    [
        ((), 1990, "duplicate"),
        ((), 2600, "redelivered"),
        (([190, 195],), 1990, "resent_received"),
        (([190, 195],), 2600, "resent_received"),
        (([191, 195],), 1990, "duplicate"),
    ],
)
def test_a_second_arrival(tmp_path: Path, resent: Any, at: int, fate: str) -> None:
    run = Paced(loss(2, 2.5), resent=resent)
    run.receive(190, at)
    found = run.ledger(tmp_path / "run", **DRAINED)
    names = ("resent_received", "redelivered", "duplicate")
    assert [name for name in names if found[name]] == [fate]
    assert found["resent"] == sum(last - first + 1 for first, last in resent)
    delivery = loaded(tmp_path / "run").delivery
    assert delivery is not None
    assert delivery["duplicate"] == found["duplicate"] == (fate == "duplicate")


def test_the_gap_is_the_longest_pause_around_a_failure(tmp_path: Path) -> None:
    run = Paced(loss(2.003, 2.5), loss(4.001, 4.002))
    run.without("settled", ids=range(200, 260))
    run.without("received", ids=range(195, 270))
    # One receipt within it.
    run.receive(195, 2100)
    found = run.ledger(tmp_path / "run")
    first, second = found["failures"]
    assert (first["receiver_gap"], first["sender_gap"]) == (0.602, 0.61)
    assert (second["receiver_gap"], second["sender_gap"]) == (0.01, 0.01)
    assert found["gap"] == 0.602
    assert (first["seconds"], second["seconds"]) == (0.497, 0.001)
    assert [one["connections"] for one in found["failures"]] == [2, 2]


def test_a_connection_that_is_not_back_has_no_gap(tmp_path: Path) -> None:
    found = Paced(loss(2, None)).ledger(tmp_path / "run")
    assert found["failures"][0]["seconds"] is None
    assert found["failures"][0]["receiver_gap"] is None
    assert found["gap"] is None


def test_a_sender_that_is_not_back_hides_no_gap_of_the_receiver(tmp_path: Path) -> None:
    """A server was killed shortly before the sending ended."""
    run = Paced(loss(2, 3), loss(5.5, None), loss(5.7, 5.8))
    run.failures["receiver"][0][1]["back_at"] = START + 5_600_000_000
    run.without("settled", ids=range(550, 600))
    found = run.ledger(tmp_path / "run")
    assert [one["seconds"] for one in found["failures"]] == [1.0, None]
    assert found["failures"][1]["receiver_gap"] == found["gap"] == 0.01
    assert found["failures"][1]["sender_gap"] is None


def test_failures_close_to_each_other_are_one(tmp_path: Path) -> None:
    found = Paced(loss(2, 2.5), loss(2.59, 3), loss(3.2, 3.3)).ledger(tmp_path / "run")
    assert [one["connections"] for one in found["failures"]] == [4, 2]
    assert found["failures"][0]["seconds"] == 1.0


def test_an_end_that_is_back_in_the_same_tick(tmp_path: Path) -> None:
    """In that millisecond a message may come again; two at once may not."""
    for at, fate in ((2000, "redelivered"), (2001, "redelivered"), (1999, "duplicate")):
        run = Paced(loss(2.0003, 2.0004))
        run.receive(190, at)
        assert run.ledger(tmp_path / f"{at}")[fate] == 1


def with_faults(run: Path, *times: tuple[float | None, float | None]) -> list[Any]:
    """Put faults of these times into a run; return the failures of its ledger."""
    path = run / "sender-summary.json"
    faults = [
        {
            "text": f"fault {number}", "kind": "kill", "planned": 1.0, "began": 1.0,
            "at": None if at is None else START + int(at * 10**9),
            "until": None if until is None else START + int(until * 10**9), "proof": "gone",
            "problem": None,
        }
        for number, (at, until) in enumerate(times)
    ]  # fmt: skip
    path.write_text(json.dumps(json.loads(path.read_text()) | {"faults": faults}))
    failures: list[Any] = loaded(run).sections["ledger"]["failures"]
    return failures


def test_a_fault_that_ended_no_connection_is_a_failure(tmp_path: Path) -> None:
    """A server that stood still has a gap, though every connection is whole."""
    run = Paced(loss(4, 4.5))
    run.without("received", ids=range(150, 250))
    run.write(tmp_path / "run")
    first, second = with_faults(tmp_path / "run", (1.5, 2.5), (3, None), (4, 4.1))
    assert (first["fault"], first["connections"], first["receiver_gap"]) == (0, 0, 1.01)
    assert (first["seconds"], first["reason"]) == (1.0, "no connection was lost")
    assert (second["fault"], second["connections"]) == (2, 2)


def test_the_fault_of_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = Paced(loss(1, 1.5), loss(4, 4.5), loss(5.2, 5.3))
    run.write(tmp_path / "run")
    failures = with_faults(tmp_path / "run", (None, None), (0.999, 1), (4.05, None), (5, 6))
    assert [one["fault"] for one in failures] == [1, 2, 3]
    assert quiver_analyze([str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert all(f"reset   fault {number}\n" in shown for number in (1, 2, 3))


def test_the_latency_comes_back(tmp_path: Path) -> None:
    run = Paced(loss(2.5, 2.6), seconds=9)
    run.without("received", ids=range(250, 350))
    for number in range(250, 350):
        run.receive(number, 3500 + number // 10)
    # One more slow second at the end.
    run.receive(890, 8999)
    (failure,) = run.ledger(tmp_path / "run")["failures"]
    assert failure["recovered_seconds"] == 1.5
    assert failure["highest_backlog"] == 50


def test_a_run_without_a_lost_connection_has_no_gap(tmp_path: Path) -> None:
    found = Paced().ledger(tmp_path / "run", **DRAINED)
    assert (found["gap"], found["failures"], found["lost"]) == (0.0, [], 0)


def test_a_receiver_without_records(tmp_path: Path) -> None:
    run = Paced(loss(2, 2.5))
    run.without("received", ids=range(600))
    assert run.ledger(tmp_path / "run", **DRAINED)["lost"] == 600


def test_arrows_that_do_not_connect_again_have_no_ledger(tmp_path: Path) -> None:
    Paced().write(tmp_path / "run")
    for path in (tmp_path / "run").glob("*-summary.json"):
        summary = json.loads(path.read_text())
        del summary["failures"]
        path.write_text(json.dumps(summary))
    assert "ledger" not in loaded(tmp_path / "run").sections


@pytest.mark.parametrize("lost", [0, 1])
def test_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str], lost: int) -> None:
    run = Paced(loss(2, 2.5))
    run.without("received", ids=range(77, 77 + lost))
    run.write(tmp_path / "run", **DRAINED)
    limits = ("lost>0", "gap>1s", "duplicate>0", "redelivered>0", "resent>0", "in_doubt>0")
    page = tmp_path / "page.html"
    words = [
        str(tmp_path / "run"),
        f"--html={page}",
        f"--markdown={tmp_path / 'verdict.md'}",
        *(f"--fail-if={one}" for one in limits),
    ]
    assert quiver_analyze(words) == (EXIT_THRESHOLD if lost else 0)
    shown = capsys.readouterr()
    assert f"{lost} of 600 acknowledged messages were lost; 0 in doubt" in shown.out
    assert unknown_labels(page.read_text()) == []
    markdown = (tmp_path / "verdict.md").read_text()
    assert f"{lost} of 600 acknowledged messages were lost; 0 in doubt" in markdown
    assert f"| Lost | {lost} messages |" in markdown
    assert ("lost>0 is breached: 1 message" in shown.err) == bool(lost)


@pytest.mark.parametrize(
    "change",
    [{"lost_at": "now"}, {"ends": [3]}, {"ends": [1, 0]}, {"resent": [[1]]}, {"reason": None}],
)
def test_a_damaged_list_of_failures(tmp_path: Path, change: dict[str, Any]) -> None:
    Paced(loss(2, 2.5)).write(tmp_path / "run")
    path = tmp_path / "run" / "sender-summary.json"
    summary = json.loads(path.read_text())
    summary["failures"][0] |= change
    path.write_text(json.dumps(summary))
    with pytest.raises(RecordError, match="is no summary: failures is a list"):
        loaded(tmp_path / "run")
