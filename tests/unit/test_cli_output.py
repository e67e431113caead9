import io
import json
import stat

import pytest
import zstandard

from quiver_fast.cli.shared import output
from quiver_fast.cli.shared.output import (
    ArrowFiles,
    check_output_dir,
    compress,
    make_output_dir,
    write_json,
)
from quiver_fast.errors import UsageError


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_new_directories_are_private(tmp_path):
    assert mode(make_output_dir(str(tmp_path / "new"))) == 0o700
    temporary = make_output_dir(None)
    assert temporary.name.startswith("quiver-")
    assert mode(temporary) == 0o700
    temporary.rmdir()


def test_a_directory_with_content_needs_force(tmp_path):
    check_output_dir(str(tmp_path), ("sender",), force=False)
    (tmp_path / "notes").touch()
    with pytest.raises(UsageError, match="not empty"):
        check_output_dir(str(tmp_path), ("sender",), force=False)
    check_output_dir(str(tmp_path), ("sender",), force=True)


def test_two_arrows_may_share_a_directory(tmp_path):
    (tmp_path / "receiver-transfers.csv").touch()
    (tmp_path / ".receiver-report.json").touch()
    check_output_dir(str(tmp_path), ("sender",), force=False)
    for roles in (("receiver",), ("sender", "receiver")):
        with pytest.raises(UsageError, match="not empty"):
            check_output_dir(str(tmp_path), roles, force=False)


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a directory"):
        check_output_dir(str(tmp_path / "file"), ("sender",), force=True)


def test_names_are_upstreams(tmp_path):
    files = ArrowFiles(tmp_path, "sender")
    names = [files.summary.name, files.snapshots.name, files.compressed.name]
    assert names == ["sender-summary.json", "sender-snapshots.csv", "sender-transfers.csv.zst"]


def test_write_json(tmp_path):
    write_json(tmp_path / "a.json", {"b": 1})
    assert json.loads((tmp_path / "a.json").read_text()) == {"b": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_compress_makes_independent_frames_that_end_with_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "FRAME_SIZE", 1000)
    text = b"".join(b"%d,0\n" % (1_472_344_673_324 + n) for n in range(1000))
    source, target = tmp_path / "t.csv", tmp_path / "t.csv.zst"
    source.write_bytes(text)
    progress = []
    compress(source, target, lambda done, total: progress.append((done, total)))
    assert not source.exists()
    assert progress[-1] == (len(text), len(text))
    frames = []
    with target.open("rb") as compressed:
        data = compressed.read()
    while data:
        decompressor = zstandard.ZstdDecompressor().decompressobj()
        frames.append(decompressor.decompress(data))
        data = decompressor.unused_data
    frames = frames[2:-1]  # without marker, size and index
    assert b"".join(frames) == text
    assert len(frames) > 10
    assert all(frame.endswith(b"\n") for frame in frames)


def test_a_failed_write_leaves_nothing(tmp_path):
    source = tmp_path / "t.csv"
    source.write_bytes(b"x\n")

    def fail(_done, _total):
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        compress(source, tmp_path / "t.csv.zst", fail)
    assert [file.name for file in tmp_path.iterdir()] == ["t.csv"]


def test_empty_files_compress_to_empty_files(tmp_path):
    (tmp_path / "t.csv").touch()
    compress(tmp_path / "t.csv", tmp_path / "t.csv.zst")
    reader = zstandard.ZstdDecompressor().stream_reader(
        io.BytesIO((tmp_path / "t.csv.zst").read_bytes()), read_across_frames=True
    )
    assert reader.read() == b""
