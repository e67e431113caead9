"""`quiver --find-rate`: real searches, with a condition whose limit is known."""

from __future__ import annotations

import re
import signal
import sys
import time
from pathlib import Path

import psutil
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
        r"Sustained \.+ [23],\d{3}/s( \(unconfirmed\))?$",
        r"Target \.+ pyfast, peer-to-peer$",
        rf"Conditions \.+ rate<{LIMIT}$",
        r"Interval, 95 % \.+ [23],\d{3}/s to [23],\d{3}/s$",
        r"Just above \.+ at [23],\d{3}/s: rate is .*$",
        r"Confirmation \.+ \d of 3 at [23],\d{3}/s, \d of 3 at [23],\d{3}/s$",
        r"run-01 +1,000/s +[\d,]+/s( +[\d,.]+ (us|ms)){3} +sustained",
    ):
        assert re.search(line, end.stderr, re.MULTILINE), (line, end.stderr)


def test_no_rate_is_sustained() -> None:
    end = find("--find-rate", "p99<1ns", "--rate", "2", "-d", "1s", "--quiet")
    assert end.code == 1
    assert re.search(r"no limit was found: not even 1/s is sustained: p99 is .* beyond", end.stderr)


def test_the_time_is_over(tmp_path: Path) -> None:
    place = ("--output", str(tmp_path))
    end = find("--find-rate", "p99<10s", "-d", "1s", "--within", "1s", "--json", *place)
    assert end.code == 1
    found = parsed(end.stdout)["found_rate"]
    steps = found.pop("steps")
    assert [step["rate"] for step in steps] == [1000]
    assert found == {
        "rate": 1000, "low": 1000, "high": None, "confirmed": False, "confirmation": None,
        "stalled": {"failed": 0, "runs": 0}, "reason": None,
    }  # fmt: skip
    assert "no limit was found: 1,000/s and all below are sustained" in end.stderr
    with Running([*QUIVER, "--resume", *place]) as running:
        wait_until(lambda: (tmp_path / "run-02" / "sender-transfers.csv").exists(), "it goes on")
        assert parsed((tmp_path / "rate.json").read_text())["found_rate"]["steps"] == steps
        running.send_signal(signal.SIGINT)
        assert running.wait().code == 130
    assert parsed((tmp_path / "rate.json").read_text())["found_rate"]["steps"] == steps
    more = parsed(find("--resume", "--json", *place).stdout)["found_rate"]["steps"]
    assert (more[0], more[1]["rate"], len(more)) == (steps[0], 2000, 2)
    assert (tmp_path / "run-02").is_dir()


def test_a_target_that_is_not_there_ends_it() -> None:
    end = find("//localhost:1/q", "--find-rate", "p99<10ms", "-d", "1s", "--json")
    assert end.code == 1
    assert "Traceback" not in end.stderr
    found = parsed(end.stdout)["found_rate"]
    # It says nothing about any rate.
    assert (found["low"], found["high"], found["reason"]) == (None, None, None)
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
    assert re.search(r"Sustained \.+ 1,000/s \(unconfirmed\)$", end.stderr, re.MULTILINE)


def test_each_trial_begins_with_an_empty_queue(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running_server(tmp_path) as server:
        url = f"//127.0.0.1:{server.port}/empty"
        search = ("--find-rate", "p99<1ns", "--rate", "2", "-d", "1s", "--output", str(out))
        end = find(url, *search, "--quiet", "--warm-up", "0")
    assert end.code == 1
    assert ["Purged " in (out / f"run-{n:02}.txt").read_text() for n in (1, 2, 3)] == [
        False, True, True,
    ]  # fmt: skip


def test_a_server_is_warmed_up_first(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running_server(tmp_path) as server:
        url = f"//127.0.0.1:{server.port}/warm"
        search = ("--find-rate", "p99<1ns", "--rate", "1", "-d", "1s", "--warm-up", "1s")
        end = find(url, *search, "--output", str(out), "--json")
    warmed = parsed(end.stdout)["warm_up"]
    assert len(warmed["rates"]) == 1
    assert warmed["rates"][0] > 0
    assert (warmed["steady"], warmed["reason"]) == (None, None)
    assert re.search(r"^Warmed up for \d+ s, to [\d,]+ messages/s$", end.stderr, re.MULTILINE)
    assert not (out / "warm-up").exists()
    # What a warm-up left is no part of a trial.
    assert "Purged " in (out / "run-01.txt").read_text()


def test_a_target_that_is_stopped_at_the_end_is_not_void(tmp_path: Path) -> None:
    """Its sender waits for credit: that is evidence."""
    command = [*QUIVER, "--find-rate", "max<50ms", "--rate", "1k", "-d", "3s", "--within", "1s"]
    out = tmp_path / "out"
    with running_server(tmp_path) as server:
        url = f"//127.0.0.1:{server.port}/still"
        with Running([*command, url, "--warm-up", "0", "--json", "--output", str(out)]) as running:
            records = out / "run-01" / "receiver-transfers.csv"
            wait_until(lambda: records.exists() and records.stat().st_size > 0, "it measures")
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(0.6)
            server.process.send_signal(signal.SIGCONT)
            end = running.wait()
    [step] = parsed(end.stdout)["found_rate"]["steps"]
    assert (step["sustained"], step["void"]) == (False, False), end


def test_a_sender_that_stood_still_makes_a_trial_void(tmp_path: Path) -> None:
    command = [*QUIVER, "--find-rate", "max<50ms", "--rate", "1k", "-d", "3s", "--within", "1s"]
    out = tmp_path / "out"
    with running_server(tmp_path) as server:
        url = f"//127.0.0.1:{server.port}/void"
        with Running([*command, url, "--warm-up", "0", "--json", "--output", str(out)]) as running:
            records = out / "run-01" / "receiver-transfers.csv"
            wait_until(lambda: records.exists() and records.stat().st_size > 0, "it measures")
            sender = next(
                child
                for child in psutil.Process(running.process.pid).children(recursive=True)
                if "operation=send" in child.cmdline()
            )
            sender.suspend()
            time.sleep(0.6)
            sender.resume()
            end = running.wait()
    [step] = parsed(end.stdout)["found_rate"]["steps"]
    assert (step["sustained"], step["void"]) == (False, True), end
    assert re.match(r"void: the sender was late itself, by [\d.]+ m?s", step["reason"])
    assert "no limit was found: all trials are void: the sender was late itself" in end.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--runs", "3"), "--runs does not go with --find-rate"),
        (("--fail-if", "p99>1s"), "--fail-if does not go with --find-rate"),
        (("--count", "10"), "--count does not go with --find-rate"),
        (("--duration", "0"), "--find-rate needs --duration"),
        (("--within", "0"), "must be at least 1"),
        (("--find-rate", "p99<10ms and rat<5"), "'rat' in 'rat<5' is not a figure"),
        (("--find-rate", "p99<"), "is not a condition such as"),
    ],
)
def test_usage_errors(words: tuple[str, ...], says: str) -> None:
    end = find("--find-rate", "p99<10ms", *words)
    assert end.code == 2
    assert says in end.stderr


def test_a_warm_up_is_of_a_search() -> None:
    end = find("--warm-up", "5s", "--rate", "10")
    assert end.code == 2
    assert "--warm-up needs --find-rate: --warmup is of each run" in end.stderr
