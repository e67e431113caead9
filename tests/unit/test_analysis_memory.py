"""Memory does not grow with the records, whatever they hold: each in a process of its own."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.records import frames
from quiver_fast.records.compression import MARKER
from quiver_fast.records.writer import RecordWriter, write_many

EPOCH = 1_700_000_000_000
# Beyond what Python and its modules take, which is another figure for each Python. What keeps a
# number of Python's, or two of NumPy's, for each record takes a multiple.
MOST_MB = 56

# With the document of a row per second, written as JSON and as text.
MOST_MB_WRITTEN = 96

BEGINNING = r"""
import os, re, sys
from itertools import chain
from pathlib import Path
from quiver_fast.analysis.read.discovery import find_runs
from quiver_fast.analysis.read.sources import load_run
from quiver_fast.analysis.figures.statistics import run_statistics
from quiver_fast.cli.analyze.document import run_document, whole_document
from quiver_fast.cli.analyze.text import findings_text
from quiver_fast.analysis.export.json_text import json_pieces
def peak():
    # Not ru_maxrss: that begins with what the parent had.
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) / 1024
before = peak()
(files,) = find_runs(sys.argv[1:2])
run = load_run(files, lambda done, size: None)
"""
ANALYSE = f"""{BEGINNING}
run_statistics(run, 0.001)
print(run.delivery["received"], run.delivery["unreceived"])
print(peak() - before)
"""
WRITE = f"""{BEGINNING}
document = run_document(run, None, int(sys.argv[2]) or None)
whole = whole_document([document], "local", None, None, [])
with open(os.devnull, "w") as out:
    out.writelines(chain(json_pieces(whole), findings_text(document)))
print(peak() - before)
"""

pytestmark = [
    pytest.mark.measured,
    pytest.mark.skipif(
        not os.path.exists("/proc/self/status"), reason="the peak of the memory is asked of /proc"
    ),
]


def run_analysis(directory, *arguments, script=ANALYSE):
    return subprocess.run(
        [sys.executable, "-c", script, directory, *arguments], capture_output=True, text=True
    )


def analysed(directory):
    """Return how many were received and not received, and the megabytes that it took."""
    done = run_analysis(directory)
    assert done.returncode == 0, done.stderr
    received, unreceived, grown = done.stdout.split()
    return int(received), unreceived, float(grown)


@pytest.fixture
def take(figure):
    """Return a function that takes the figure: once in a test, for medians are of its runs."""

    def take(megabytes, most=MOST_MB):
        figure("memory beyond Python's own", megabytes * 2**20, at_most=most << 20, unit="B")

    return take


def check(directory, take, expected):
    *counts, grown = analysed(directory)
    take(grown)
    assert tuple(counts) == expected


def write(path, sent, received):
    with path.open("wb") as file:
        writer = RecordWriter(file.fileno())
        write_many(writer, sent.data, received.data)
        writer.flush_now()


def test_a_latency_of_its_own_for_each_message(tmp_path, take):
    """Nanoseconds: as many (second, latency) as messages, a million in each second."""
    source = np.random.default_rng(1)
    sent = EPOCH * 10**6 + source.integers(0, 2000, 2_500_000).cumsum()
    received = sent + source.integers(20_000, 5_000_000, len(sent))
    write(tmp_path / "receiver-transfers.csv", sent, received)
    check(tmp_path, take, (2_500_000, "None"))


def test_ids_in_any_order_that_are_no_numbers(tmp_path, take):
    source = np.random.default_rng(2)
    ids = source.permutation(800_000).tolist()
    late = source.permutation(800_000)[:-1].tolist()
    sends = b"".join(b"id%d,%d\n" % (i, EPOCH + n // 100) for n, i in enumerate(ids))
    receipts = b"".join(
        b"id%d,%d,%d\n" % (ids[n], EPOCH + n // 100, EPOCH + n // 100 + 5) for n in late
    )
    (tmp_path / "sender-transfers.csv").write_bytes(sends)
    (tmp_path / "receiver-transfers.csv").write_bytes(receipts)
    check(tmp_path, take, (799_999, "1"))


def test_settlements_of_such_ids(tmp_path, take):
    ids = np.random.default_rng(3).permutation(500_000).tolist()
    sends = (b"id%d,%d\n" % (i, EPOCH + n // 100) for n, i in enumerate(ids))
    settled = (b"s%d,%d\n" % (i, EPOCH + 9000) for i in ids)
    text = b"".join(sends) + b"".join(line.replace(b"s", b"sid") for line in settled)
    (tmp_path / "sender-transfers.csv").write_bytes(text)
    receipts = b"".join(b"id%d,%d,%d\n" % (i, EPOCH + n // 100, EPOCH + 9000)
                        for n, i in enumerate(ids))  # fmt: skip
    (tmp_path / "receiver-transfers.csv").write_bytes(receipts)
    check(tmp_path, take, (500_000, "0"))


# Lines as far from a record as they come, by their number.
ODD_LINES = st.sampled_from(
    [
        lambda n: b"",
        lambda n: b",%d,%d" % (EPOCH + n, EPOCH + n),
        lambda n: b"%d,%d,%d" % (n, EPOCH + n, (EPOCH + n) * 1000),
        lambda n: b"%d,%d,%d" % (n, (EPOCH + n) * 10**6, EPOCH + n),
        lambda n: b"%d,%d,%d" % (n, EPOCH, 2**63 + n),
        lambda n: b"%d,%d,%d" % (2**63 + n, EPOCH, EPOCH + n % 10**6),
        lambda n: b"x%d,%d,%d" % (n * 7919 % 10**6, n, n * n % 10**7),
        lambda n: b"y" * (n % 300_000 if n % 997 == 0 else n % 40) + b",%d,5" % n,
        lambda n: b"F,%d,%d,%d,9" % (EPOCH, EPOCH + n, EPOCH + 2 * n),
        lambda n: b"\xff" * (n % 50),
    ]
)


def most_of(strategy, examples, grown):
    """Return the most of what a function of an example returns."""
    found = []

    @given(strategy)
    @settings(deadline=None, max_examples=examples)
    def run(example):
        found.append(grown(example))

    run()
    return max(found)


def test_ten_megabytes_of_odd_ids_units_and_lines(tmp_path, take):
    def grown(kinds):
        path, size, number = tmp_path / "receiver-transfers.csv", 0, 0
        with path.open("wb") as file:
            file.write(b"1,%d,%d\n" % (EPOCH, EPOCH + 3))
            while size < 10**7 and number < 10**6:
                size += file.write(kinds[number % len(kinds)](number) + b"\n")
                number += 1
        return analysed(tmp_path)[-1]

    take(most_of(st.lists(ODD_LINES, min_size=1, max_size=5), 4, grown))


def test_a_send_time_of_its_own_for_each_message(tmp_path, take):
    """Without ids sends are compared by the tick: 1.5 million ticks, in few seconds."""
    sent = EPOCH * 1000 + np.arange(1_500_000) * 20
    write(tmp_path / "receiver-transfers.csv", sent, sent + np.arange(len(sent)) % 50_000)
    lines = b"".join(b"%d,0\n" % time for time in sent.tolist())
    (tmp_path / "sender-transfers.csv").write_bytes(lines)
    check(tmp_path, take, (1_500_000, "0"))


@pytest.mark.parametrize("size", [10**9, pytest.param(10**10, marks=pytest.mark.slow)])
def test_gigabytes(tmp_path, take, size):
    """Text in the frames of the arrows' wrappers."""
    index = np.arange(2_000_000)
    sent = EPOCH + index // 2000
    source = tmp_path / "frame.csv"
    write(source, sent, sent + index // 64 % 3)
    with (tmp_path / "frame.zst").open("w+b") as file:
        frames.write_frames(source, file)
        file.flush()
        with frames.open_records(file.name) as records:
            (frame,) = records.frames
        file.seek(frame.start)
        data = file.read(frame.size)
    count = size // frame.text_size + 1
    with (tmp_path / "receiver-transfers.csv.zst").open("wb") as file:
        file.write(MARKER + data * count)
        entry = (frame.size, frame.text_size)
        frames._write_index(file, [(len(MARKER), 0), *[entry] * count])
    source.unlink()
    check(tmp_path, take, (len(index) * count, "None"))


STEPPED = {
    "1970": 5,
    "ten years late": EPOCH + 10 * 365 * 86_400_000,
    "a week": EPOCH + 7 * 86_400_000,
}


GOOD_RECEIPTS = "".join(f"{EPOCH + n},{EPOCH + n + 3}\n" for n in range(0, 50_000, 10))


def write_stepped_receipt(directory, stamp):
    (directory / "receiver-transfers.csv").write_text(f"{GOOD_RECEIPTS}{EPOCH},{stamp}\n")


def write_stepped_send(directory):
    sends = "".join(f"{EPOCH + n},0\n" for n in range(0, 50_000, 10))
    late = STEPPED["ten years late"]
    (directory / "sender-transfers.csv").write_text(f"{sends}{late},0\n")
    (directory / "receiver-transfers.csv").write_text(GOOD_RECEIPTS)


@pytest.mark.parametrize("stamp", STEPPED.values(), ids=STEPPED)
def test_one_record_of_a_clock_that_stepped(tmp_path, take, stamp):
    """Fifty years of empty seconds took 22.7 GB."""
    write_stepped_receipt(tmp_path, stamp)
    check(tmp_path, take, (5001, "None"))


def test_one_send_of_a_clock_that_stepped(tmp_path, take):
    write_stepped_send(tmp_path)
    check(tmp_path, take, (5000, "1"))


TIME_PAIRS = st.one_of(
    st.lists(st.tuples(times, times), min_size=1, max_size=300)
    for times in (st.integers(EPOCH, EPOCH + 10**7), st.integers(0, 2**63 - 1))
)


def test_any_times_at_all(tmp_path, take):
    """Whatever the values: either they are analysed in this memory, or one line says why not."""

    def grown(pairs):
        lines = "".join(f"{sent},{received}\n" for sent, received in pairs)
        (tmp_path / "receiver-transfers.csv").write_text(lines)
        done = run_analysis(tmp_path)
        if done.returncode == 0:
            return float(done.stdout.split()[2])
        assert "RecordError" in done.stderr
        return 0

    take(most_of(TIME_PAIRS, 8, grown))


@st.composite
def shapes(draw):
    """Ten megabytes of lines of a kind: see :func:`lines_of`."""
    return {
        "record_format": draw(st.sampled_from(["v1", "v2", "v3"])),
        "ends": draw(st.sampled_from([("receiver",), ("sender",), ("sender", "receiver")])),
        "strides": draw(st.lists(st.sampled_from([0, 1, 2, 3, 60, 86_400]), min_size=1)),
        "odd": draw(st.dictionaries(st.integers(1, 300_000), st.sampled_from(ODD_TIMES))),
        "ids": draw(st.sampled_from(["", "7", "{n}", "x{n}"])),
        "unit": draw(st.sampled_from([1, 1000, 10**6])),
        "window": draw(st.sampled_from([0, 1, 60])),
    }


# Seconds since the epoch: 1970, and ten years late.
ODD_TIMES = [0, 5, EPOCH // 1000 + 10 * 365 * 86_400]


def lines_of(role, shape, size):
    """Make ``size`` bytes of records whose seconds grow by the strides in turn.

    Some records have odd times. A message is under way for its number modulo 977 ms; what a
    sender of v2 sends it settles a second later.
    """
    made, total, number, second = [], 0, 0, EPOCH // 1000
    ids = "" if shape["record_format"] == "v3" else shape["ids"] + ","
    ids = "0," if ids == "," and role == "sender" else ids
    while total < size:
        own = shape["odd"].get(number, second) * 1000
        sent = max(own - number % 977 * (role == "receiver"), 0) * shape["unit"]
        own *= shape["unit"]
        name = ids.format(n=number)
        if role == "receiver":
            line = f"{name}{sent},{own}\n"
        else:
            line = f"{name}{own}\n" if ids else f"{own},0\n"
            if shape["record_format"] == "v2":
                line += f"s{name}{own + 1000 * shape['unit']}\n"
        made.append(line)
        total += len(line)
        number += 1
        second += shape["strides"][number % len(shape["strides"])]
    return "".join(made)


def written(directory, shape):
    """Return the megabytes that the document of a shape's lines took."""
    for role in ("sender", "receiver"):
        path = directory / f"{role}-transfers.csv"
        path.unlink(missing_ok=True)
        if role in shape["ends"]:
            path.write_text(lines_of(role, shape, 10**7 // len(shape["ends"])))
    done = run_analysis(directory, str(shape["window"]), script=WRITE)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


OTHER_SECONDS = {
    "record_format": "v3", "ends": ("receiver",), "strides": [2], "odd": {}, "ids": "",
    "unit": 1, "window": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    "shape",
    [
        OTHER_SECONDS,
        OTHER_SECONDS | {"ends": ("sender",)},
        pytest.param(OTHER_SECONDS | {"window": 1}, marks=pytest.mark.slow),
        OTHER_SECONDS | {"record_format": "v1", "ends": ("sender", "receiver"), "ids": "x{n}"},
    ],
)
def test_ten_megabytes_in_seconds_of_their_own(tmp_path, take, shape):
    """They took 207 MB: five of Python's numbers for each second, and the JSON as one text."""
    take(written(tmp_path, shape), MOST_MB_WRITTEN)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_megabytes_of_any_seconds(tmp_path, take):
    take(most_of(shapes(), 60, lambda shape: written(tmp_path, shape)), MOST_MB_WRITTEN)
