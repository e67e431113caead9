"""`quiver --runs`: sets of real runs, alone and against a baseline; failures and interrupts."""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from support.documents import parsed
from support.processes import Finished, Running, run, wait_until
from support.server import Server, running_server
from wrapper_fake import fake_implementation, load  # noqa: F401 (a fixture)

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
ANALYZE = (sys.executable, "-m", "quiver_fast.cli.analyze.command")
COUNT = ("--count", "2000")
SECONDS = 60
FILES = [
    f"{role}-{file}"
    for role in ("receiver", "sender")
    for file in ("snapshots.csv", "summary.json", "transfers.csv.zst")
]
FIGURES = ["message_rate", "latency_p50", "latency_p99", "latency_max"]


def measure(*words: str) -> Finished:
    return run([*QUIVER, *COUNT, *words], SECONDS)


def document(*words: str) -> dict:
    end = measure("--json", *words)
    assert end.code == 0, end
    return parsed(end.stdout)


def first_sent(directory: Path) -> int:
    return load(directory, "sender-summary.json")["results"]["first_send_time"]


def config(directory: Path) -> dict:
    return load(directory, "receiver-summary.json")["config"]


@pytest.fixture(name="compared", scope="module")
def measured_against_a_baseline(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Finished]:
    """Three runs with credit 1000 and three with 10."""
    out = tmp_path_factory.mktemp("set") / "out"
    end = measure("--runs", "3", "--baseline=--credit 10", "--output", str(out), "--json")
    assert end.code == 0, end
    return out, end


@pytest.fixture(name="server", scope="module")
def server_of_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def test_each_run_has_its_directory(compared: tuple[Path, Finished]) -> None:
    out, _ = compared
    assert sorted(file.name for file in out.iterdir()) == ["baseline", "candidate", "set.json"]
    for side, credit in (("baseline", 10), ("candidate", 1000)):
        names = sorted(file.name for file in (out / side).iterdir())
        runs = ["run-01", "run-02", "run-03"]
        assert names == sorted([*runs, *(f"{name}.txt" for name in runs)])
        for name in runs:
            assert sorted(file.name for file in (out / side / name).iterdir()) == FILES
            assert config(out / side / name)["credit_window"] == credit
            made = load(out / side / name, "sender-summary.json")["workload"]
            assert made == {"count": 2000} | ({"credit": 10} if credit == 10 else {})
            assert "RESULTS" in (out / side / f"{name}.txt").read_text()
    assert out.stat().st_mode & 0o777 == 0o700


def test_the_clock_shows_abba(compared: tuple[Path, Finished]) -> None:
    out, end = compared
    runs = sorted(out.glob("*/run-0?"), key=first_sent)
    order = [str(run.relative_to(out)) for run in runs]
    assert order == [
        "baseline/run-01", "candidate/run-01", "candidate/run-02",
        "baseline/run-02", "baseline/run-03", "candidate/run-03",
    ]  # fmt: skip
    assert [run["name"] for run in parsed(end.stdout)["order"]] == order
    lines = re.findall(r"^\[(\d)/6\] (\S+): rate [\d,]+/s, p50 .*, max ", end.stderr, re.MULTILINE)
    assert lines == [(str(number), name) for number, name in enumerate(order, start=1)]


def test_the_report_has_runs_medians_and_a_verdict(compared: tuple[Path, Finished]) -> None:
    out, end = compared
    told = parsed(end.stdout)
    assert told == load(out, "set.json")
    assert told["runs"][0]["workload"] == {"count": 2000}
    assert told["baseline_runs"][0]["workload"] == {"count": 2000, "credit": 10}
    assert (told["complete"], told["asked_runs"], told["complete_runs"]) == (True, 6, 6)
    assert [len(told["runs"]), len(told["baseline_runs"])] == [3, 3]
    for side, runs in (("candidate", "runs"), ("baseline", "baseline_runs")):
        assert all(each["name"].startswith(f"{side}/run-0") for each in told[runs])
        summary = told["summary"][side]
        assert list(summary["figures"]) == FIGURES
        rates = sorted(
            each["figures"]["message_rate"] for each in told["order"] if each["side"] == side
        )
        assert summary["figures"]["message_rate"]["median"] == rates[1]
        assert summary["figures"]["message_rate"]["interval"] is None
    assert told["comparison"]["verdict"] == "too few runs: at least 5 of each"
    for line in (
        r"Baseline \.+ --credit 10$",
        r"Candidate \.+ pyfast, peer-to-peer$",
        r"Runs \.+ 6 of 6 complete$",
        r"candidate/run-02( +[\d,.]+(/s| us| ms)){4}  whole run: too short to tell$",
        r"of the steady states, or of the whole run where there is none$",
        r"BASELINE: 3 RUNS$",
        r"too few runs for an interval: at least 6$",
        r"Verdict \.+ too few runs: at least 5 of each$",
        r"With so few runs a difference of the sets is not told from one between runs\.$",
    ):
        assert re.search(line, end.stderr, re.MULTILINE), (line, end.stderr)


def without_places(comparison: dict) -> dict:
    return {key: comparison[key] for key in ("verdict", "figures")}


def test_quiver_analyze_says_the_same(compared: tuple[Path, Finished]) -> None:
    out, end = compared
    told = parsed(end.stdout)["comparison"]
    named = run([*ANALYZE, str(out / "candidate"), "--compare", str(out / "baseline"), "--json"])
    whole = run([*ANALYZE, str(out), "--json"])
    for each in (named, whole):
        assert each.code == 0, each
        found = parsed(each.stdout)["comparison"]
        assert without_places(found) == without_places(told)


def test_the_report_draws_each_run_as_a_dot(
    compared: tuple[Path, Finished], tmp_path: Path
) -> None:
    out, page = compared[0], tmp_path / "r.html"
    words = (out / "candidate" / "run-01", "--compare", out / "baseline", "--html", page)
    end = run([*ANALYZE, *map(str, words), "--quiet"], SECONDS)
    assert end.code == 0, end
    html = page.read_text()
    for name in FIGURES:
        start = html.index(f'<figure id="comparison-runs-{name.replace("_", "-")}">')
        titles = re.findall(r"<title>([^:<]*): ", html[start:].split("</figure>")[0])
        means = ["median of base", "median of candidate"]
        assert sorted(titles) == sorted(["base"] * 3 + ["candidate"] + means)


def test_runs_are_added_until_the_verdict_is_decided(tmp_path: Path) -> None:
    """A candidate with a tenth of the rate is worse after the first look."""
    out = tmp_path / "out"
    words = ("--detect", "5%", "--within", "5m", "--output", str(out), "--fail-if", "worse")
    slow = ("--count", "40", "--rate", "200", "--baseline=--rate 2k")
    end = run([*QUIVER, *slow, *words, "--json"], SECONDS)
    assert end.code == 99, end
    told = parsed(end.stdout)
    assert told["detect"] == {"change": 0.05, "decided": True, "reason": None}
    assert (told["asked_runs"], told["complete_runs"], told["complete"]) == (12, 12, True)
    assert told["comparison"]["figures"]["message_rate"]["verdict"] == "worse"
    left_out = told["comparison"]["figures"]["latency_max"]["verdict"]
    assert left_out == "not compared: --detect leaves it out"
    assert re.search(r"^DETECTION\n\nChange \.+ 5 %\ndecided$", end.stderr, re.MULTILINE)
    again = run([*ANALYZE, str(out), "--json"], SECONDS)
    assert without_places(parsed(again.stdout)["comparison"]) == without_places(told["comparison"])


def test_a_detection_ends_with_its_time_and_says_what_is_open() -> None:
    words = (
        "--baseline=--credit 10",
        "--detect",
        "1%",
        "--within",
        "1",
        "--fail-if",
        "inconclusive",
    )
    end = measure(*words, "--json")
    assert end.code == 98, end
    told = parsed(end.stdout)
    sides = [run["side"] for run in told["order"]]
    assert sides.count("baseline") == sides.count("candidate") > 0
    found = told["detect"]
    assert (found["change"], found["decided"], told["complete"]) == (0.01, False, True)
    open_ones = r"\d+ runs? of each, --within is over: message rate, latency p50, latency p99"
    assert re.match(open_ones, found["reason"]), found


def test_quiver_analyze_takes_a_set_without_a_baseline(tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = document("--runs", "2", "--output", str(out))
    assert told["comparison"] is None
    assert [each["name"] for each in told["runs"]] == ["run-01", "run-02"]
    found = run([*ANALYZE, str(out), "--json"])
    assert found.code == 0, found
    names = [each["name"] for each in parsed(found.stdout)["runs"]]
    assert names == [str(out / "run-01"), str(out / "run-02")]


def test_another_queue_is_a_baseline(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "out"
    url, other = (f"//127.0.0.1:{server.port}/{name}" for name in ("one", "two"))
    end = run([*QUIVER, url, *COUNT, "--runs", "2", "--baseline", other, "--purge", "--output",
               str(out)], SECONDS)  # fmt: skip
    assert end.code == 0, end
    for side, path in (("candidate", "one"), ("baseline", "two")):
        for name in ("run-01", "run-02"):
            assert config(out / side / name)["path"] == path
            assert "Purged 0 messages" in (out / side / f"{name}.txt").read_text()
    assert "CONFIGURATION" not in end.stdout


def test_every_run_has_its_unique_queue(server: Server, tmp_path: Path) -> None:
    out = tmp_path / "out"
    end = measure(
        f"//127.0.0.1:{server.port}/q", "--runs", "2", "--unique-queue", "--output", str(out)
    )
    assert end.code == 0, end
    paths = {config(out / name)["path"] for name in ("run-01", "run-02")}
    assert len(paths) == 2
    assert all(path.startswith("q-") for path in paths)


def test_another_program_is_a_baseline(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = f"{shlex.join(QUIVER)} --credit 10 --time-unit ms"
    end = measure(
        "--runs", "2", "--credit", "500", "--baseline", program, "--output", str(out), "--json"
    )
    assert end.code == 0, end
    told = parsed(end.stdout)
    assert told["sides"]["baseline"] == program
    for side, credit in (("candidate", 500), ("baseline", 10)):
        for name in ("run-01", "run-02"):
            found = config(out / side / name)
            assert (found["credit_window"], found["count"]) == (credit, 2000)
    warning = "quiver: warning: the runs record their times in ms and us: "
    assert end.stderr.count(warning) == 1, "a program keeps its own clock"
    log = (out / "baseline" / "run-01.txt").read_text()
    assert log.startswith(f"{program} --count=2000 --output={out}/baseline/run-01\n")
    assert "RESULTS" in log
    assert told["comparison"]["figures"]["message_rate"]["base"] > 0


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("exit 0", r"'\S+/old' left no run in its --output"),
        ("echo no luck >&2; exit 3", r"no luck \(exit code 3\)"),
        ("kill -9 $$", "killed by SIGKILL"),
        ('mkdir -p "${1#--output=}"; exit 0', r"'\S+/old' left no run in its --output"),
    ],
)
def test_a_program_that_measures_nothing(tmp_path: Path, script: str, says: str) -> None:
    old = tmp_path / "old"
    old.write_text(f'#!/bin/sh\nfor last; do :; done; set -- "$last"\n{script}\n')
    old.chmod(0o755)
    end = measure("--runs", "2", "--baseline", str(old), "--output", str(tmp_path / "out"))
    assert end.code == 1
    assert re.search(
        rf"quiver: error: baseline/run-01: {says}; 0 of 4 runs are complete$", end.stderr.strip()
    ), end


def test_an_implementation_is_a_baseline(fake, tmp_path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        [*QUIVER, *COUNT, "--runs", "1", "--baseline", "fake", "--output", str(out), "--quiet"],
        env=fake.variables("pair", {}), capture_output=True, text=True, timeout=SECONDS,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    impls = {side: config(out / side / "run-01")["impl"] for side in ("candidate", "baseline")}
    assert impls == {"candidate": "pyfast", "baseline": "fake"}
    # The fake's clock is of milliseconds: the other's is as coarse.
    for side in impls:
        summary = load(out / side / "run-01", "receiver-summary.json")
        assert summary["latency"]["unit"] == "ms"


def test_a_run_that_fails_ends_the_set(fake, tmp_path) -> None:
    out = tmp_path / "out"
    done = fake.run("pair", *COUNT, "--runs", "3", "--baseline", "pyfast", "--output", str(out),
                    "--json", FAKE_SENDER="fail")  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "quiver: error: candidate/run-01: sender (fake) failed: fake: no such queue (exit code 1)"
    )
    assert done.stderr.splitlines()[-1].endswith("; 1 of 6 runs are complete")
    told = parsed(done.stdout)
    assert (told["complete"], told["complete_runs"]) == (False, 1)
    assert [run["complete"] for run in told["order"]] == [True, False]
    # The records of the failed run are kept, and are in no figure.
    assert told["summary"]["candidate"]["runs"] == 0
    assert load(out / "candidate" / "run-01", "sender-summary.json")["complete"] is False
    assert load(out, "set.json") == told


def test_incomplete_runs_count_if_wanted(fake) -> None:
    done = fake.run("pair", *COUNT, "--runs", "2", "--allow-incomplete", "--json",
                    FAKE_SENDER="fail")  # fmt: skip
    assert done.returncode == 0, done
    told = parsed(done.stdout)
    assert (told["complete"], told["complete_runs"], told["summary"]["candidate"]["runs"]) == (
        False, 0, 2,
    )  # fmt: skip
    assert re.search(r"^run-02( +\S+){7}  INCOMPLETE  whole run: ", done.stderr, re.MULTILINE), done
    assert "\nrun-02: sender (fake) failed: fake: no such queue (exit code 1)" in done.stderr
    assert "\n2 RUNS\n" in done.stderr


def test_a_run_without_messages_fails_in_any_case(fake) -> None:
    done = fake.run("pair", "--timeout", "1", "--runs", "2", "--allow-incomplete",
                    FAKE_SENDER="silent")  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith("; 0 of 2 runs are complete")


def test_nobody_at_the_url() -> None:
    gates = ("--fail-if", "p99>5ms", "--fail-if", "lost>0")
    for runs in ([], ["--runs", "3"]):
        end = measure("//127.0.0.1:1/q", *runs, *gates)
        assert end.code == 1
        assert "--fail-if" not in end.stderr
    last = end.stderr.splitlines()[-1]
    assert last.startswith("quiver: error: run-01: ")
    assert "refused" in last
    assert last.endswith("; 0 of 3 runs are complete")
    assert "Traceback" not in end.stderr


def test_thresholds_are_of_each_run_but_the_baseline() -> None:
    told = document("--runs", "1", "--baseline=--credit 10", "--fail-if", "p99<0")
    assert [one["run"] for one in told["thresholds"]] == ["candidate/run-01"]
    end = measure("--runs", "1", "--baseline=--credit 10", "--fail-if", "worse")
    assert end.code == 99
    few = "quiver: error: --fail-if worse: too few runs: at least 5 of each (comparison)\n"
    assert few in end.stderr
    end = measure("--runs", "2", "--fail-if", "p99>=0", "--fail-if", "rate<1")
    assert end.code == 99
    assert end.stdout.count("BREACHED") == 2
    breaches = [line for line in end.stderr.splitlines() if "is breached" in line]
    assert [line.split("(")[1] for line in breaches] == ["run-01)", "run-02)"]


def test_a_threshold_of_one_run() -> None:
    assert document("--fail-if", "p99<0")["thresholds"][0]["breached"] is False
    end = measure("--fail-if", "count<3k")
    assert end.code == 99
    assert "quiver: error: threshold count<3k is breached: 2,000 messages" in end.stderr
    assert "BREACHED" in end.stdout


def test_a_full_directory_needs_force_and_gets_no_mixture(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert measure("--runs", "2", "--output", str(out)).code == 0
    (out / "run-02" / "notes").write_text("mine")
    refused = measure("--runs", "1", "--output", str(out))
    assert refused.code == 2
    assert "is not empty" in refused.stderr
    assert measure("--runs", "1", "--output", str(out), "--force").code == 0
    assert sorted(file.name for file in out.iterdir()) == [
        "run-01", "run-01.txt", "run-02", "set.json",
    ]  # fmt: skip
    assert [file.name for file in (out / "run-02").iterdir()] == ["notes"]


def records_come(directory: Path) -> bool:
    files = [directory / f"{role}-transfers.csv" for role in ("sender", "receiver")]
    return all(file.exists() and file.stat().st_size for file in files)


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_set_and_keeps_the_runs(
    tmp_path: Path, signum: signal.Signals, code: int
) -> None:
    out = tmp_path / "out"
    words = ("--runs", "100", "-c", "500", "--rate", "500", "--output", str(out), "--json")
    with Running([*QUIVER, *words]) as running:
        wait_until(lambda: records_come(out / "run-002"), "a run is complete, another one runs")
        tree = psutil.Process(running.process.pid).children(recursive=True)
        running.send_signal(signum)
        # A hundred runs take two minutes.
        end = running.wait(SECONDS)
    assert end.code == code
    told = parsed(end.stdout)
    complete = told["complete_runs"]
    assert 1 <= complete < 100
    name = signal.Signals(signum).name
    assert end.stderr.splitlines()[-1] == (
        f"quiver: error: interrupted by {name}: {complete} of 100 runs are complete"
    )
    assert told["reason"] == f"interrupted by {name}"
    assert told["summary"]["candidate"]["runs"] == complete
    last = told["order"][-1]
    assert (last["complete"], last["figures"]) == (False, None)
    # Nobody waits until its records are read: they lie there, and its summaries say so.
    for role in ("sender", "receiver"):
        summary = load(out / last["name"], f"{role}-summary.json")
        assert (summary["complete"], summary["reason"]) == (False, f"interrupted by {name}")
        lines = (out / last["name"] / f"{role}-transfers.csv").read_text().splitlines()
        assert summary["results"]["message_count"] == len(lines)
    analysed = run([*ANALYZE, str(out), "--json"])
    assert analysed.code == 0, analysed
    ends = [each["complete"] for each in parsed(analysed.stdout)["runs"]]
    assert ends == [True] * complete + [False]
    assert "Traceback" not in end.stderr
    assert not any(psutil.pid_exists(child.pid) for child in tree)


def test_a_signal_ends_another_program_with_all_that_it_started(tmp_path: Path) -> None:
    out, old = tmp_path / "out", tmp_path / "old"
    # A signal ends a wait of the shell.
    old.write_text(
        '#!/bin/sh\ntrap "echo told" INT TERM\necho ready\nsetsid sleep 600 &\nwait; wait; wait\n'
    )
    old.chmod(0o755)
    log = out / "baseline" / "run-01.txt"
    words = ("--runs", "2", "--baseline", str(old), "--output", str(out))
    with Running([*QUIVER, *words]) as running:
        wait_until(lambda: log.exists() and "ready" in log.read_text(), "the program runs")
        us = psutil.Process(running.process.pid)
        wait_until(lambda: len(us.children(recursive=True)) == 2, "it has started its own")
        tree = us.children(recursive=True)
        running.send_signal(signal.SIGINT)
        # Of two signals that wait for a process, either may come first.
        wait_until(lambda: "told" in log.read_text(), "the first signal was passed on")
        running.send_signal(signal.SIGTERM)
        end = running.wait(SECONDS)
    assert end.code == 130
    assert end.stderr.splitlines()[-1] == (
        "quiver: error: interrupted by SIGINT: 0 of 4 runs are complete"
    )
    gone, _ = psutil.wait_procs(tree, timeout=60)
    assert len(gone) == len(tree)
