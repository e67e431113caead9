"""Ctrl-C while a finished run is analysed: the command says where its records are."""

import json

import pytest

from quiver_fast.cli.analyze import command as analyze
from quiver_fast.cli.arrow.run import ArrowRun
from quiver_fast.cli.pair import command as pair
from quiver_fast.cli.pair import ends_run
from quiver_fast.cli.pair import run as pair_run

ENDS = ([], ["--senders", "2"])


def interrupted(*_args, **_more):
    raise KeyboardInterrupt


def run_pair(words, output, capfd):
    """Return the output of a pair that is interrupted."""
    assert pair.main(["-c", "10", "--output", str(output), *words]) == 130
    _, errors = capfd.readouterr()
    return errors


@pytest.mark.parametrize("words", ENDS)
def test_before_the_records_are_read(words, tmp_path, monkeypatch, capfd):
    with monkeypatch.context() as patch:
        patch.setattr(pair_run, "analyse_pair", interrupted)
        patch.setattr(ends_run, "analyse_ends", interrupted)
        errors = run_pair(words, tmp_path, capfd)
    said = f"interrupted: the records are in '{tmp_path}', for quiver-analyze"
    assert errors == f"quiver: error: {said}\n"
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    assert analyze.main([str(tmp_path), "--json", "--quiet"]) == 0
    run = json.loads(capfd.readouterr().out)
    assert run["delivery"]["received"] == 10


def test_a_summary_that_is_saved_stays(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(ArrowRun, "compress", interrupted)
    assert "interrupted: the records are in" in run_pair([], tmp_path, capfd)
    summary = json.loads((tmp_path / "receiver-summary.json").read_text())
    assert summary["latency"]["percentiles"]["99"] > 0
