"""read_transfers and TransferTail against a slow twin, on whole and on broken files."""

import functools
import itertools
import os
import random
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from id_twin import INT64_MAX, halves, siphash
from record_twin import COLUMNS, slow_parse
from support.compressed import is_plain
from support.examples import examples

from quiver_fast.errors import RecordError
from quiver_fast.records.formats import RECEIVE, SEND, V1, V2, V3
from quiver_fast.records.parser import TransferTail, read_transfers
from quiver_fast.records.writer import RecordWriter, write_many

SENT = 1472344673324
LAYOUTS = [(f, o) for f in (V1, V2, V3) for o in (SEND, RECEIVE)]

times = st.one_of(
    st.integers(0, INT64_MAX),
    st.integers(SENT, SENT + 5),
    st.integers(SENT * 1000, SENT * 1000 + 5),
    st.sampled_from([0, 9, 10**8 - 1, 10**8, 10**16, 10**18, INT64_MAX]),
)
MS_TIMES = st.one_of(st.integers(SENT, SENT + 5), st.sampled_from([0, 9, 10**8, 10**14 - 1]))
# Of one unit each, and of all: then lines in another than the first one's are malformed.
TIMES = [
    MS_TIMES,
    st.one_of(MS_TIMES, st.integers(0, 10**14 - 1)),
    st.one_of(st.integers(SENT * 1000, SENT * 1000 + 5), st.integers(10**14, 10**17 - 1)),
    st.integers(10**17, INT64_MAX),
    times,
]
ids = st.one_of(
    st.integers(0, INT64_MAX).map(lambda number: b"%d" % number),
    st.binary(max_size=40),
    st.sampled_from([b"", b"0", b"00", b"S1", b"s", b"9" * 19, b"%", b"%2", b"%2C", b"a,b\n"]),
)
junk = st.one_of(
    st.binary(max_size=60).map(lambda text: text.replace(b"\n", b"")),
    st.text(alphabet="0123456789,Ss-+ \r.", max_size=45).map(str.encode),
    st.sampled_from(
        [
            b"",
            b",",
            b"%d,%d\r" % (SENT, SENT),
            b"%d,0\r" % SENT,
            b"-5,7",
            b"+5,7",
            b"5, 7",
            b"5,7,",
            b"@",
            b"@x",
            b"@-1",
            b"@5,7",
            b"@9223372036854775808",
            b"1,2,3,4",
            b"9223372036854775808,1",
            b"1,9223372036854775808",
            b"00000000000000000001,1",
            b"\0" * 13 + b",0",
            b"/472344673324,:472344673324",
            b"1472344673:24,1472344673324",
            b"Traceback (most recent call last):",
        ]
    ),
)


# ---- plain values -------------------------------------------------------------------


def as_plain(transfers):
    """Return what slow_parse returns."""
    plain = {}
    for name in COLUMNS:
        column = getattr(transfers, name)
        assert column is None or column.dtype == (bool if name == "settled_sampled" else np.int64)
        plain[name] = None if column is None else column.tolist()
    for name in ("ids", "settled_ids"):
        if plain[name] is not None:
            plain[name] = pairs(getattr(transfers, f"{name}_high"), plain[name])
    for name in (
        "record_format", "operation", "time_unit", "malformed", "first_malformed", "truncated",
    ):  # fmt: skip
        plain[name] = getattr(transfers, name)
    return plain


def pairs(highs, lows):
    """Return (upper, lower) halves of ids; None stands for numbers throughout."""
    if highs is None:
        return [(0, low) for low in lows]
    assert (highs.dtype, len(highs)) == (np.int64, len(lows))
    assert highs.min() < 0
    return list(zip(highs.tolist(), lows, strict=True))


def parse_plain(text, record_format=None, operation=None):
    """Parse a text that must not be taken for a compressed one."""
    assume(is_plain(text))
    return parse(text, record_format, operation)


def parse(text, record_format=None, operation=None):
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        return read_transfers(file.name, record_format=record_format, operation=operation)


# ---- texts ---------------------------------------------------------------------------


def lines_of(layout, times):
    """Give lines that are mostly records of ``layout``, as another implementation prints."""
    record_format, operation = layout
    plain_ids = ids.map(lambda text: text.replace(b"\n", b"").replace(b",", b""))
    number = times.map(lambda time: b"%d" % time)
    if record_format == V3:
        second = st.just(b"0") if operation == SEND else number
        records = st.tuples(number, second)
    elif operation == SEND:
        prefix = st.sampled_from([b"", b"S", b"s"]) if record_format == V2 else st.just(b"")
        records = st.tuples(st.builds(bytes.__add__, prefix, plain_ids), number)
    else:
        records = st.tuples(plain_ids, number, number)
    ends = st.integers(0, 3).map(lambda number: b"@%d" % number)
    return st.one_of(records.map(b",".join), records.map(b",".join), junk, ends)


@st.composite
def texts(draw):
    """Draw (layout, text): lines, mixed with junk, and perhaps a truncated tail."""
    layout = draw(st.sampled_from(LAYOUTS))
    lines = draw(st.lists(lines_of(layout, draw(st.sampled_from(TIMES))), max_size=30))
    text = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    return layout, text[: len(text) - draw(st.integers(0, 3))]


# ---- properties ----------------------------------------------------------------------


@given(texts(), st.booleans(), st.booleans())
@settings(deadline=None, max_examples=examples(300))
def test_equals_its_slow_twin(case, format_known, operation_known):
    (record_format, operation), text = case
    known = (record_format if format_known else None, operation if operation_known else None)
    assert as_plain(parse_plain(text, *known)) == slow_parse(text, *known)


@given(texts(), st.data())
@settings(deadline=None)
def test_a_tail_counts_every_record_once_whatever_the_pieces(case, data):
    (record_format, operation), text = case
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    batches = []
    with tempfile.NamedTemporaryFile() as file, TransferTail(
        file.name, operation, record_format
    ) as tail:  # fmt: skip
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            file.write(text[start:end])
            file.flush()
            # More may come: only whole lines say anything.
            whole = text[: text.rfind(b"\n", 0, end) + 1]
            batches.append((slow_parse(whole, record_format, operation), tail.read()))
        assert tail.read().count == 0
    before = slow_parse(b"", record_format, operation)
    for whole, batch in batches:
        assert_batch(batch, operation, before, whole)
        before = whole


def assert_batch(batch, operation, before, whole):
    """Hold one batch to the difference of what was and what is there."""
    sent = whole["sent"][len(before["sent"]) :]
    own = sent
    latency_sum = 0
    if operation == RECEIVE:
        own = whole["received"][len(before["received"]) :]
        latency_sum = sum(own) - sum(sent)
    assert batch.count == len(sent)
    assert (batch.first_time, batch.last_time) == ((own[0], own[-1]) if own else (None, None))
    assert batch.latency_sum == latency_sum
    assert batch.settled == len(whole["settled_ids"] or []) - len(before["settled_ids"] or [])
    assert batch.malformed == whole["malformed"] - before["malformed"]
    assert batch.time_unit == whole["time_unit"]


def written_records(times):
    """Give (id, send time, later time, sampled) of messages, with times of one unit."""
    any_ids = ids.filter(len)
    return st.lists(st.tuples(any_ids, times, times, st.booleans()), max_size=30)


def plain_id(message_id):
    """Return what an id is when nothing is encoded in it."""
    decimal = re.fullmatch(rb"0|[1-9][0-9]*", message_id) and int(message_id) <= INT64_MAX
    return int(message_id) if decimal else message_id


@given(st.sampled_from(TIMES[:-1]).flatmap(written_records))
@settings(deadline=None)
def test_what_the_writer_writes_comes_back(records):
    def write_all(write):
        with tempfile.NamedTemporaryFile() as file:
            writer = RecordWriter(file.fileno(), 100)
            for record in records:
                write(writer, *record)
            writer.flush_now()
            return Path(file.name).read_bytes()

    sent = [record[1] for record in records]
    late = [record[2] for record in records]
    # Encoded bytes are decoded: the halves are those of the id itself.
    expected_ids = [halves(plain_id(record[0])) for record in records]

    back = parse_plain(write_all(lambda writer, _, sent, *rest: writer.write_sent(sent)), V3, SEND)
    assert (back.sent.tolist(), back.malformed) == (sent, 0)

    back = parse_plain(
        write_all(lambda w, i, sent, received, _: w.write_received(sent, received, i)), V1, RECEIVE
    )
    assert (back.sent.tolist(), back.received.tolist()) == (sent, late)
    assert (pairs(back.ids_high, back.ids.tolist()), back.malformed) == (expected_ids, 0)

    def write_pair(writer, message_id, sent, settled, sampled):
        writer.write_sent(sent, message_id)
        writer.write_settled(message_id, settled, sampled)

    back = parse_plain(write_all(write_pair), V2, SEND)
    assert pairs(back.ids_high, back.ids.tolist()) == expected_ids
    assert back.sent.tolist() == sent
    assert pairs(back.settled_ids_high, back.settled_ids.tolist()) == expected_ids
    assert back.settled_times.tolist() == late
    assert back.settled_sampled.tolist() == [record[3] for record in records]
    assert (back.malformed, back.truncated) == (0, False)


def test_the_twin_of_the_hash_is_siphash():
    """The first two of the authors' vectors for 128 bits."""
    words = (siphash(text, bytes(range(16))) for text in (b"", b"\0"))
    found = [b"".join(word.to_bytes(8, "little") for word in pair).hex() for pair in words]
    assert found == ["a3817f04ba25a8e66df67214c7550293", "da87c1d86b99af44347659119b22fc45"]


# ---- whole files ---------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1, 1000, 10**6])
def test_a_large_file_of_times(tmp_path, scale):
    """Many reads, every alignment of a line to their borders, wide jumps of time."""
    random_source = np.random.default_rng(1)
    sent = SENT * scale + np.cumsum(random_source.integers(0, 10**7, 200_000))
    received = sent + random_source.integers(-5, 1000, 200_000)
    path = tmp_path / "receiver-transfers.csv"
    with path.open("wb") as file:
        writer = RecordWriter(file.fileno())
        write_many(writer, sent, received)
        writer.flush_now()
    back = read_transfers(path)
    assert (back.record_format, back.operation) == (V3, RECEIVE)
    assert back.time_unit == {1: "ms", 1000: "us", 10**6: "ns"}[scale]
    assert np.array_equal(back.sent, sent)
    assert np.array_equal(back.received, received)
    assert (back.received - back.sent).min() < 0  # negative latencies stay signed
    with TransferTail(path, RECEIVE) as tail:
        batch = tail.read()
    assert (batch.count, batch.latency_sum) == (200_000, int((received - sent).sum()))
    assert (batch.first_time, batch.last_time) == (received[0], received[-1])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_large_file_of_mixed_lines_equals_the_twin(layout):
    """Lines of every kind across the borders of the reads."""
    source = random.Random(2)
    record_format, operation = layout

    def line():
        time = source.choice([SENT, SENT + source.randrange(1000), source.randrange(10**6)])
        message_id = source.choice([b"%d" % source.randrange(10**9), b"id-%d" % time])
        if source.random() < 0.05:
            return source.choice([b"junk", b"%d,%d\r" % (SENT, SENT), b"", b"x" * 500])
        if record_format == V3:
            return b"%d,%d" % (time, 0 if operation == SEND else time + 1)
        if operation == SEND:
            return source.choice([b"", b"s", b"S"]) + b"%s,%d" % (message_id, time)
        return b"%s,%d,%d" % (message_id, time, time + 7)

    text = b"\n".join(line() for _ in range(30_000)) + b"\n"
    assert len(text) > 2 * 262144
    assert as_plain(parse(text, *layout)) == slow_parse(text, *layout)


@pytest.mark.parametrize(
    ("layout", "line"),
    [
        ((V3, SEND), b"1472344673324,0"),
        ((V3, RECEIVE), b"1472344673324,1472344673345"),
        ((V3, RECEIVE), b"1472344673324000,1472344673345000"),
        ((V1, RECEIVE), b"10,1472344673324,1472344673345"),
        ((V2, SEND), b"s10,1472344673345"),
    ],
)
def test_any_byte_at_any_place(layout, line):
    """One wrong byte makes a line malformed, or another record, but never a wrong number."""
    text = b"".join(
        line[:place] + bytes([byte]) + line[place + 1 :] + b"\n"
        for place in range(len(line))
        for byte in range(256)
    )
    assert as_plain(parse(text, *layout)) == slow_parse(text, *layout)


def test_latency_sums_cannot_overflow():
    with tempfile.NamedTemporaryFile() as file, TransferTail(file.name, RECEIVE, V3) as tail:
        file.write(b"0,%d\n" % INT64_MAX * 1000 + b"%d,%d\n" % (INT64_MAX, 10**17) * 3)
        file.flush()
        assert tail.read().latency_sum == INT64_MAX * 1000 - (INT64_MAX - 10**17) * 3


def test_an_empty_file_tells_nothing():
    back = parse(b"")
    assert (back.record_format, back.operation, len(back)) == (None, None, 0)
    assert (back.malformed, back.first_malformed, back.truncated) == (0, None, False)
    back = parse(b"", V2, SEND)
    assert (len(back.ids), len(back.settled_ids), back.received) == (0, 0, None)


def test_a_truncated_last_line_is_reported_and_not_accepted():
    whole = b"%d,%d\n" % (SENT, SENT + 1)
    back = parse(whole + whole[:-1])
    assert (len(back), back.malformed, back.truncated) == (1, 0, True)


def test_junk_is_counted_and_the_first_of_it_told():
    line = b"%d,0\n" % SENT
    back = parse(line + b"WARN: \xff" + b"x" * 100 + b"\n" + line + b"\n" + line)
    assert (len(back), back.malformed) == (3, 2)
    assert back.first_malformed == (2, "WARN: \\xff" + "x" * 73)


@pytest.mark.parametrize("size", [262143, 262144, 262145, 3 * 2**20 + 60, 4 * 2**20, 10 * 2**20])
def test_long_lines(size):
    """Ids up to their limit are records; an endless line is junk and takes no memory."""
    record = b"x" * size + b",%d\n" % SENT
    back = parse(b"1,%d\n" % SENT + record + b"2,%d\n" % SENT, V1, SEND)
    if size < 4 * 2**20:
        assert pairs(back.ids_high, back.ids.tolist()) == [(0, 1), halves(b"x" * size), (0, 2)]
        assert back.malformed == 0
    else:
        assert back.ids.tolist() == [1, 2]
        assert (back.malformed, back.first_malformed) == (1, (2, "x" * 80))


@pytest.mark.parametrize(
    "end",
    [b"x" * (9 * 2**20), b"%d,0\r" % SENT * 100, b"\0" * 1000, b"\0" * (9 * 2**20)],
    ids=["overlong", "CR", "NUL", "overlong NUL"],
)
def test_an_end_that_begins_no_record_is_malformed(end):
    back = parse(b"%d,0\n" % SENT + end)
    assert (len(back), back.malformed, back.truncated) == (1, 1, False)
    assert back.first_malformed == (2, end[:80].decode())
    known = {"record_format": V3, "operation": SEND}
    assert (len(parse(end, **known)), parse(end, **known).malformed) == (0, 1)


def test_lines_that_end_in_cr_lf_are_malformed():
    back = parse(b"%d,0\r\n" % SENT * 3, V3, SEND)
    assert (len(back), back.malformed, back.first_malformed) == (0, 3, (1, f"{SENT},0\r"))


def test_v1_and_v2_differ_in_settlements():
    text = b"s1,%d\nS2,%d\n3,%d\n" % (SENT, SENT, SENT)
    as_v1, as_v2, detected = parse(text, V1), parse(text, V2), parse(text)
    assert (len(as_v1), as_v1.ids_hashed, as_v1.settled_ids) == (3, True, None)
    assert (as_v2.ids.tolist(), as_v2.settled_ids.tolist()) == ([3], [1, 2])
    assert (as_v2.settled_sampled.tolist(), as_v2.ids_hashed) == ([False, True], False)
    assert as_plain(detected) == as_plain(as_v2)


def test_a_settlement_after_sent_records_makes_v2():
    text = b"1,%d\n" % SENT
    assert parse(text).record_format == V1
    assert parse(text + b"S1,%d\n" % SENT).record_format == V2


def test_unknown_formats_and_operations_are_refused(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(ValueError, match="no such record format: 'v4'"):
        read_transfers(path, record_format="v4")
    with pytest.raises(ValueError, match="no such operation: 'sending'"):
        TransferTail(path, "sending")
    with pytest.raises(TypeError, match="'operation' has incorrect type"):
        TransferTail(path, None)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_transfers(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        TransferTail(tmp_path / "nowhere", SEND)


def test_a_closed_tail_refuses_to_read(tmp_path):
    path = tmp_path / "file"
    path.touch()
    tail = TransferTail(path, SEND)
    tail.close()
    with pytest.raises(ValueError, match="closed"):
        tail.read()


def test_columns_outlive_the_parser_and_are_writable():
    back = parse(b"%d,0\n" % SENT * 10)
    column = back.sent
    del back
    column += 1
    assert column.tolist() == [SENT + 1] * 10


def test_progress_rises_to_the_size_of_the_file(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"%d,0\n" % SENT * 1_500_000)
    seen = []
    read_transfers(path, progress=lambda *step: seen.append(step))
    size = path.stat().st_size
    assert len(seen) > 2
    assert seen == sorted(seen)
    assert seen[-1] == (size, size)


# ---- zstd ----------------------------------------------------------------------------

TEXT = b"".join(b"%d,%d\n" % (SENT + n // 7, SENT + n // 5) for n in range(60_000))


@functools.cache
def parsed_slowly():
    return slow_parse(TEXT)


@given(st.lists(st.integers(0, len(TEXT)), max_size=6), st.booleans())
@settings(deadline=None, max_examples=examples(20))
def test_zstd_of_several_frames(cuts, with_index):
    edges = [0, *sorted(cuts), len(TEXT)]
    frames = [zstandard.compress(TEXT[start:end]) for start, end in itertools.pairwise(edges)]
    if with_index:
        frames.append(b"\x5e\x2a\x4d\x18\x04\0\0\0skip")  # a skippable frame
    assert as_plain(parse(b"".join(frames))) == parsed_slowly()


@pytest.mark.parametrize("missing", [1, 4, 100, 50_000])
def test_a_truncated_zstd_frame_is_reported(missing):
    whole = zstandard.ZstdCompressor(write_checksum=True).compress(
        os.urandom(100_000).hex().encode()
    )
    frame = zstandard.compress(TEXT)
    back = parse(frame + whole[:-missing])
    assert len(back) == 60_000
    assert back.truncated


def test_a_frame_that_ends_between_lines_is_no_truncation_but_a_lost_frame_end_is():
    frame = zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)
    assert not parse(frame).truncated
    back = parse(frame[:-4])  # every line is there, the checksum is not
    assert (len(back), back.truncated) == (60_000, True)


@pytest.mark.parametrize("damage", ["flipped", "foreign"])
def test_damaged_zstd_is_a_record_error(damage):
    frame = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(TEXT))
    if damage == "flipped":
        frame[len(frame) // 2] ^= 0xFF
    else:
        frame += b"something else"
    with pytest.raises(RecordError, match="damaged zstd data"):
        parse(bytes(frame))


def test_progress_of_a_compressed_file_counts_its_bytes(tmp_path):
    path = tmp_path / "file.zst"
    path.write_bytes(zstandard.compress(TEXT))
    seen = []
    read_transfers(path, progress=lambda *step: seen.append(step))
    assert seen[-1] == (path.stat().st_size, path.stat().st_size)
