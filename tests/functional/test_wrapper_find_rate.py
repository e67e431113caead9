"""`quiver --find-rate`: real searches, with a condition whose limit is known."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path

import pytest
from support.documents import parsed
from support.processes import Finished, Running, run, wait_until
from support.server import running_server

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
SECONDS = 110
LIMIT = 3000


def find(*words: str) -> Finished:
    return run([*QUIVER, *words], SECONDS)


@pytest.fixture(name="found", scope="module")
def found_rate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """A pair that may receive 3,000 messages a second at most: any machine does."""
    out = tmp_path_factory.mktemp("search") / "out"
    words = ("--find-rate", f"rate<{LIMIT}", "--rate", "1k", "-d", "1s", "--output", str(out))
    return out, find(*words, "--json")


@pytest.mark.measured
def test_the_limit_is_found(found: tuple[Path, Finished]) -> None:
    out, end = found
    assert end.code == 0, end
    document = parsed(end.stdout)
    answer = document["found_rate"]
    # A run of a second has a rate that is a few messages off.
    assert 0.9 * LIMIT < answer["low"] <= answer["rate"] < answer["high"] < 1.1 * LIMIT
    why = r"at [23],\d{3}/s: rate is [3-9][\d,]+ messages/s, [\d.]+% beyond rate<3000"
    assert re.fullmatch(why, answer["reason"])
    assert document == parsed((out / "rate.json").read_text())
    assert document["conditions"] == [f"rate<{LIMIT}"]
    assert document["reason"] is None


@pytest.mark.measured
def test_each_trial_is_told_and_kept(found: tuple[Path, Finished]) -> None:
    out, end = found
    steps = parsed(end.stdout)["found_rate"]["steps"]
    assert [step["rate"] for step in steps[:2]] == [1000, 2000]
    names = [step["name"] for step in steps]
    assert names == [f"run-{number:02}" for number in range(1, len(steps) + 1)]
    for step in steps:
        assert step["sustained"] == (step["reason"] is None)
        assert step["figures"]["message_rate"] == pytest.approx(step["rate"], rel=0.05)
        summary = parsed((out / step["name"] / "sender-summary.json").read_text())
        assert summary["config"]["rate"] == step["rate"]
    lines = re.findall(r"^run-\d{2} [\d,]+/s: (?:not )?sustained", end.stderr, re.MULTILINE)
    assert len(lines) == len(steps)
    for line in (
        r"FOUND RATE$",
        r"Target \.+ pyfast, peer-to-peer$",
        rf"Conditions \.+ rate<{LIMIT}$",
        r"Sustained \.+ [23],\d{3}/s$",
        r"Interval, 95 % \.+ [23],\d{3}/s to [23],\d{3}/s$",
        r"Just above \.+ at [23],\d{3}/s: rate is .*$",
        r"Confirmation \.+ \d of 3 at [23],\d{3}/s, \d of 3 at [23],\d{3}/s$",
        r"run-01 +1,000/s( +[\d,.]+ (us|ms)){3}$",
    ):
        assert re.search(line, end.stderr, re.MULTILINE), (line, end.stderr)


def test_no_rate_is_sustained() -> None:
    end = find("--find-rate", "p99<1ns", "--rate", "2", "-d", "1s", "--quiet")
    assert end.code == 1
    assert re.search(r"no limit was found: not even 1/s is sustained: p99 is .* beyond", end.stderr)


def test_the_time_is_over() -> None:
    end = find("--find-rate", "p99<10s", "-d", "1s", "--within", "1s", "--json")
    assert end.code == 1
    found = parsed(end.stdout)["found_rate"]
    assert [step["rate"] for step in found.pop("steps")] == [1000]
    assert found == {
        "rate": 1000, "low": 1000, "high": None, "confirmed": False, "confirmation": None,
        "reason": None,
    }  # fmt: skip
    assert "no limit was found: 1,000/s and all below are sustained" in end.stderr


def test_a_target_that_is_not_there_ends_it() -> None:
    end = find("//localhost:1/q", "--find-rate", "p99<10ms", "-d", "1s")
    assert end.code == 1
    assert "Traceback" not in end.stderr
    assert re.search(r"quiver: error: run-01: .*refused", end.stderr), end


def test_a_signal_ends_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*QUIVER, "--find-rate", "p99<10ms", "-d", "30s", "--output", str(out)]
    with Running(words) as running:
        wait_until(lambda: (out / "run-01" / "receiver-transfers.csv").exists(), "it measures")
        time.sleep(0.5)
        running.process.send_signal(signal.SIGINT)
        end = running.wait()
    assert end.code == 130
    assert "the search was not over" in end.stderr.splitlines()[-1]
    assert parsed((out / "rate.json").read_text())["found_rate"]["steps"] == []


def test_a_signal_keeps_the_answer_so_far(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [*QUIVER, "--find-rate", "p99<100s", "-d", "1s", "--output", str(out), "--json"]
    with Running(words) as running:
        wait_until(lambda: (out / "run-02" / "receiver-transfers.csv").exists(), "one has ended")
        running.process.send_signal(signal.SIGINT)
        end = running.wait()
    assert end.code == 130
    found = parsed(end.stdout)["found_rate"]
    assert (found["rate"], found["low"], len(found["steps"])) == (1000, 1000, 1)
    assert re.search(r"Sustained \.+ 1,000/s$", end.stderr, re.MULTILINE)


def test_each_trial_begins_with_an_empty_queue(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running_server(tmp_path) as server:
        url = f"//127.0.0.1:{server.port}/empty"
        search = ("--find-rate", "p99<1ns", "--rate", "2", "-d", "1s", "--output", str(out))
        end = find(url, *search, "--quiet")
    assert end.code == 1
    assert ["Purged " in (out / f"run-{n:02}.txt").read_text() for n in (1, 2, 3)] == [
        False, True, True,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--runs", "3"), "--runs has no effect with --find-rate"),
        (("--fail-if", "p99>1s"), "--fail-if has no effect with --find-rate"),
        (("--count", "10"), "--count has no effect with --find-rate"),
        (("--duration", "0"), "--find-rate needs a --duration"),
        (("--within", "0"), "must be at least 1"),
        (("--find-rate", "p99<10ms and rat<5"), "'rat' in 'rat<5' is not a figure"),
        (("--find-rate", "p99<"), "is not a condition such as"),
    ],
)
def test_usage_errors(words: tuple[str, ...], says: str) -> None:
    end = find("--find-rate", "p99<10ms", *words)
    assert end.code == 2
    assert says in end.stderr
