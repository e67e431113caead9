"""`quiver --sweep`: real sweeps."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path

from support.documents import parsed
from support.processes import Finished, Running, free_port, run, wait_until

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
SECONDS = 60


def sweep(*words: str) -> Finished:
    return run([*QUIVER, *words, "--duration", "1s"], SECONDS)


def test_each_point_is_measured_told_and_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    end = sweep("--sweep", "rate=1k..4k:3", "--sweep", "body-size=1,100", "--json",
                "--output", str(out))  # fmt: skip
    assert end.code == 0, end
    document = parsed(end.stdout)
    assert document == parsed((out / "sweep.json").read_text())
    assert (document["complete"], document["reason"]) == (True, None)
    assert document["options"] == ["rate", "body-size"]
    assert document["workload"]["sweep"] == ["rate=1k..4k:3", "body-size=1,100"]
    found = [tuple(point["values"].values()) for point in document["points"]]
    assert found == [(rate, size) for rate in ("1000", "2000", "4000") for size in ("1", "100")]
    for number, point in enumerate(document["points"], 1):
        assert point["name"] == f"run-{number:02}"
        assert point["complete"]
        assert point["sustained"] == (point["reason"] is None)
        summary = parsed((out / point["name"] / "sender-summary.json").read_text())
        assert summary["workload"] == {
            "duration": 1, "rate": int(point["values"]["rate"]),
            **({} if point["values"]["body-size"] == "100" else {"body-size": 1}),
        }  # fmt: skip
        config = summary["config"]
        assert str(config["rate"]) == point["values"]["rate"]
        assert str(config["body_size"]) == point["values"]["body-size"]
        assert (out / f"{point['name']}.txt").read_text()
    assert len(re.findall(r"^\[\d/6\] rate=\d+ body-size=\d+: throughput", end.stderr, re.M)) == 6
    assert re.search(r"^run-\d+ +4000 +100 ", end.stderr, re.MULTILINE)


def test_an_earlier_sweep_is_replaced(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    assert sweep("--sweep", "rate=1k,2k", "--output", out).code == 0
    assert sweep("--sweep", "rate=1k", "--output", out).code == 2
    assert sweep("--sweep", "rate=1k", "--output", out, "--force").code == 0
    assert sorted(path.name for path in Path(out).iterdir()) == [
        "run-01", "run-01.txt", "sweep.json",
    ]  # fmt: skip


def test_options_of_runs_without_a_rate() -> None:
    end = sweep("--sweep", "credit=10,1k", "--json")
    assert end.code == 0, end
    points = parsed(end.stdout)["points"]
    assert [point["sustained"] for point in points] == [True, True]
    assert all(point["figures"]["message_rate"] > 0 for point in points)


def test_without_a_server_it_ends_at_the_first_point() -> None:
    end = sweep(f"//localhost:{free_port()}/q", "--sweep", "rate=1k,2k", "--json")
    assert end.code == 1
    document = parsed(end.stdout)
    assert [point["figures"] for point in document["points"]] == [None]
    assert not document["complete"]
    assert end.stderr.splitlines()[-1].startswith("quiver: error: run-01: ")


def test_a_signal_ends_it_with_the_points_so_far(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("--sweep", "rate=1k..1m:9", "--duration", "2s", "--output", str(out), "--json")
    with Running([*QUIVER, *words]) as running:
        wait_until(lambda: (out / "run-02").exists(), "the second point has begun")
        running.send_signal(signal.SIGINT)
        end = running.wait(SECONDS)
    assert end.code == 130
    document = parsed(end.stdout)
    assert [point["values"] for point in document["points"]] == [{"rate": "1000"}]
    assert document == parsed((out / "sweep.json").read_text())
    assert end.stderr.splitlines()[-1].endswith("the sweep was not over")


def test_a_killed_sweep_goes_on(tmp_path: Path) -> None:
    """Points that were measured are kept as they are; one that was cut off is measured again."""
    out = tmp_path / "out"
    words = ["--sweep", "rate=1k,2k,3k", "--duration", "1s", "--output", str(out)]
    with Running([*QUIVER, *words]) as running:
        wait_until(lambda: (out / "run-02" / "sender-transfers.csv").exists(), "run-02 has begun")
        running.send_signal(signal.SIGKILL)
        running.wait(SECONDS)
    (out / "run-02" / ".sender-transfers.csv.zst.part").touch()
    begun = parsed((out / "sweep.json").read_text())
    assert (begun["complete"], begun["reason"], len(begun["points"])) == (False, None, 1)
    kept = {file: file.stat().st_mtime_ns for file in (out / "run-01").iterdir()}
    end = run([*QUIVER, "--resume", "--output", str(out), "--json"], SECONDS)
    assert end.code == 0, end
    document = parsed(end.stdout)
    assert document == parsed((out / "sweep.json").read_text())
    assert document["complete"]
    assert document["workload"] == begun["workload"]
    assert document["points"][0] == begun["points"][0]
    rates = [(point["name"], point["values"]["rate"]) for point in document["points"]]
    assert rates == [("run-01", "1k"), ("run-02", "2k"), ("run-03", "3k")]
    assert {file: file.stat().st_mtime_ns for file in (out / "run-01").iterdir()} == kept
    assert re.findall(r"^\[(\d/3)\]", end.stderr, re.MULTILINE) == ["2/3", "3/3"]
    again = run([*QUIVER, *words, "--resume", "--json"], SECONDS)
    assert parsed(again.stdout)["points"] == document["points"]


def test_a_point_that_is_measured_again_costs_no_later_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--sweep", "rate=1k,2k,3k", "--duration", "1s", "--output", str(out)]
    assert run([*QUIVER, *words], SECONDS).code == 0
    begun = parsed((out / "sweep.json").read_text())
    begun["points"][0]["complete"] = False
    (out / "sweep.json").write_text(json.dumps(begun))
    for signum in (signal.SIGKILL, signal.SIGTERM):
        with Running([*QUIVER, "--resume", "--output", str(out)]) as running:
            wait_until(lambda: (out / "run-01" / "sender-transfers.csv").exists(), "it measures")
            running.send_signal(signum)
            running.wait(SECONDS)
        (out / "run-01" / "sender-transfers.csv").unlink(missing_ok=True)
        ended = parsed((out / "sweep.json").read_text())
        assert (ended["complete"], ended["points"]) == (False, begun["points"][1:])
    assert run([*QUIVER, "--resume", "--output", str(out)], SECONDS).code == 0
    ended = parsed((out / "sweep.json").read_text())
    assert (ended["complete"], ended["points"][1:]) == (True, begun["points"][1:])
