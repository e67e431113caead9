"""Frames with an index: every reader gets the lines, and splits are whole frames."""

import subprocess
from shutil import which

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples

from quiver_fast.analysis.read.local import analyze_file
from quiver_fast.records.frames import (
    FRAME_SIZE,
    open_records,
    write_frames,
)
from quiver_fast.records.parser import read_transfers
from quiver_fast.records.runs import scan_runs

SENT = 1_472_344_673_324
TEXT = b"".join(b"%d,%d\n" % (SENT + n // 7, SENT + n // 5) for n in range(3000))


@pytest.fixture
def compressed(tmp_path):
    return write(tmp_path, TEXT, 1000)


def write(directory, text, frame_size):
    source, target = directory / "t.csv", directory / "t.csv.zst"
    source.write_bytes(text)
    with target.open("wb") as out:
        write_frames(source, out, frame_size=frame_size)
    return target


@pytest.mark.skipif(not which("zstd"), reason="the zstd program is not installed")
def test_the_zstd_program_reads_it(compressed):
    done = subprocess.run(["zstd", "-dc", compressed], capture_output=True, check=True)
    assert done.stdout == TEXT
    subprocess.run(["zstd", "-t", compressed], capture_output=True, check=True)


def test_a_plain_decoder_reads_it(compressed):
    decoder = zstandard.ZstdDecompressor()
    with compressed.open("rb") as file:
        reader = decoder.stream_reader(file, read_across_frames=True)
        text = b""
        while piece := reader.read(1000):
            text += piece
    assert text == TEXT


def test_our_parser_reads_it(compressed):
    transfers = read_transfers(compressed)
    assert len(transfers) == 3000
    assert (transfers.malformed, transfers.truncated) == (0, False)


def opened(path):
    with open_records(path) as records:
        return records


def missing(path):
    with open_records(path) as records:
        return records.missing_text()


def test_the_index_tells_every_frame(compressed):
    frames = opened(compressed).frames
    assert sum(frame.text_size for frame in frames) == len(TEXT)
    data = compressed.read_bytes()
    for frame in frames:
        piece = data[frame.start : frame.start + frame.size]
        text = zstandard.ZstdDecompressor().decompressobj().decompress(piece)
        assert len(text) == frame.text_size
        assert text.endswith(b"\n")


@given(st.integers(1, 5000), st.integers(1, 100_000))
@settings(
    deadline=None,
    max_examples=examples(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_splits_are_the_whole(tmp_path, frame_size, split_size):
    # A split of a byte is a scan for each line.
    text = TEXT[: len(TEXT) // 5]
    target = write(tmp_path, text, frame_size)
    for path in (target, tmp_path / "t.csv"):
        splits = opened(path).splits(split_size)
        assert [start for start, _ in splits] == [0] + [end for _, end in splits[:-1]]
        assert splits[-1][1] == path.stat().st_size
        batches = [
            batch
            for start, end in splits
            for batch in scan_runs(
                path, start=start, end=end, record_format="v3", operation="receive"
            )
        ]
        assert sum(batch.lines for batch in batches) == 600
        assert not any(batch.malformed or batch.truncated for batch in batches)


def test_other_files_are_one_split(tmp_path):
    path = tmp_path / "foreign.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(TEXT[:999]) * 2)
    assert opened(path).frames is None
    assert opened(path).splits(100) == [(0, path.stat().st_size)]
    path.write_bytes(b"")
    assert opened(path).splits(100) == []


@pytest.mark.parametrize("kept", [21, 30, 2000, -1, -20])
def test_a_file_cut_short_has_no_index_but_is_read(compressed, kept):
    compressed.write_bytes(compressed.read_bytes()[:kept])
    assert opened(compressed).frames is None
    assert opened(compressed).splits(1) == [(0, compressed.stat().st_size)]
    assert read_transfers(compressed).malformed == 0


def decoded(data):
    """Return the size of the text that can be had of zstd data."""
    size = 0
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        size += len(frame.decompress(data))
        if not frame.eof:
            break
        data = frame.unused_data
    return size


@given(st.integers(0, 100))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_cut_short_tells_how_much_is_missing(tmp_path, percent):
    target = write(tmp_path, TEXT, 10_000)
    assert missing(target) == missing(tmp_path / "t.csv") == 0
    data = target.read_bytes()
    data = data[: max(36, len(data) * percent // 100 - 1)]
    target.write_bytes(data)
    assert missing(target) == len(TEXT) - decoded(data)
    found = analyze_file(target, record_format="v3", operation="receive")
    lost = len(TEXT) - decoded(data)
    assert found.missing_bytes == (lost or None)
    assert found.truncated or not lost


def test_a_file_cut_between_frames_is_cut(compressed):
    frames = opened(compressed).frames
    compressed.write_bytes(compressed.read_bytes()[: frames[5].start])
    found = analyze_file(compressed)
    assert found.truncated
    assert found.missing_bytes == sum(frame.text_size for frame in frames[5:])


@pytest.mark.parametrize("sized", [True, False])
def test_a_foreign_file_tells_by_the_header_of_its_frame(tmp_path, sized):
    path = tmp_path / "foreign.zst"
    compressor = zstandard.ZstdCompressor(write_content_size=sized)
    whole = zstandard.ZstdCompressor().compress(TEXT)
    data = whole + compressor.compress(TEXT)
    path.write_bytes(data[: (len(whole) + len(data)) // 2])
    lost = 2 * len(TEXT) - decoded(path.read_bytes())
    assert missing(path) == (lost if sized else None)
    found = analyze_file(path)
    assert (found.truncated, found.missing_bytes) == (True, lost if sized else None)
    path.write_bytes(data)
    assert missing(path) == 0
    assert not analyze_file(path).truncated


def test_a_last_line_without_newline_stays_so(tmp_path):
    target = write(tmp_path, TEXT + b"14723", 1000)
    assert read_transfers(target).truncated
    assert sum(frame.text_size for frame in opened(target).frames) == len(TEXT) + 5


def test_frames_are_large_by_default():
    assert FRAME_SIZE == 64 << 20
