"""From words to files to runs."""

from pathlib import Path

import pytest

from quiver_fast.analysis.read.discovery import RunFiles, find_runs
from quiver_fast.errors import UsageError


def touch(directory, *names):
    for name in names:
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()


def test_an_output_directory_is_a_pair(tmp_path):
    touch(tmp_path, "sender-transfers.csv.zst", "receiver-transfers.csv.zst", "sender-summary.json",
          "sender-snapshots.csv", ".receiver-transfers.csv.zst.part")  # fmt: skip
    assert find_runs([str(tmp_path)]) == [
        RunFiles(
            str(tmp_path),
            sender=tmp_path / "sender-transfers.csv.zst",
            receiver=tmp_path / "receiver-transfers.csv.zst",
        )
    ]


def test_directories_are_searched(tmp_path):
    touch(tmp_path, "b/1/sender-transfers.csv", "b/1/receiver-transfers.csv.zst",
          "a/receiver-transfers.csv")  # fmt: skip
    runs = find_runs([str(tmp_path)])
    assert [Path(run.name).relative_to(tmp_path).as_posix() for run in runs] == ["a", "b/1"]
    assert [len(run.paths) for run in runs] == [1, 2]


def test_a_plain_file_beside_its_compressed_self_is_a_remainder(tmp_path):
    touch(tmp_path, "sender-transfers.csv", "sender-transfers.csv.zst")
    assert find_runs([str(tmp_path)])[0].sender.suffix == ".zst"


def test_files_and_globs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "x-sender.txt", "x-receiver.txt", "y1.txt", "y2.txt", "z.txt")
    runs = find_runs(["x-*.txt", "y?.txt", "z.txt", "y1.txt"])
    assert runs == [
        RunFiles("x-receiver.txt", sender=Path("x-sender.txt"), receiver=Path("x-receiver.txt")),
        RunFiles("y1.txt", other=Path("y1.txt")),
        RunFiles("y2.txt", other=Path("y2.txt")),
        RunFiles("z.txt", other=Path("z.txt")),
    ]


@pytest.mark.parametrize("word", ["nothing", "*.none", "."])
def test_nothing_is_an_error(tmp_path, monkeypatch, word):
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "snapshots.csv")
    with pytest.raises(UsageError, match=r"no such file|no records"):
        find_runs([word])
