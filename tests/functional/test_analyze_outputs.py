"""The files that `quiver-analyze` writes: their order, and outputs that fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from quiver_fast.cli.analyze.command import main

EPOCH = 1_700_000_000_000
Analyze = Callable[..., tuple[int, str, str]]


@pytest.fixture(name="analyze")
def the_command(capsys: pytest.CaptureFixture[str]) -> Analyze:
    def analyze(*words: str | Path) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return analyze


def test_seconds_of_several_runs_are_in_the_order_of_time(tmp_path: Path, analyze: Analyze) -> None:
    """Java's reader drops an interval that begins before the last one."""
    pytest.importorskip("hdrh.log", reason="hdrhistogram is optional")
    for name, begin in (("older", EPOCH), ("newer", EPOCH + 2000)):
        lines = [f"{begin + second * 1000},{begin + second * 1000 + 1}\n" for second in range(4)]
        (tmp_path / name).mkdir()
        (tmp_path / name / "receiver-transfers.csv").write_text("".join(lines))
    runs = (tmp_path / "newer", tmp_path / "older")
    assert analyze(*runs, "--hlog", tmp_path / "h.hlog")[0] == 0
    begins = [
        float(line.split(",")[0])
        for line in (tmp_path / "h.hlog").read_text().splitlines()
        if line[0].isdigit()
    ]
    assert begins == sorted(begins)
    assert len(begins) == 8


def test_an_output_that_fails_keeps_no_other_back(tmp_path: Path, analyze: Analyze) -> None:
    (tmp_path / "r.csv").write_text(f"{EPOCH},{EPOCH + 1}\n")
    files = ("--html", "/dev/full", "--markdown", "/dev/full", "--junit", tmp_path / "v.xml")
    words = (tmp_path / "r.csv", "--json", *files, "--hgrm", tmp_path / "h", "--fail-if")
    for condition, expected in (("count>0", 99), ("count<1", 1)):
        code, out, err = analyze(*words, condition)
        assert code == expected
        assert json.loads(out)["thresholds"][0]["breached"] == (expected == 99)
        assert err.count("quiver-analyze: error: /dev/full: No space left on device\n") == 1
        assert (tmp_path / "v.xml").read_text().count("<testcase") == 1
        assert (tmp_path / "h").exists()


def test_an_output_that_cannot_be_written_is_refused(tmp_path: Path, analyze: Analyze) -> None:
    for option in ("--html", "--hgrm", "--hlog", "--markdown", "--junit"):
        code, _, err = analyze("none", option, tmp_path / "none" / "f")
        assert (code, f"argument {option}" in err) == (2, True)
