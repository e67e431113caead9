"""scan_runs against the parser, whole and in splits; the parser has a slow twin of its own."""

import tempfile
from itertools import pairwise

import numpy as np
import pytest
import zstandard
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.compressed import is_plain
from support.examples import examples
from test_records_parser import LAYOUTS, SENT, junk, pairs, texts

from quiver_fast.records.formats import RECEIVE, SEND, V1, V2, V3
from quiver_fast.records.parser import read_transfers
from quiver_fast.records.runs import MOST_RUNS, instruction_sets, scan_runs
from quiver_fast.records.splits import known_ends

SETS = instruction_sets()


def expanded(batches):
    """Undo the run-length coding: {column: list} of single records."""
    columns = {name: [] for name in ("sent", "received", "ids", "settled_ids", "settled_times",
                                     "settled_sampled", "ends")}  # fmt: skip
    tells_ends = any(batch.ends is not None for batch in batches)
    for batch in batches:
        assert max(len(batch), len(batch.settled_ids)) <= MOST_RUNS
        assert (batch.count >= 1).all()
        assert (batch.settled_count >= 1).all()
        for name in ("sent", "received"):
            values = getattr(batch, name)
            if values is not None:
                columns[name] += np.repeat(values, batch.count).tolist()
        for name in ("settled_times", "settled_sampled"):
            columns[name] += np.repeat(getattr(batch, name), batch.settled_count).tolist()
        if tells_ends:
            ends = np.full(len(batch), -1) if batch.ends is None else batch.ends
            columns["ends"] += np.repeat(ends, batch.count).tolist()
        if batch.ids is not None:
            columns["ids"] += counted_up(batch.ids, batch.ids_high, batch.count)
        settled = batch.settled_ids, batch.settled_ids_high
        columns["settled_ids"] += counted_up(*settled, batch.settled_count)
    return columns


def counted_up(firsts, highs, counts):
    return [
        (high, first + n)
        for (high, first), count in zip(pairs(highs, firsts.tolist()), counts.tolist(), strict=True)
        for n in range(count)
        # A hash is a run of one.
        if high == 0 or count == 1
    ]


def halves_in(transfers, name):
    """Return both halves of the ids of a column; None for no ids."""
    lows = getattr(transfers, name)
    return None if lows is None else pairs(getattr(transfers, f"{name}_high"), lows.tolist())


def as_parsed(transfers):
    def plain(column):
        return [] if column is None else column.tolist()

    ids = {name: halves_in(transfers, name) or [] for name in ("ids", "settled_ids")}
    return {name: plain(getattr(transfers, name)) for name in expanded([])} | ids


def runs_of(rows):
    """Count neighbours that are equal, or whose ids count up: the slow twin."""
    runs = []
    for identity, *rest in rows:
        last = runs[-1] if runs else None
        follows = last and last[1:-1] == rest
        if follows and goes_on(last, identity):
            last[-1] += 1
        else:
            runs.append([identity, *rest, 1])
    return runs


def goes_on(run, identity):
    """Say whether an id, or None, is the one after those of a run; a hash never is."""
    if identity is None:
        return True
    (high, first), count = run[0], run[-1]
    return high == 0 and identity == (0, first + count)


def rows_of_runs(batches):
    return [
        list(row)
        for b in batches
        for row in zip(
            halves_in(b, "ids") or [None] * len(b),
            b.sent.tolist(),
            [None] * len(b) if b.received is None else b.received.tolist(),
            [None] * len(b) if b.ends is None else b.ends.tolist(),
            b.count.tolist(),
            strict=True,
        )
    ]


@st.composite
def repeating_texts(draw):
    """Draw (layout, text) of lines that repeat and ids that count up, with junk between."""
    record_format, operation = layout = draw(st.sampled_from(LAYOUTS))
    scale = draw(st.sampled_from([1, 1000, 10**6]))
    lines = []
    message_id = draw(st.sampled_from([0, 7, 95, 10**8 - 3, 10**18 - 3, 2**63 - 12]))
    prefix = draw(st.sampled_from([b"", b"a", b"0"]))
    for _ in range(draw(st.integers(0, 8))):
        if draw(st.integers(0, 3)) == 0:
            lines.append(b"@%d" % draw(st.integers(0, 2)))
        time = SENT * scale + draw(st.integers(0, 2))
        late = time + draw(st.integers(-1, 1))
        kind = draw(st.sampled_from([b"", b"", b"s", b"S"])) if operation == SEND else b""
        if draw(st.integers(0, 5)) == 0:
            lines.append(draw(junk))
        if draw(st.integers(0, 5)) == 0:
            message_id += draw(st.integers(-30, 30))
        for _ in range(draw(st.integers(1, 40))):
            if record_format == V3:
                lines.append(b"%d,%d" % (time, 0 if operation == SEND else late))
            elif operation == SEND:
                lines.append(kind + prefix + b"%d,%d" % (message_id, time))
            else:
                lines.append(prefix + b"%d,%d,%d" % (message_id, time, late))
            message_id += 1
    text = b"".join(line.replace(b"\n", b"") + b"\n" for line in lines)
    return layout, text[: len(text) - draw(st.integers(0, 3))]


@given(st.one_of(texts(), repeating_texts()), st.booleans(), st.sampled_from(SETS))
@example((("v1", "send"), b"0,0\n\x00"), False, SETS[0])
@settings(deadline=None, max_examples=examples(300))
def test_equals_the_parser(case, known, instruction_set):
    layout, text = case
    assume(is_plain(text))
    record_format, operation = layout if known else (None, None)
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        whole = read_transfers(file.name, record_format=record_format, operation=operation)
        batches = list(
            scan_runs(
                file.name,
                record_format=record_format,
                operation=operation,
                instruction_set=instruction_set,
            )
        )
    assert expanded(batches) == as_parsed(whole)
    last = batches[-1]
    assert (last.record_format, last.operation) == (whole.record_format, whole.operation)
    assert last.first_malformed == whole.first_malformed
    assert (last.truncated, last.ids_hashed) == (whole.truncated, whole.ids_hashed)
    assert sum(batch.malformed for batch in batches) == whole.malformed
    # An unfinished line that cannot become a record is one too.
    hopeless = not text.endswith(b"\n") and text != b"" and not last.truncated
    assert sum(batch.lines for batch in batches) == text.count(b"\n") + hopeless
    ids = halves_in(whole, "ids") or [None] * len(whole)
    received = [None] * len(whole) if whole.received is None else whole.received.tolist()
    ends = [None] * len(whole) if whole.ends is None else whole.ends.tolist()
    rows = zip(ids, whole.sent.tolist(), received, ends, strict=True)
    assert rows_of_runs(batches) == runs_of(rows)


@given(st.one_of(texts(), repeating_texts()), st.data())
@settings(deadline=None)
def test_splits_miss_nothing_and_share_nothing(case, data):
    layout, text = case
    assume(is_plain(text))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    record_format, operation = layout
    known = {"record_format": record_format, "operation": operation}
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        # The first own time of the file tells the unit of all its splits.
        known["unit"] = read_transfers(file.name, **known).time_unit
        whole = list(scan_runs(file.name, **known))
        parts, before = [], -1
        for start, end in pairwise([0, *cuts, None]):
            for batch in scan_runs(file.name, start=start, end=end, **known):
                part, before = known_ends(batch, before)
                parts.append(part)
    assert expanded(parts) == expanded(whole)
    for total in ("lines", "malformed"):
        assert sum(getattr(b, total) for b in parts) == sum(getattr(b, total) for b in whole)
    assert any(b.truncated for b in parts) == whole[-1].truncated


@pytest.mark.parametrize("instruction_set", SETS)
def test_large_files_of_runs_and_of_none(tmp_path, instruction_set):
    """Runs across the borders of reads and of batches, and more than one batch of runs."""
    source = np.random.default_rng(3)
    for gap in (1, 3000):
        sent = SENT + np.arange(200_000) // gap
        received = sent + source.integers(0, 2, 200_000).cumsum() // 7
        path = tmp_path / f"{gap}.csv"
        path.write_bytes(
            b"".join(b"%d,%d\n" % pair for pair in zip(sent.tolist(), received.tolist(),
                                                       strict=True))
        )  # fmt: skip
        batches = list(scan_runs(path, instruction_set=instruction_set))
        assert expanded(batches)["sent"] == sent.tolist()
        assert expanded(batches)["received"] == received.tolist()
        pairs = [(None, *pair, None) for pair in zip(sent.tolist(), received.tolist(), strict=True)]
        assert rows_of_runs(batches) == runs_of(pairs)


@pytest.mark.parametrize("instruction_set", SETS)
@pytest.mark.parametrize("width", [1, 3, 16, 21, 32, 33, 40])
def test_ids_of_every_width_count_up(tmp_path, instruction_set, width):
    """Decimal ids make runs; text that only ends in digits does not."""
    path = tmp_path / "ids.csv"
    for prefix, runs in ((b"", width <= 18), (b"x", False)):
        first = 10 ** (width - 1) if width > 1 else 0
        ids = [prefix + b"%d" % (first + n) for n in range(9)]
        path.write_bytes(b"".join(b"%s,%d,%d\n" % (i, SENT, SENT + 1) for i in ids))
        batches = list(scan_runs(path, instruction_set=instruction_set))
        assert expanded(batches)["ids"] == halves_in(read_transfers(path), "ids")
        assert (len(batches[-1]) == 1) == runs


def test_settlements_are_runs_of_their_own(tmp_path):
    path = tmp_path / "s.csv"
    lines = [b"%d,%d\n" % (n, SENT) for n in range(5)]
    lines += [b"%s%d,%d\n" % (b"S" if n == 0 else b"s", n, SENT + 2) for n in range(5)]
    path.write_bytes(b"".join(lines))
    (batch,) = scan_runs(path)
    assert (batch.record_format, batch.operation) == (V2, SEND)
    assert (batch.ids.tolist(), batch.count.tolist()) == ([0], [5])
    assert batch.settled_ids.tolist() == [0, 1]
    assert batch.settled_count.tolist() == [1, 4]
    assert batch.settled_sampled.tolist() == [True, False]


def test_nothing_tells_nothing(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    (batch,) = scan_runs(path)
    assert (batch.record_format, batch.operation, len(batch)) == (None, None, 0)


def test_strong_compression_stays_in_small_memory(tmp_path):
    """One frame of 3 MB a thousandth of its size is read in steps, not at once."""
    text = b"%d,%d\n" % (SENT, SENT) * 100_000
    path = tmp_path / "t.csv.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(text))
    batches = list(scan_runs(path))
    assert sum(int(batch.count.sum()) for batch in batches) == 100_000
    assert rows_of_runs(batches) == [[None, SENT, SENT, None, 100_000]]


def test_unknown_names_are_errors(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(ValueError, match="record format"):
        next(scan_runs(path, record_format="v4"))
    with pytest.raises(ValueError, match="not in tuple"):
        next(scan_runs(path, record_format=V1, operation=RECEIVE, instruction_set="mmx"))


def address(values):
    return values.__array_interface__["data"][0]


@pytest.mark.parametrize("with_ids", [False, True])
def test_only_batches_that_are_forgotten_give_their_room_to_others(tmp_path, with_ids):
    path, count = tmp_path / "receiver-transfers.csv", 200_000
    sent = 1_700_000_000_000 + np.arange(count) * 2
    lines = (f"{n}," * with_ids + f"{t},{t + n % 7}\n" for n, t in enumerate(sent.tolist()))
    path.write_text("".join(lines))
    rooms = {address(batch.sent) for batch in scan_runs(path)}
    batches = list(scan_runs(path))
    assert len(rooms) <= 3 < len(batches)
    assert np.array_equal(np.concatenate([batch.sent for batch in batches]), sent)
    # A part of a column of every other batch is enough to keep it.
    kept = [batch.received[1:3] for n, batch in enumerate(scan_runs(path)) if n % 2]
    expected = [batch.received[1:3] for batch in batches[1::2]]
    assert [values.tolist() for values in kept] == [values.tolist() for values in expected]
