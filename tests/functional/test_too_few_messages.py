"""Of one message, and of none, no command tells a rate."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.documents import parsed
from support.processes import run

from quiver_fast.api import QuiverError, measure

WORDS = "too few messages for a rate"
SECONDS = 60


def quiver(*words: str, command: str = "pair") -> tuple[int, str, str]:
    end = run([sys.executable, "-m", f"quiver_fast.cli.{command}.command", *words], SECONDS)
    assert "Traceback" not in end.stderr
    return end.code, end.stdout, end.stderr


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of one message."""
    directory = tmp_path_factory.mktemp("one") / "run"
    code, output, _ = quiver("--count", "1", "--output", str(directory))
    assert code == 0
    assert output.count(WORDS) == 3
    return directory


def test_the_document_has_no_rate(one: Path) -> None:
    code, output, _ = quiver(str(one), "--json", command="analyze")
    assert code == 0
    found = parsed(output)
    assert [found["results"][f"{name}_rate"] for name in ("sender", "receiver", "end_to_end")] == [
        None, None, None,
    ]  # fmt: skip
    assert found["receiver"]["latency"]["count"] == 1


def test_its_analysis_and_page(one: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code, output, _ = quiver(str(one), "--html", str(page), command="analyze")
    assert code == 0
    assert output.count(WORDS) == 4
    assert "messages/s</dt>" not in page.read_text()


def test_a_condition_on_the_rate_is_told(one: Path) -> None:
    code, _, errors = quiver(str(one), "--fail-if", "rate<1", command="analyze")
    assert (code, WORDS in errors) == (99, True)


def test_a_set_has_latencies_alone() -> None:
    code, output, errors = quiver("--count", "1", "--runs", "2")
    assert code == 0
    assert (output.count(WORDS), errors.count(WORDS)) == (2, 2)
    assert "0/s" not in output + errors
    code, output, _ = quiver("--count", "1", "--runs", "2", "--json")
    document = parsed(output)
    assert document["complete"]
    for line in document["order"]:
        assert line["figures"].keys() == {"latency_p50", "latency_p99", "latency_max"}
    medians = document["summary"]["candidate"]["figures"]
    assert medians["message_rate"]["median"] is None
    assert medians["latency_p50"]["median"] > 0


def test_a_set_is_compared_by_its_latencies() -> None:
    words = ("--count", "1", "--runs", "2", "--baseline=--credit 10", "--json")
    code, output, _ = quiver(*words)
    assert code == 0
    rate = parsed(output)["comparison"]["figures"]["message_rate"]
    assert (rate["base"], rate["candidate"], rate["change"]) == (None, None, None)


def test_a_sweep_has_points_without_figures() -> None:
    code, output, _ = quiver("--count", "1", "--sweep", "credit=1,2", "--json")
    assert code == 0
    assert [point["figures"] for point in parsed(output)["points"]] == [None, None]


def test_the_functions_say_it() -> None:
    result = measure(count=1)
    with pytest.raises(QuiverError, match=WORDS):
        _ = result.rate
    assert result.latency(50) > 0
    runs = measure(count=1, runs=2)
    with pytest.raises(QuiverError, match=WORDS):
        _ = runs.rate
    assert runs.latency(99) > 0


def test_two_messages_have_one() -> None:
    assert measure(count=2000).rate > 0
