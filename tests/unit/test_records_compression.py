"""Text that others wrote: compressed in any form, with a byte-order mark, in another encoding."""

import bz2
import gzip
import lzma
import random
from codecs import BOM_UTF8

import numpy as np
import pytest
from support.compressed import FORMS, REFUSED, xz_of_large_dictionary
from support.record_files import Traffic, receiver_lines, sender_lines

from quiver_fast.analysis.read.discovery import RunFiles
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.errors import RecordError
from quiver_fast.records.formats import RECEIVE, SEND
from quiver_fast.records.frames import open_records
from quiver_fast.records.parser import TransferTail, read_transfers
from quiver_fast.records.runs import scan_runs
from quiver_fast.records.sources import open_place, open_source
from quiver_fast.records.splits import scan_file, tells_ends

SENT = 1_700_000_000_000
LINES = "".join(f"{SENT + n},0\n" for n in range(40_000)).encode()
STREAMS = {suffix: made for suffix, made in FORMS.items() if suffix != ".zst"}


def ignore(_done, _size):
    pass


def compressed(suffix, text):
    return FORMS[suffix](text) if suffix else text


def lines_of(traffic, operation, record_format):
    made = sender_lines if operation == SEND else receiver_lines
    return "".join(made(traffic, record_format)).encode()


def write_ends(folder, suffix, mark, record_format):
    traffic = Traffic(1, 3000)
    for role, operation in (("sender", SEND), ("receiver", RECEIVE)):
        text = mark + lines_of(traffic, operation, record_format)
        (folder / f"{role}-transfers.csv{suffix}").write_bytes(compressed(suffix, text))
    return RunFiles(
        "run", *(folder / f"{end}-transfers.csv{suffix}" for end in ("sender", "receiver"))
    )


def found_in(files):
    found = load_run(files, ignore)
    for summary in (found.sender, found.receiver):
        assert summary["records"]["malformed"] == 0
        del summary["file"]
    return found.sender, found.receiver, found.delivery


@pytest.mark.parametrize("record_format", ["v1", "v2", "v3"])
@pytest.mark.parametrize("mark", [b"", BOM_UTF8], ids=["", "marked"])
@pytest.mark.parametrize("suffix", ["", *FORMS])
def test_a_pair_says_the_same_in_every_form(tmp_path, suffix, mark, record_format):
    (tmp_path / "plain").mkdir()
    (tmp_path / "other").mkdir()
    plain = found_in(write_ends(tmp_path / "plain", "", b"", record_format))
    assert found_in(write_ends(tmp_path / "other", suffix, mark, record_format)) == plain


def scanned(path, size):
    with open_records(path) as records:
        return list(scan_file(records, split_size=size, threads=2))


@pytest.mark.parametrize("suffix", ["", *FORMS])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 700])
def test_a_mark_and_splits(tmp_path, suffix, size):
    """Wherever they cut, and through all that reads files."""
    text = b"".join(b"%d,%d\n" % (n, SENT + n) for n in range(100))
    path = tmp_path / "sender"
    path.write_bytes(compressed(suffix, BOM_UTF8 + text))
    found = [
        sum(int(batch.count.sum()) for batch in scan_runs(path)),
        sum(int(batch.count.sum()) for batch in scanned(path, size)),
        len(read_transfers(path)),
    ]
    assert found == [100, 100, 100]
    assert not any(batch.malformed or batch.ids_hashed for batch in scanned(path, size))


@pytest.mark.parametrize("suffix", ["", *FORMS])
@pytest.mark.parametrize("size", [1, 40, 1000])
def test_ends_and_splits(tmp_path, suffix, size):
    """Each record is of the end that was told last, in whichever split that was."""
    path = tmp_path / "receiver"
    ends = [n // 7 % 3 for n in range(300)]
    lines = [b"@%d\n" % end * (n % 7 == 0) + b"%d,%d,%d\n" % (n, SENT, SENT + n // 5)
             for n, end in enumerate(ends)]  # fmt: skip
    path.write_bytes(compressed(suffix, b"".join(lines)))
    batches = scanned(path, size)
    found = [np.repeat(batch.ends, batch.count) for batch in batches if len(batch)]
    assert np.concatenate(found).tolist() == ends
    assert read_transfers(path).ends.tolist() == ends
    assert tells_ends(path)


@pytest.mark.parametrize("suffix", ["", *FORMS])
@pytest.mark.parametrize("text", [b"", b"\xef", b"\xef\xbb", BOM_UTF8, b"7"])
def test_hardly_any_text(tmp_path, suffix, text):
    path = tmp_path / "x"
    path.write_bytes(compressed(suffix, text))
    with open_place(path) as file:
        source, block = open_source(file), bytearray(9)
        count = source.readinto(memoryview(block))
        assert source.readinto(memoryview(block)) == 0
    assert bytes(block[:count]) == text.removeprefix(BOM_UTF8)
    assert not source.truncated


def test_a_mark_that_grows(tmp_path):
    """A foreign arrow may write one to its standard output; the live table counts each record."""
    path = tmp_path / "sender"
    path.touch()
    with TransferTail(path, SEND) as tail, path.open("ab", buffering=0) as out:
        for byte in BOM_UTF8:
            assert tail.read().count == 0
            out.write(bytes([byte]))
        out.write(b"7,%d\n8,%d\n" % (SENT, SENT))
        batch = tail.read()
    assert (batch.count, batch.malformed) == (2, 0)


@pytest.mark.parametrize(
    ("suffix", "padding"),
    [(".xz", b"\0" * 8), (".gz", b"\0" * 512), (".bz2", b""), (".gz", b""), (".zst", b"")],
)
def test_members_one_after_the_other(tmp_path, suffix, padding):
    path = tmp_path / "t.csv"
    made = FORMS[suffix]
    path.write_bytes(made(LINES[:1600]) + padding + made(b"") + made(LINES[1600:]) + padding)
    transfers = read_transfers(path)
    assert (len(transfers), transfers.malformed, transfers.truncated) == (40_000, 0, False)


@pytest.mark.parametrize("suffix", STREAMS)
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, -1])
def test_a_cut_file_says_how_many_records_are_left(tmp_path, suffix, part):
    path = tmp_path / f"sender-transfers.csv{suffix}"
    data = compressed(suffix, random_lines())
    path.write_bytes(data[: part if part < 0 else int(part * len(data))])
    with pytest.raises(RecordError, match=r"is cut short: [\d,]+ records are left") as caught:
        load_run(RunFiles("run", sender=path), ignore)
    assert f"{len(read_transfers(path)):,} records" in str(caught.value)


def random_lines():
    """Return lines that take many blocks of any form."""
    steps, time, lines = random.Random(5), SENT, []
    for _ in range(60_000):
        time += steps.randrange(1000)
        lines.append(b"%d,0\n" % time)
    return b"".join(lines)


@pytest.mark.parametrize(
    ("suffix", "name", "where"),
    [
        (".xz", "xz", "inside"),
        (".xz", "xz", "behind"),
        (".gz", "gzip", "inside"),
        (".gz", "gzip", "behind"),
        (".bz2", "bzip2", "inside"),
        (".bz2", "bzip2", "behind"),
        (".zst", "zstd", "behind"),
    ],
)
def test_a_damaged_file_is_named(tmp_path, suffix, name, where):
    path = tmp_path / f"sender-transfers.csv{suffix}"
    data = bytearray(compressed(suffix, random_lines()))
    if where == "behind":
        data += b"junk, no member"
    else:
        middle = len(data) // 2
        data[middle : middle + 99] = b"x" * 99
    path.write_bytes(data)
    with pytest.raises(RecordError, match=f"damaged {name} data"):
        load_run(RunFiles("run", sender=path), ignore)


@pytest.mark.parametrize("suffix", STREAMS)
def test_strong_compression_comes_in_small_steps(tmp_path, suffix):
    path, size = tmp_path / "x", 16 << 20
    path.write_bytes({".xz": lzma, ".gz": gzip, ".bz2": bz2}[suffix].compress(bytes(size)))
    with open_place(path) as file:
        source, block, total = open_source(file), memoryview(bytearray(8 << 20)), 0
        while count := source.readinto(block):
            # One step's text, which the memory of the decompressor does not exceed.
            assert count <= 2 << 20
            total += count
    assert (total, source.truncated) == (size, False)


@pytest.mark.parametrize("suffix", REFUSED)
def test_other_forms_are_refused_by_name(tmp_path, suffix):
    data, command = REFUSED[suffix]
    path = tmp_path / f"a b-transfers.csv{suffix}"
    path.write_bytes(data)
    with pytest.raises(RecordError) as caught:
        load_run(RunFiles("run", other=path), ignore)
    assert f"{command} '{path}' > '{tmp_path}/a b-transfers.csv'" in str(caught.value)


def test_a_file_that_asks_for_much_memory_is_refused(tmp_path):
    path = tmp_path / "t.xz"
    path.write_bytes(xz_of_large_dictionary(LINES))
    assert lzma.decompress(path.read_bytes()) == LINES
    with pytest.raises(RecordError, match=f"xz -dc {path} > {tmp_path}/t$"):
        load_run(RunFiles("run", other=path), ignore)


@pytest.mark.parametrize("end", ["", "\r"], ids=["LF", "CR LF"])
@pytest.mark.parametrize("suffix", ["", ".xz"])
@pytest.mark.parametrize(
    ("encoding", "marked", "words"),
    [
        (
            "utf-16-le",
            True,
            "it is UTF-16 (little-endian), and records are UTF-8: iconv -f UTF-16 ",
        ),
        ("utf-16-be", True, "it is UTF-16 (big-endian), and records are UTF-8: iconv -f UTF-16 "),
        ("utf-16-le", False, "UTF-16 (little-endian), and records are UTF-8: iconv -f UTF-16LE "),
        ("utf-16-be", False, "UTF-16 (big-endian), and records are UTF-8: iconv -f UTF-16BE "),
        ("utf-32-le", True, "UTF-32 (little-endian), and records are UTF-8: iconv -f UTF-32 "),
        ("utf-32-be", True, "UTF-32 (big-endian), and records are UTF-8: iconv -f UTF-32 "),
        ("utf-32-le", False, "UTF-32 (little-endian), and records are UTF-8: iconv -f UTF-32LE "),
        ("utf-32-be", False, "UTF-32 (big-endian), and records are UTF-8: iconv -f UTF-32BE "),
    ],
)
@pytest.mark.parametrize("line", ["7,{}", "{0},{0}"])
def test_wide_encodings_are_named(tmp_path, encoding, marked, words, suffix, end, line):
    text = ("\ufeff" if marked else "") + (line.format(SENT) + end + "\n") * 9
    path = tmp_path / f"receiver-transfers.csv{suffix}"
    path.write_bytes(compressed(suffix, text.encode(encoding)))
    with pytest.raises(RecordError) as caught:
        load_run(RunFiles("run", receiver=path), ignore)
    assert words in str(caught.value)


def test_a_wide_line_behind_others_is_named(tmp_path):
    """PowerShell appends such to a file of another encoding."""
    path = tmp_path / "sender-transfers.csv"
    path.write_bytes(b"%d,0\n" % SENT + f"{SENT},0\r\n".encode("utf-16-le"))
    found = load_run(RunFiles("run", sender=path), ignore)
    assert "UTF-16 (little-endian)" in found.sender["records"]["first_malformed"]["fault"]
