"""From words to files to runs."""

from pathlib import Path

import pytest

from quiver_fast.analysis.read.discovery import RunFiles, find_runs
from quiver_fast.errors import UsageError
from quiver_fast.records.compression import SUFFIXES

ROLES = ("sender", "receiver")


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


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_form_is_found(tmp_path, suffix):
    """Beside a plain one too, and the ends of a run of many: an error names a form not read."""
    ends = [f"many/{role}.{n}-transfers.csv{suffix}" for role in ROLES for n in (0, 1)]
    touch(tmp_path, f"pair/sender-transfers.csv{suffix}", "pair/receiver-transfers.csv",
          f"x-sender.txt{suffix}", "x-receiver.txt", *ends)  # fmt: skip
    many, pair = find_runs([str(tmp_path)])
    assert [path.name for path in (pair.sender, pair.receiver)] == [
        f"sender-transfers.csv{suffix}", "receiver-transfers.csv",
    ]  # fmt: skip
    assert (len(many.senders), len(many.receivers)) == (2, 2)
    [pair] = find_runs([str(tmp_path / "x-*")])
    assert len(pair.paths) == 2


@pytest.mark.parametrize("name", ["sender-transfers.csv", "sender.0-transfers.csv"])
@pytest.mark.parametrize(
    ("suffixes", "taken"),
    [(["", ".zst"], ".zst"), (["", ".xz"], ""), (["", ".gz", ".zst"], ".zst"), (["", ".lz4"], "")],
)
@pytest.mark.parametrize("word", ["", "*-transfers.csv*"])
def test_of_two_forms_the_whole_one_is_taken(tmp_path, name, suffixes, taken, word):
    touch(tmp_path, *(f"{name}{suffix}" for suffix in suffixes))
    [run] = find_runs([str(tmp_path / word)])
    assert run.paths == [tmp_path / f"{name}{taken}"]


@pytest.mark.parametrize("word", ["", "*.csv.*"])
def test_of_two_forms_neither_is_guessed(tmp_path, word):
    touch(tmp_path, "sender-transfers.csv.gz", "sender-transfers.csv.xz")
    with pytest.raises(UsageError, match=r"csv\.gz' and '.*\.xz' are one file in two forms"):
        find_runs([str(tmp_path / word)])


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
