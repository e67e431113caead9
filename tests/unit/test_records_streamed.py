"""Lines of streaming mode among the records, against a slow reader of them."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.analysis.figures.summary import receiver_sections, sender_sections
from quiver_fast.analysis.model.distribution import Distribution
from quiver_fast.analysis.read.local import analyze_file
from quiver_fast.records.formats import RECEIVE, SEND, V1, V2, V3, time_unit
from quiver_fast.records.parser import TransferTail, read_transfers
from quiver_fast.records.runs import instruction_sets, scan_runs

SENT = 1472344673324
LAYOUTS = [(f, o) for f in (V1, V2, V3) for o in (SEND, RECEIVE)]
NEAR_MISSES = [
    b"F,1,2,3", b"F,1,2,3,4,5", b"B,,1,2,3", b"F,-1,2,3,4", b"F,1,2,3,", b"B,1,2,3,4x",
    b"f,1,2,3,4", b"F1,2,3,4,5", b"F", b"B,",
]  # fmt: skip

times = st.one_of(
    st.integers(SENT - 3, SENT + 3), st.integers(SENT - 3, SENT + 3), st.integers(0, 2**63 - 1)
)
sizes = st.one_of(st.integers(0, 10**12), st.integers(0, 9))
streamed = st.tuples(st.sampled_from("FB"), times, times, times, sizes)


def line_of(entry):
    kind, sent, first, time, size = entry
    return f"{kind},{sent},{first},{time},{size}\n".encode()


def record(layout, number):
    record_format, operation = layout
    if record_format == V3:
        return b"%d,%d\n" % (SENT, 0 if operation == SEND else SENT + 5)
    if operation == SEND:
        return b"%d,%d\n" % (number, SENT)
    return b"%d,%d,%d\n" % (number, SENT, SENT + 5)


@st.composite
def files(draw):
    """Draw (layout, text, records, streamed entries, malformed lines)."""
    layout = draw(st.sampled_from(LAYOUTS))
    text, records, entries, malformed = b"", 0, [], 0
    unit = None
    for kind in draw(st.lists(st.sampled_from("rrrrsssm"), max_size=30)):
        if kind == "r":
            text += record(layout, records + 1)
            unit = unit or "ms"
            records += unit == "ms"
            malformed += unit != "ms"
        elif kind == "s":
            entry = draw(streamed)
            text += line_of(entry)
            _, _, first, time, _ = entry
            own = time_unit(first) == time_unit(time) and unit in (None, time_unit(time))
            unit = time_unit(time) if own else unit
            entries += [entry] * own
            malformed += not own
        else:
            malformed += 1
            text += draw(st.sampled_from(NEAR_MISSES)) + b"\n"
    return layout, text, records, entries, malformed


def twin(entries):
    """Add up what `Streamed` holds."""
    if not entries:
        return None
    return (
        sum(entry[4] for entry in entries),
        min(entry[2] for entry in entries),
        max(entry[3] for entry in entries),
        [entry[2] - entry[1] for entry in entries if entry[0] == "F"],
    )


def as_told(sums):
    if sums is None:
        return None
    return sums.body_bytes, sums.start, sums.end, sums.first_byte_latencies.tolist()


@given(files(), st.booleans())
@settings(deadline=None)
def test_they_are_added_up_and_nothing_else_changes(case, known):
    layout, text, records, entries, malformed = case
    keys = dict(zip(("record_format", "operation"), layout, strict=True)) if known else {}
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch, "transfers.csv")
        path.write_bytes(text)
        transfers = read_transfers(path, **keys)
        batches = {name: list(scan_runs(path, instruction_set=name, **keys))
                   for name in instruction_sets()}  # fmt: skip
        with TransferTail(path, layout[1], layout[0]) as tail:
            followed = tail.read()
    assert (len(transfers), transfers.malformed) == (records, malformed)
    assert as_told(transfers.streamed) == twin(entries)
    for runs in batches.values():
        assert sum(int(batch.count.sum()) for batch in runs) == records
        assert sum(batch.malformed for batch in runs) == malformed
        assert sum(batch.lines for batch in runs) == records + malformed + len(entries)
        told = [batch.streamed for batch in runs if batch.streamed is not None]
        assert [as_told(sums) for sums in told] == ([twin(entries)] if entries else [])
    assert followed.count == records
    assert followed.body_bytes == sum(entry[4] for entry in entries)


@pytest.mark.parametrize(("operation", "sections"), [(SEND, sender_sections),
                                                     (RECEIVE, receiver_sections)])  # fmt: skip
def test_the_summary_has_a_section_of_its_own(tmp_path, operation, sections):
    path = tmp_path / "transfers.csv"
    parts = [
        ("B", SENT, SENT + 2, SENT + 500, 600),
        ("F", SENT, SENT + 2, SENT + 1002, 400),
    ]
    plain = record((V3, operation), 1)
    path.write_bytes(plain)
    without = sections(analyze_file(path, operation=operation))
    path.write_bytes(b"".join(map(line_of, parts)) + plain)
    summary = sections(analyze_file(path, operation=operation))
    streaming = summary.pop("streaming")
    assert summary == without
    assert streaming["body_bytes"] == 1000
    assert streaming["throughput"] == 1000.0
    assert streaming["first_byte_latency"]["percentiles"]["50"] == 2.0


def test_many_batches_add_up(tmp_path):
    count = 120_000
    entries = [("F", SENT, SENT + n % 7, SENT + n, 10) for n in range(count)]
    path = tmp_path / "transfers.csv"
    path.write_bytes(b"".join(line_of(e) + record((V3, RECEIVE), 1) for e in entries))
    streams = analyze_file(path, operation=RECEIVE).streams
    assert (streams.body_bytes, streams.start, streams.end) == (10 * count, SENT, SENT + count - 1)
    assert streams.first_byte.total == count
    expected = Distribution.of(read_transfers(path).streamed.first_byte_latencies)
    assert streams.first_byte.values.tolist() == expected.values.tolist()
    assert streams.first_byte.counts.tolist() == expected.counts.tolist()
