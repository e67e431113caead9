"""Reckoning with any text as ids equals a slow twin that compares Python's strings."""

import tempfile
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from analysis_twins import slow_reconcile
from hypothesis import given, settings
from hypothesis import strategies as st
from id_twin import exact_id, halves
from support.examples import examples

from quiver_fast.analysis.figures.summary import receiver_sections, sender_sections
from quiver_fast.analysis.read.local import analyze_file, analyze_receiver
from quiver_fast.analysis.tables import sorted_rows
from quiver_fast.records.formats import SEND
from quiver_fast.records.ids import EXACT, HASHED, comparable, key_or_own
from quiver_fast.records.runs import scan_runs
from quiver_fast.records.writer import RecordWriter

START = 1_472_344_673_324
# A hash of 63 bits that has no key takes these for one.
TWINS = (b"8yn0iYCKYHlIj4-BwPqk", b"GReLUrM4wMqfg9yzV3KQ")

ids = st.one_of(
    st.integers(0, 12).map(lambda number: b"%d" % number),
    st.sampled_from(
        [b"007", b"00", b"-1", b"+7", b"7 ", b"7,", b"S7", b"s7", b"S", b"%", b"%37", b"%2C",
         b"a\nb", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616",
         b"1" * 40, b"x", b"x0", b"x01", b"x" * 7, b"x" * 8, b"x" * 9, *TWINS]
    ),
    st.binary(min_size=1, max_size=20),
)  # fmt: skip
later = st.integers(0, 30)


def identity(message_id):
    """Return what the id is compared as: the writer encodes, so no escape is in it."""
    encoded = message_id.replace(b"%", b"%25")
    return exact_id(encoded)


def written(path, write):
    with path.open("wb") as file:
        writer = RecordWriter(file.fileno())
        write(writer)
        writer.flush_now()
    return path


def write_sends(path, sends, settled=()):
    def write(writer):
        for message_id, time in sends:
            writer.write_sent(time, message_id)
        for message_id, time, sampled in settled:
            writer.write_settled(message_id, time, sampled)

    return written(path, write)


def write_receipts(path, receipts):
    return written(path, lambda w: [w.write_received(s, r, i) for i, s, r in receipts])


def exactly(rows):
    return [(identity(message_id), *rest) for message_id, *rest in rows]


@st.composite
def traffic(draw):
    """Draw (sends, receipts): some are lost, repeated, late, of others or of an earlier run."""
    sends = [
        (message_id, START + draw(later))
        for message_id in draw(st.lists(ids, min_size=1, max_size=25))
    ]
    chosen = st.one_of(st.sampled_from(sends), st.tuples(ids, st.just(START + 5)))
    receipts = [
        (message_id, time - 40 * draw(st.sampled_from([0, 0, 0, 1])), time + draw(later) - 3)
        for message_id, time in draw(st.lists(chosen, min_size=1, max_size=40))
    ]
    return sends, receipts


@given(traffic(), st.sampled_from([1 << 20, 400]))
@settings(deadline=None, max_examples=examples(150))
def test_delivery_equals_the_slow_twin(case, room):
    sends, receipts = case
    with tempfile.TemporaryDirectory() as folder, patch.object(sorted_rows, "ROOM", room):
        ends = (
            write_sends(Path(folder, "sender-transfers.csv"), sends),
            write_receipts(Path(folder, "receiver-transfers.csv"), receipts),
        )
        found = analyze_receiver(ends[1], analyze_file(ends[0], operation=SEND, reconcilable=True))
        alone = analyze_file(ends[1])
        assert alone.ids.distinct == len({message_id for message_id, *_ in exactly(receipts)})
    expected = slow_reconcile(exactly(sends), exactly(receipts), by_ids=True)
    assert {name: found.delivery[name] for name in expected} == expected
    texts = [isinstance(one, bytes) and one != b"" for one, *_ in exactly(receipts)]
    assert found.receiver.ids_hashed == any(texts)


def slow_settlement(sends, settled):
    """Join by the ids themselves; the first send of an id is the one that counts."""
    first = {}
    for message_id, time in sends:
        first.setdefault(message_id, time)
    known = [(time - first[i], sampled, i) for i, time, sampled in settled if i in first]
    return {
        "all": sorted(latency for latency, _, _ in known),
        "sampled": sorted(latency for latency, sampled, _ in known if sampled),
        "unsettled": len(first) - len({message_id for _, _, message_id in known}),
        "unmatched": len(settled) - len(known),
    }


@given(
    st.lists(st.tuples(ids, later), min_size=1, max_size=25),
    st.lists(st.tuples(ids, later, st.booleans()), min_size=1, max_size=25),
    st.sampled_from([1 << 20, 400]),
)
@settings(deadline=None)
def test_settlements_equal_the_slow_twin(sends, settled, room):
    sends = [(message_id, START + time) for message_id, time in sends]
    settled = [(message_id, START + time, sampled) for message_id, time, sampled in settled]
    with tempfile.TemporaryDirectory() as folder, patch.object(sorted_rows, "ROOM", room):
        path = write_sends(Path(folder, "sender-transfers.csv"), sends, settled)
        # Said, because an id of 19 digits in the first line may be a time as well.
        found = analyze_file(path, operation=SEND).settlement
        latencies = {
            name: [
                value
                for part in _parts(getattr(found, name))
                for value, n in zip(part.values.tolist(), part.counts.tolist(), strict=True)
                for _ in range(n)
            ]
            for name in ("all", "sampled")
        }
    counts = {"unsettled": found.unsettled, "unmatched": found.unmatched}
    assert latencies | counts == slow_settlement(exactly(sends), exactly(settled))


def _parts(latencies):
    return latencies.parts() if hasattr(latencies, "parts") else [latencies]


def test_two_ids_that_a_hash_of_63_bits_takes_for_one(tmp_path):
    """One is lost and the other comes twice: both are seen."""
    one, other = TWINS
    sends = [(one, START), (other, START + 1)]
    receipts = [(one, START, START + 3), (one, START, START + 4)]
    path = write_sends(tmp_path / "sender-transfers.csv", sends)
    sender = analyze_file(path, operation=SEND, reconcilable=True)
    found = analyze_receiver(write_receipts(tmp_path / "receiver-transfers.csv", receipts), sender)
    assert (found.delivery["unreceived"], found.delivery["duplicate"]) == (1, 1)
    assert (found.delivery["foreign"], found.delivery["lost"]) == (0, None)


def test_a_key_is_of_16_bytes_and_changes_the_hashes(tmp_path):
    path = write_sends(tmp_path / "sender-transfers.csv", [(b"x", START), (b"7", START)])
    key = bytes(range(16))
    [batch] = scan_runs(path, id_key=key)
    pairs = list(zip(batch.ids_high.tolist(), batch.ids.tolist(), strict=True))
    assert pairs == [halves(b"x", key), (0, 7)]
    [batch] = scan_runs(path)
    assert (batch.ids_high[0], batch.ids[0]) == halves(b"x", key_or_own(None)) != pairs[0]
    with pytest.raises(ValueError, match="a key of ids has 16 bytes, not 3"):
        list(scan_runs(path, id_key=b"abc"))


halves_of_ids = st.lists(
    st.one_of(
        st.tuples(st.just(0), st.sampled_from([0, 1, 5, 2**62, 2**63 - 1])),
        st.tuples(st.sampled_from([-(2**63), -5, -1]), st.sampled_from([0, 1, 5, 2**63 - 1])),
    ),
    max_size=12,
)


@given(halves_of_ids, halves_of_ids)
def test_comparable_numbers_order_ids_as_pairs(left, right):
    tables = [np.array(rows, np.int64).reshape(-1, 2) for rows in (left, right)]
    found = comparable(*((rows[:, 0], rows[:, 1]) for rows in tables))
    numbers = [*found[0].tolist(), *found[1].tolist()]
    pairs = [*left, *right]
    for one, a in zip(numbers, pairs, strict=True):
        for other, b in zip(numbers, pairs, strict=True):
            assert (one < other) == (a < b)
            # Ids that count up stay neighbours, as the numbers of a run must.
            if a[0] == b[0] == 0:
                assert other - one == b[1] - a[1]


@pytest.mark.parametrize(
    ("lines", "how"),
    [
        ("1,{0},{0}\n", EXACT),
        (",{0},{0}\n", EXACT),  # a message without an id
        ("x,{0},{0}\n", HASHED),
        ("x,{0},{0}000\n", EXACT),  # no record: it is in another unit
        ("x,{0}\n", EXACT),
    ],
)
@pytest.mark.parametrize("first", ["", "3,{0},{0}\n,{0},{0}\n"])
def test_an_id_that_is_none_is_no_hash(tmp_path, first, lines, how):
    path = tmp_path / "receiver-transfers.csv"
    path.write_text(f"7,{START},{START}\n{first}{lines}8,{START},{START}\n".format(START))
    found = receiver_sections(analyze_file(path))
    assert found["records"]["ids"] == how
    batches = list(scan_runs(path))
    assert batches[-1].ids_hashed == (how == HASHED)


@pytest.mark.parametrize(("message_id", "how"), [(b"7", EXACT), (b"007", HASHED)])
def test_summaries_say_how_ids_are_compared(tmp_path, message_id, how):
    path = write_sends(tmp_path / "sender-transfers.csv", [(b"1", START), (message_id, START)])
    assert sender_sections(analyze_file(path))["records"]["ids"] == how
    path.write_text(f"{START},0\n")
    assert sender_sections(analyze_file(path))["records"]["ids"] is None
