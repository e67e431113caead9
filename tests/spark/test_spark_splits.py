"""Splits: every line in exactly one, wherever the cuts fall; and the rows are lossless."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from support.peers import why_missing

from quiver_fast.errors import RecordError, UsageError

if why_missing("spark") is None:
    from spark_analysis.parse import parse_split
    from spark_analysis.splits import discover, is_cut_short, split_text, splits_of

SKIPPABLE = b"\x50\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"index"
TIME = 1_700_000_000_000


def lines_of(path: Path, size: int) -> list[bytes]:
    [file] = discover([str(path)])
    texts = [text for split in splits_of(file, size) for text in split_text(split)]
    return b"".join(b"".join(text) for text in texts).splitlines(keepends=True)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=6), max_size=12), st.integers(1, 20), st.booleans())
def test_every_line_is_in_one_split(parts: list[bytes], size: int, compressed: bool) -> None:
    text = b"\n".join(parts)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "receiver-transfers.csv")
        pieces = [text[start : start + 3] for start in range(0, len(text) + 1, 3)]
        frames = [zstandard.compress(piece) for piece in pieces]
        frames.insert(1, SKIPPABLE)
        path.write_bytes(b"".join(frames) if compressed else text)
        assert b"".join(lines_of(path, size)) == text
        [file] = discover([str(path)])
        for split in splits_of(file, size):
            whole = b"".join(b"".join(t) for t in split_text(split))
            assert whole == b"" or whole.endswith(b"\n") or text.endswith(whole)


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
        found = []
        for row in rows(path, size):
            found += [(row["id"] + k, row["sent"], row["received"]) for k in range(row["n"])]
    assert found == [(id_, TIME + t, TIME + t + 1) for id_, t in messages]


def test_bad_lines_are_counted_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "receiver-transfers.csv"
    good = f"{TIME},{TIME + 1}\n"
    path.write_text("warning: first\n" + good + "1,2,3,4\n" + "x\n" * 200 + good + f"{TIME},17")
    found = rows(path)
    bad = [row for row in found if row["kind"] == "bad"]
    assert sum(row["n"] for row in bad) == 202
    assert [row["text"] for row in bad[:3]] == ["warning: first", "1,2,3,4", "x"]
    assert [row["position"] for row in bad[:3]] == [0, 2, 3]
    assert bad[-1]["text"] is None
    assert [row["n"] for row in found if row["kind"] == "transfer"] == [2]
    assert [row["kind"] for row in found].count("truncated") == 1


def test_neighbours_are_one_row(tmp_path: Path) -> None:
    path = tmp_path / "sender-transfers.csv"
    path.write_text("".join(f"{n},{TIME}\n" for n in range(1, 1001)))
    [row] = [row for row in rows(path) if row["kind"] == "transfer"]
    assert (row["id"], row["sent"], row["n"]) == (1, TIME, 1000)


def test_damaged_and_short_zstd(tmp_path: Path) -> None:
    path = tmp_path / "receiver-transfers.csv.zst"
    lines = "".join(f"{TIME + n},{TIME + 2 * n}\n" for n in range(50_000)).encode()
    whole = zstandard.compress(lines)
    path.write_bytes(whole[: len(whole) // 2])
    [file] = discover([str(path)])
    assert is_cut_short(file)
    path.write_bytes(whole + b"junk, not a frame")
    with pytest.raises(RecordError, match="damaged zstd data"):
        splits_of(file)


def test_files_are_found_by_folder_and_pattern(tmp_path: Path) -> None:
    for name in ("a/sender-transfers.csv", "a/receiver-transfers.csv.zst", "b/c/x-transfers.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(f"{TIME},0\n".encode())
    found = discover([str(tmp_path)])
    top = tmp_path.name
    assert [(file.run, file.arrow) for file in found] == [
        (f"{top}/a", "receiver"), (f"{top}/a", "sender"), (f"{top}/b/c", "x"),
    ]  # fmt: skip
    assert len(discover([str(tmp_path / "*")])) == 3
    with pytest.raises(UsageError, match="no files of records"):
        discover([str(tmp_path / "nothing*")])


def test_settlements_are_joined_in_the_split(tmp_path: Path) -> None:
    path = tmp_path / "sender-transfers.csv"
    path.write_text(f"S9,{TIME}\n1,{TIME}\n2,{TIME}\nS1,{TIME + 5}\ns2,{TIME + 5}\n3,{TIME}\n")
    found = {row["kind"]: row for row in rows(path)}
    assert found["unmatched"]["id"] == 9
    assert found["unsettled"]["id"] == 3
    settled = [row for row in rows(path) if row["kind"] == "settled"]
    assert [(row["settled"] - row["sent"], row["sampled"]) for row in settled] == [
        (5, True), (5, False),
    ]  # fmt: skip
    assert np.all([row["n"] == 1 for row in settled])
