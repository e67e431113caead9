"""`quiver --resume` on sets of runs: interrupted, killed, and with damaged files."""

from __future__ import annotations

import re
import shutil
import signal
import sys
from pathlib import Path

import pytest
from support.documents import parsed
from support.processes import Finished, Running, run, wait_until
from wrapper_fake import load

from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.cli.pair import run_set
from quiver_fast.cli.pair.command import main
from quiver_fast.cli.pair.set_sides import Place
from quiver_fast.cli.shared.progress import Progress

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
SECONDS = 60


def measure(*words: str) -> Finished:
    return run([*QUIVER, "--count", "2000", *words], SECONDS)


def records_come(directory: Path) -> bool:
    files = [directory / f"{role}-transfers.csv" for role in ("sender", "receiver")]
    return all(file.exists() and file.stat().st_size for file in files)


def test_a_killed_set_goes_on(tmp_path: Path) -> None:
    """Runs that were measured are read again; the one that was cut off is measured again."""
    out = tmp_path / "out"
    words = ["--runs", "2", "--baseline=--durable", "-c", "500", "--rate", "500"]
    with Running([*QUIVER, *words, "--output", str(out)]) as running:
        wait_until(lambda: records_come(out / "candidate" / "run-01"), "the second run has begun")
        running.send_signal(signal.SIGKILL)
        running.wait(SECONDS)
    begun = load(out, "set.json")
    assert (begun["complete"], begun["reason"], len(begun["order"])) == (False, None, 1)
    end = run([*QUIVER, "--resume", "--output", str(out), "--json"], SECONDS)
    assert end.code == 0, end
    document = parsed(end.stdout)
    assert document["order"][0] == begun["order"][0]
    assert document["baseline_runs"][0] == begun["baseline_runs"][0]
    assert (document["complete"], document["complete_runs"]) == (True, 4)
    assert document["workload"] == begun["workload"]
    names = [line["name"] for line in document["order"]]
    assert names == ["baseline/run-01", "candidate/run-01", "candidate/run-02", "baseline/run-02"]
    assert "[1/4]" not in end.stderr


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_measured_again_costs_no_later_one(
    tmp_path: Path, signum: signal.Signals
) -> None:
    out = tmp_path / "out"
    words = ("--runs", "3", "-c", "500", "--rate", "500", "--output", str(out))
    assert run([*QUIVER, *words], SECONDS).code == 0
    begun = load(out, "set.json")
    cut(out / "run-01" / "sender-summary.json")
    with Running([*QUIVER, "--resume", "--output", str(out)]) as running:
        wait_until(lambda: records_come(out / "run-01"), "the first run is measured again")
        running.send_signal(signum)
        end = running.wait(SECONDS)
    if signum == signal.SIGINT:
        last = "quiver: error: interrupted by SIGINT: 2 of 3 runs are complete"
        assert end.stderr.splitlines()[-1] == last
    ended = load(out, "set.json")
    assert ended["complete_runs"] == 2
    assert [line for line in ended["order"] if line["complete"]] == begun["order"][1:]
    assert run([*QUIVER, "--resume", "--output", str(out)], SECONDS).code == 0
    assert load(out, "set.json")["order"][1:] == begun["order"][1:]


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_runs_are_read_leaves_the_set(
    tmp_path: Path,
    signum: signal.Signals,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    assert measure("--runs", "2", "--output", str(out)).code == 0
    before = (out / "set.json").read_bytes()

    def interrupted(place: Place, progress: Progress) -> RunData:
        if place.name == "run-02":
            signal.raise_signal(signum)
        return recorded(place, progress)

    recorded = run_set.recorded
    monkeypatch.setattr(run_set, "recorded", interrupted)
    assert main(["--resume", "--output", str(out)]) == code
    says = f"interrupted by {signum.name} while reading the finished runs"
    assert capsys.readouterr().err.splitlines()[-1] == f"quiver: error: {says}"
    assert (out / "set.json").read_bytes() == before


@pytest.mark.parametrize("many", [(), ("--senders", "2")])
def test_a_run_whose_files_are_damaged_is_measured_again(
    tmp_path: Path, many: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    assert measure(*many, "--runs", "2", "--output", str(out)).code == 0
    [_, other] = load(out, "set.json")["order"]
    kept = {file: file.stat().st_mtime_ns for file in (out / "run-02").iterdir()}
    damages = {
        "receiver*-transfers.csv.zst": Path.unlink, "sender*-transfers.csv.zst": Path.unlink,
        "*-summary.json": Path.unlink, "sender*-summary.json": cut,
        "receiver*-transfers.csv.*": cut,
    }  # fmt: skip
    for pattern, damage in damages.items():
        for file in (out / "run-01").glob(pattern):
            damage(file)
        end = run([*QUIVER, "--resume", "--output", str(out)], SECONDS)
        assert end.code == 0, (pattern, end)
        assert re.findall(r"^\[(\d/2)\]", end.stderr, re.MULTILINE) == ["1/2"], (pattern, end)
        document = load(out, "set.json")
        assert (document["complete_runs"], document["order"][1]) == (2, other)
        assert {file: file.stat().st_mtime_ns for file in (out / "run-02").iterdir()} == kept


def test_a_place_that_takes_no_run_costs_no_other_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert measure("--runs", "2", "--output", str(out)).code == 0
    begun = load(out, "set.json")
    shutil.rmtree(out / "run-01")
    (out / "run-01").write_text("a file")
    end = run([*QUIVER, "--resume", "--output", str(out)], SECONDS)
    assert end.code == 1
    assert re.search(r"^quiver: error: run-01: .*: File exists; 1 of 2 runs", end.stderr, re.M), end
    # Then the document cannot be written.
    (out / ".set.json.part").mkdir()
    end = run([*QUIVER, "--resume", "--output", str(out)], SECONDS)
    assert end.code == 1
    assert "Traceback" not in end.stderr
    assert "set.json" in end.stderr.splitlines()[-1]
    (out / ".set.json.part").rmdir()
    (out / "run-01").unlink()
    assert run([*QUIVER, "--resume", "--output", str(out)], SECONDS).code == 0
    assert load(out, "set.json")["order"][1] == begun["order"][1]
