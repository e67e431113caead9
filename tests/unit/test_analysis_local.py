"""The analysis of files in one pass against NumPy over the columns that the parser gives."""

import random
import threading
from functools import partial

import numpy as np
import pytest
from analysis_twins import slow_reconcile
from column_twins import histogram, latency, settlement
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples

from quiver_fast.analysis.figures.delivery import receiver_alone
from quiver_fast.analysis.figures.latency import exact_latency
from quiver_fast.analysis.model.bounds import NOTHING_KNOWN
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.read.local import (
    analyze_file,
    analyze_receiver,
    analyze_runs,
    reconcile_runs,
)
from quiver_fast.errors import RecordError
from quiver_fast.records.formats import V2
from quiver_fast.records.frames import open_records, write_frames
from quiver_fast.records.parser import read_transfers
from quiver_fast.records.splits import scan_file

EPOCH = 1_472_344_673_324
files = settings(
    deadline=None,
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def assert_latency(ours, unit, samples):
    ours, expected = exact_latency(ours, unit), latency(samples)
    assert ours["count"] == expected["count"]
    assert list(ours["percentiles"].values()) == expected["percentiles"]
    if len(samples):
        assert (ours["mean"], ours["negative"]) == (expected["mean"], expected["negative"])
        assert ours["stddev"] == pytest.approx(expected["stddev"], rel=1e-9, abs=1e-9)


def assert_equals_columns(ours, whole):
    """Hold the analysis of a file to its columns."""
    own = whole.sent if whole.received is None else whole.received
    assert (ours.count, ours.time_unit) == (len(whole), whole.time_unit)
    assert (ours.record_format, ours.operation) == (whole.record_format, whole.operation)
    assert (ours.malformed, ours.first_malformed) == (whole.malformed, whole.first_malformed)
    assert (ours.truncated, ours.ids_hashed) == (whole.truncated, whole.ids_hashed)
    if len(own):
        assert (ours.first_time, ours.last_time) == (own[0], own[-1])
    seconds, counts = np.unique(own // PER_SECOND[whole.time_unit], return_counts=True)
    assert ours.seconds.values.tolist() == seconds.tolist()
    assert ours.seconds.counts.tolist() == counts.tolist()
    if whole.received is not None:
        rows = [
            list(row)
            for h in ours.histogram.parts()
            for row in zip(h.seconds.tolist(), h.latencies.tolist(), h.counts.tolist(), strict=True)
        ]
        expected = histogram(whole.received, whole.sent, PER_SECOND[whole.time_unit])
        assert rows == expected
        assert_latency(ours.latencies, whole.time_unit, whole.received - whole.sent)
    if whole.ids is not None and len(whole):
        assert ours.ids.distinct == len(np.unique(whole.ids))
    if whole.settled_ids is not None and len(whole.settled_ids):
        expected = settlement(whole)
        assert_latency(ours.settlement.all, whole.time_unit, expected["all"])
        assert_latency(ours.settlement.sampled, whole.time_unit, expected["sampled"])
        assert ours.settlement.unsettled == expected["unsettled"]
        assert ours.settlement.unmatched == expected["unmatched"]


def small_pieces(path, split_size, threads, **known):
    with open_records(path) as records:
        batches = scan_file(records, split_size=split_size, threads=threads, **known)
        return analyze_runs(batches, reconcilable=True)


# ---- files ---------------------------------------------------------------------------

widths = st.sampled_from([1, 1000, 10**6])
messages = st.lists(
    st.tuples(
        st.integers(0, 30),  # id
        st.integers(0, 4000),  # send time
        st.integers(-5, 3000),  # latency
        st.sampled_from([b"", b"s", b"S"]),
        st.integers(1, 15),  # how often, ids counting up
    ),
    max_size=40,
)


def lines_of(records, kind, scale):
    for message_id, sent, late, prefix, times in records:
        for n in range(times):
            start = (EPOCH + sent) * scale
            if kind == "v3 receive":
                yield b"%d,%d\n" % (start, start + late)
            elif kind == "v3 send":
                yield b"%d,0\n" % start
            elif kind == "v1 receive":
                yield b"%d,%d,%d\n" % (message_id + n, start, start + late)
            else:
                yield prefix + b"%d,%d\n" % (message_id + n, start)


@given(
    messages,
    st.sampled_from(["v3 receive", "v3 send", "v1 receive", "v2 send"]),
    widths,
    st.integers(40, 4000),
    st.integers(1, 3),
    st.integers(0, 10),
)
@files
def test_equals_numpy(tmp_path, records, kind, scale, split_size, threads, cut):
    path = tmp_path / "t.csv"
    text = b"".join(lines_of(records, kind, scale))
    junk = b"junk\n" if cut > 5 else b""
    text = text[: len(text) // 2] + junk + text[len(text) // 2 :]
    path.write_bytes(text[: len(text) - cut])
    record_format, operation = kind.split()
    known = {"record_format": record_format, "operation": operation}
    whole = read_transfers(path, **known)
    assert_equals_columns(small_pieces(path, split_size, threads, **known), whole)
    assert_equals_columns(analyze_file(path), read_transfers(path))
    assert_equals_columns(small_pieces(path, split_size, threads), read_transfers(path))


@given(messages, st.integers(50, 2000), st.integers(50, 4000))
@files
def test_compressed_frames_are_the_same(tmp_path, records, frame_size, split_size):
    path, target = tmp_path / "t.csv", tmp_path / "t.csv.zst"
    path.write_bytes(b"".join(lines_of(records, "v1 receive", 1)))
    with target.open("wb") as out:
        write_frames(path, out, frame_size=frame_size)
    assert_equals_columns(small_pieces(target, split_size, 2), read_transfers(path))


@pytest.mark.parametrize(
    "unit", ["ns", *(pytest.param(unit, marks=pytest.mark.slow) for unit in ("ms", "us"))]
)
def test_many_seconds_and_wide_latencies(tmp_path, unit):
    """Batches beyond one, latencies that do not repeat, a huge one, and clock skew."""
    scale = PER_SECOND[unit] // 1000
    source = np.random.default_rng(4)
    sent = EPOCH * scale + source.integers(0, 50 * scale, 150_000).cumsum()
    received = sent + source.integers(-3 * scale, 400 * scale, 150_000)
    received[777] = 9 * 10 ** (len(str(EPOCH * scale)) - 1)
    path = tmp_path / "t.csv"
    pairs = zip(sent.tolist(), received.tolist(), strict=True)
    path.write_bytes(b"".join(b"%d,%d\n" % pair for pair in pairs))
    assert_equals_columns(small_pieces(path, 1 << 20, 2), read_transfers(path))


def test_string_ids_join_too(tmp_path):
    path = tmp_path / "t.csv"
    ids = [b"id-%d" % n for n in range(500)]
    random.Random(5).shuffle(ids)
    sends = [b"%s,%d\n" % (i, EPOCH + n) for n, i in enumerate(ids)]
    settled = [b"s%s,%d\n" % (i, EPOCH + 700 + n) for n, i in enumerate(reversed(ids))]
    path.write_bytes(b"".join(sends + settled))
    ours = small_pieces(path, 1000, 2)
    assert_equals_columns(ours, read_transfers(path))
    assert (ours.settlement.unmatched, ours.settlement.unsettled) == (0, 0)
    assert ours.record_format == V2


# ---- two ends ------------------------------------------------------------------------

runs = st.tuples(st.integers(0, 25), st.integers(0, 12), st.integers(-3, 9), st.integers(1, 8))


@given(
    st.lists(runs, max_size=12), st.lists(runs, max_size=12), st.booleans(), st.integers(30, 900)
)
@files
def test_delivery_equals_the_twin_whatever_the_batches(tmp_path, sent, received, by_ids, size):
    sends = [(i + n, EPOCH + t) for i, t, _, times in sent for n in range(times)]
    receipts = [
        (i + n, EPOCH + t, EPOCH + t + late) for i, t, late, times in received for n in range(times)
    ]
    sender_path, receiver_path = tmp_path / "s.csv", tmp_path / "r.csv"
    if by_ids:
        sender_path.write_bytes(b"".join(b"%d,%d\n" % s for s in sends))
        receiver_path.write_bytes(b"".join(b"%d,%d,%d\n" % r for r in receipts))
    else:
        sender_path.write_bytes(b"".join(b"%d,0\n" % s[1] for s in sends))
        receiver_path.write_bytes(b"".join(b"%d,%d\n" % r[1:] for r in receipts))
    known = {"record_format": "v1" if by_ids else "v3"}
    sender = small_pieces(sender_path, size, 2, operation="send", **known)
    with open_records(receiver_path) as file:
        scan = partial(scan_file, file, split_size=size, operation="receive", **known)
        ours = reconcile_runs(sender, scan).delivery
    assert ours.pop("method") == ("ids" if by_ids else "per-millisecond lower bound")
    assert ours == slow_reconcile(sends, receipts, by_ids)


def test_a_pair_of_files(tmp_path):
    sender, receiver = tmp_path / "s.csv", tmp_path / "r.csv"
    sender.write_bytes(b"".join(b"%d,%d\n" % (n, EPOCH + n // 10) for n in range(5000)))
    kept = [n for n in range(5000) if n % 1000]
    receiver.write_bytes(
        b"".join(b"%d,%d,%d\n" % (n, EPOCH + n // 10, EPOCH + n // 10 + 3) for n in kept)
    )
    pair = analyze_receiver(receiver, analyze_file(sender, operation="send", reconcilable=True))
    assert pair.delivery == {
        "method": "ids", "sent": 5000, "received": 4995, "older": 0, "foreign": 0,
        "unreceived": 5, "lost": None, "duplicate": 0, "reordered": 0, "negative_latency": 0,
        "told_apart_by": "ids",
    }  # fmt: skip
    assert (pair.sender.count, pair.receiver.count) == (5000, 4995)
    assert pair.receiver.rate == 4995 / 0.499
    assert pair.sender.ids.distinct == 5000


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_a_queue_deals_to_several_receivers_is_in_order_for_each(tmp_path, seed, ids):
    """Each receiver's ids have gaps: the messages that another one got."""
    dealt = random.Random(seed)
    sender = tmp_path / "s.csv"
    receivers = [tmp_path / "r0.csv", tmp_path / "r1.csv"]
    sent, lines = b"", [b"", b""]
    for n in range(3000):
        time = EPOCH + n // 10
        key = b"%d," % (n + 1) if ids else b""
        sent += key + (b"%d\n" if ids else b"%d,0\n") % time
        lines[dealt.randrange(2)] += key + b"%d,%d\n" % (time, time + dealt.randrange(3))
    sender.write_bytes(sent)
    for path, text in zip(receivers, lines, strict=True):
        path.write_bytes(text)
        alone = analyze_file(path, operation="receive")
        assert receiver_alone(alone, NOTHING_KNOWN)["reordered"] == 0
        pair = analyze_receiver(path, analyze_file(sender, operation="send", reconcilable=True))
        assert pair.delivery["reordered"] == 0
        assert pair.delivery["unreceived"] == 3000 - alone.count > 0


# ---- threads -------------------------------------------------------------------------


def test_an_error_in_a_thread_is_the_callers(tmp_path):
    path, target = tmp_path / "t.csv", tmp_path / "t.csv.zst"
    path.write_bytes(b"%d,0\n" % EPOCH * 5000)
    with target.open("wb") as out:
        write_frames(path, out, frame_size=10_000)
    data = bytearray(target.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 20] = b"\xff" * 20
    target.write_bytes(data)
    with pytest.raises(RecordError, match="damaged"), open_records(target) as records:
        list(scan_file(records, split_size=1, threads=2))


def test_stopping_early_leaves_no_thread(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"%d,0\n" % EPOCH * 50_000)
    before = threading.active_count()
    with open_records(path) as records:
        scan = scan_file(records, split_size=1000, threads=2)
        next(scan)
        assert threading.active_count() > before
        scan.close()
    assert threading.active_count() == before


def test_progress_ends_at_the_size(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"%d,0\n" % EPOCH * 1000)
    told = []
    with open_records(path) as records:
        list(scan_file(records, split_size=1000, progress=lambda *both: told.append(both)))
    assert told[-1] == (16_000, 16_000)
    assert told == sorted(told)
