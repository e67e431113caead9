"""Splits as rows: runs without loss, bad lines kept, settlements joined where they are."""

from __future__ import annotations

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from support.compressed import FORMS, REFUSED
from support.peers import why_missing

from quiver_fast.analysis.tables import sorted_rows
from quiver_fast.errors import RecordError, UsageError
from quiver_fast.records.frames import write_frames

if why_missing("spark") is None:
    from spark_analysis import record_rows
    from spark_analysis.files import discover, splits_of
    from spark_analysis.record_rows import parse_split

TIME = 1_700_000_000_000
GOOD = f"{TIME},{TIME + 1}\n"


def rows(path: Path, size: int = 1 << 20) -> list[dict[str, object]]:
    [file] = discover([str(path)])
    return [
        row for s in splits_of(file, size) for batch in parse_split(s) for row in batch.to_pylist()
    ]


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1), st.integers(1, 99))
def test_runs_are_lossless(messages: list[tuple[int, int]], size: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "receiver-transfers.csv")
        path.write_text("".join(f"{id_},{TIME + t},{TIME + t + 1}\n" for id_, t in messages))
        found, place = [], 0
        for row in rows(path, size):
            if row["kind"] == "extent":
                place = 0
            # Times that go back are told in a row of their own.
            if row["kind"] in ("extent", "clock"):
                continue
            assert row["position"] == place
            place += row["n"]
            found += [(row["id"] + k, row["sent"], row["received"]) for k in range(row["n"])]
    assert found == [(id_, TIME + t, TIME + t + 1) for id_, t in messages]


@pytest.mark.parametrize("suffix", ["", ".zst"])
def test_a_split_begins_with_the_end_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """However far back that was told, and be it where one split ends and another begins."""
    monkeypatch.setattr(record_rows, "_LOOK_BACK", 50)
    plain, path = tmp_path / "plain", tmp_path / f"receiver-transfers.csv{suffix}"
    ends = [n // 9 % 3 for n in range(300)]
    lines = [f"@{end}\n" * (n % 9 == 0) + f"{n},{TIME},{TIME + n}\n" for n, end in enumerate(ends)]
    plain.write_text("".join(lines))
    with path.open("wb") as out:
        if suffix:
            write_frames(plain, out, frame_size=100)
        else:
            out.write(plain.read_bytes())
    [file] = discover([str(path)])
    for size in (1, 40, 300):
        found = [
            row["member"]
            for split in splits_of(replace(file, members=3), size)
            for batch in parse_split(split)
            for row in batch.to_pylist()
            if row["kind"] == "transfer"
        ]
        assert found == ends


# Settlements of ids that were sent or not, once or again, early or late.
EVENTS = st.lists(st.tuples(st.sampled_from(["", "s", "S"]), st.integers(1, 9)), max_size=30)


@settings(deadline=None)
@given(EVENTS, st.sampled_from([1, 30_000]), st.sampled_from([1, 1 << 20]))
def test_settlements_are_joined_in_the_split(
    events: list[tuple[str, int]], step: int, room: int
) -> None:
    """Against the obvious way: a dictionary of the first send of each id.

    Ids are ``step`` apart, in one block of ids or several; what takes more than ``room``
    bytes is sorted in files.
    """
    events = [(kind, id_ * step) for kind, id_ in events]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_rows, "ROOM", room)
        path = Path(folder, "sender-transfers.csv")
        times = range(TIME, TIME + len(events))
        lines = [f"{kind}{id_},{time}\n" for (kind, id_), time in zip(events, times, strict=True)]
        path.write_text("".join(lines))
        found = rows(path)
    sends: dict[int, int] = {}
    for (kind, id_), time in zip(events, times, strict=True):
        if kind == "":
            sends.setdefault(id_, time)
    settled = [(k, i, t) for (k, i), t in zip(events, times, strict=True) if k]
    expected = {
        "settled": sorted((k == "S", i, sends[i], t) for k, i, t in settled if i in sends),
        "unmatched": sorted((k == "S", i, None, t) for k, i, t in settled if i not in sends),
        "unsettled": sorted((None, i, t, None) for i, t in sends.items()
                            if i not in {i for _, i, _ in settled}),
    }  # fmt: skip
    for kind, values in expected.items():
        assert values == sorted(
            (row["sampled"], row["id"] + k, row["sent"], row["settled"])
            for row in found
            if row["kind"] == kind
            for k in range(row["n"])
        )


def compress(text: str) -> bytes:
    return zstandard.compress(text.encode())


@pytest.mark.parametrize("compressed", [False, True])
def test_bad_lines_are_counted_and_kept(tmp_path: Path, compressed: bool) -> None:
    many = GOOD * 10_000
    text = "warning: first\n" + many + "1,2,3,4\n" + many + "x\n" * 200 + GOOD + f"{TIME},17"
    path = tmp_path / f"receiver-transfers.csv{'.zst' if compressed else ''}"
    path.write_bytes(compress(text) if compressed else text.encode())
    found = rows(path)
    bad = [row for row in found if row["kind"] == "bad"]
    assert sum(row["n"] for row in bad) == 202
    assert [row["text"] for row in bad[:3]] == ["warning: first", "1,2,3,4", "x"]
    assert [row["position"] for row in bad[:3]] == [0, 10_001, 20_002]
    assert (len(bad), bad[-1]["text"]) == (101, None)
    assert [row["n"] for row in found if row["kind"] == "transfer"] == [20_001]
    assert [row["kind"] for row in found].count("truncated") == 1


@settings(deadline=None)
@given(st.lists(st.sampled_from(["", "", "bad {}", f"{TIME},{TIME}00{{}}"])), st.integers(1, 300))
def test_bad_lines_of_any_split(kinds: list[str], size: int) -> None:
    """They are no records, or their unit is another than that of the file."""
    bad = [kind.format(n % 10) + "\n" if kind else GOOD for n, kind in enumerate(kinds)]
    lines = [GOOD, "B,1,2,3,4\n", *bad]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "receiver-transfers.csv")
        path.write_text("".join(lines))
        found = [row["text"] for row in rows(path, size) if row["kind"] == "bad"]
    assert found == [line[:-1] for line in bad if line != GOOD]


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "marked"])
@pytest.mark.parametrize("suffix", ["", *FORMS])
def test_every_form_has_the_rows_of_a_plain_file(tmp_path: Path, suffix: str, mark: str) -> None:
    text = "".join(f"{n},{TIME + n}\n" for n in range(999)) + "\ufeffjunk\n" + f"7,{TIME}"
    for folder, form, data in (
        ("plain", "", text.encode()),
        ("other", suffix, FORMS.get(suffix, bytes)((mark + text).encode())),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"sender-transfers.csv{form}").write_bytes(data)
    plain, other = (rows_of_folder(tmp_path / folder) for folder in ("plain", "other"))
    assert other == plain
    assert [row["text"] for row in plain if row["kind"] == "bad"] == ["\ufeffjunk"]


def rows_of_folder(folder: Path) -> list[dict[str, object]]:
    [file] = discover([str(folder)])
    assert (file.arrow, file.record_format) == ("sender", "v1")
    return rows(folder)


@pytest.mark.parametrize("suffix", ["", *FORMS])
def test_a_first_line_that_is_bad_behind_a_mark(tmp_path: Path, suffix: str) -> None:
    """It is the line alone, whatever other mark it begins with."""
    path = tmp_path / f"receiver-transfers.csv{suffix}"
    path.write_bytes(FORMS.get(suffix, bytes)(f"\ufeff\ufeff{GOOD}{GOOD}".encode()))
    assert [row["text"] for row in rows(path) if row["kind"] == "bad"] == [f"\ufeff{GOOD[:-1]}"]


@pytest.mark.parametrize("suffix", REFUSED)
def test_forms_that_are_not_read_are_refused_by_name(tmp_path: Path, suffix: str) -> None:
    data, command = REFUSED[suffix]
    (tmp_path / f"sender-transfers.csv{suffix}").write_bytes(data)
    with pytest.raises(RecordError, match=f"which is not read: {command} "):
        discover([str(tmp_path)])


def test_damaged_zstd(tmp_path: Path) -> None:
    path = tmp_path / "receiver-transfers.csv.zst"
    path.write_bytes(compress(GOOD * 1000) + b"junk, not a frame")
    with pytest.raises(RecordError, match="damaged zstd data"):
        rows(path)


def test_pipes_and_loops_of_links(tmp_path: Path) -> None:
    (tmp_path / "receiver-transfers.csv").write_text(GOOD)
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(tmp_path, target_is_directory=True)
    assert len(discover([str(tmp_path / "**" / "*.csv")])) == 1
    with pytest.raises(RecordError, match=r"is a loop: it leads back to"):
        discover([str(tmp_path)])
    for name in ("a", "b"):
        (tmp_path / name).unlink()
    os.mkfifo(tmp_path / "sender-transfers.csv")
    with pytest.raises(RecordError, match=r"sender-transfers.csv is a named pipe, not a file"):
        discover([str(tmp_path)])


def test_files_are_found_by_folder_and_pattern(tmp_path: Path) -> None:
    for name in ("a/sender-transfers.csv", "a/receiver-transfers.csv.zst", "b/c/x-transfers.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"{TIME},0\n".encode())
    found = discover([str(tmp_path)])
    top = tmp_path.name
    assert {(file.run, file.arrow, file.role) for file in found} == {
        (f"{top}/a", "receiver", "receiver"),
        (f"{top}/a", "sender", "sender"),
        (f"{top}/b/c", "x", "sender"),
    }
    assert len(discover([str(tmp_path / "*")])) == 3
    with pytest.raises(UsageError, match="no files of records"):
        discover([str(tmp_path / "nothing*")])
