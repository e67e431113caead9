"""Any bytes at all: no crash, and every line is accounted for."""

import tempfile

import zstandard
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.compressed import is_plain
from support.examples import examples

from quiver_fast.errors import RecordError
from quiver_fast.records.formats import OPERATIONS, RECORD_FORMATS
from quiver_fast.records.parser import TransferTail, read_transfers

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"

# Random bytes seldom make a line; bytes that lines are made of do.
texts = st.one_of(
    st.binary(max_size=2000),
    st.text(alphabet="0123456789,\nSs", max_size=2000).map(str.encode),
    st.lists(
        st.sampled_from(
            [
                b"1472344673324",
                b"1472344673324000",
                b",",
                b"0",
                b"\n",
                b"S",
                b"s",
                b"\0",
                b"\xff",
                b"%",
            ]
        ),
        max_size=400,
    ).map(b"".join),
)
record_formats = st.sampled_from([None, *RECORD_FORMATS])


def settled_count(transfers):
    return 0 if transfers.settled_ids is None else len(transfers.settled_ids)


@given(texts, record_formats, st.sampled_from([None, *OPERATIONS]))
@settings(deadline=None, max_examples=examples(500))
def test_every_line_is_a_record_or_malformed(text, record_format, operation):
    assume(is_plain(text))
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        transfers = read_transfers(file.name, record_format=record_format, operation=operation)
    rest = text.rpartition(b"\n")[2]
    lines = text.count(b"\n") + (rest != b"" and min(rest) < 0x20)
    assert len(transfers) + settled_count(transfers) + transfers.malformed == lines
    assert transfers.truncated == (rest != b"" and min(rest) >= 0x20)
    columns = [transfers.sent, transfers.received, transfers.ids]
    assert {len(column) for column in columns if column is not None} == {len(transfers)}
    assert all((column >= 0).all() for column in columns if column is not None)
    assert (transfers.first_malformed is None) == (transfers.malformed == 0)


@given(st.lists(texts, max_size=6), record_formats, st.sampled_from(OPERATIONS))
@settings(deadline=None)
def test_a_tail_sums_up_to_the_whole(pieces, record_format, operation):
    whole = b"".join(pieces)
    assume(is_plain(whole))
    with tempfile.NamedTemporaryFile() as file, TransferTail(
        file.name, operation, record_format
    ) as tail:  # fmt: skip
        batches = []
        for piece in pieces:
            file.write(piece)
            file.flush()
            batches.append(tail.read())
        # A tail says nothing of an end to which more may come.
        file.truncate(whole.rfind(b"\n") + 1)
        transfers = read_transfers(file.name, record_format=record_format, operation=operation)
    assert sum(batch.count for batch in batches) == len(transfers)
    assert sum(batch.malformed for batch in batches) == transfers.malformed
    counted = sum(batch.count + batch.settled + batch.malformed for batch in batches)
    assert counted == whole.count(b"\n")


@given(st.binary(max_size=500))
@settings(deadline=None)
def test_random_zstd_is_damaged_or_accounted_for(data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(ZSTD_MAGIC + data)
        file.flush()
        try:
            transfers = read_transfers(file.name)
        except RecordError:
            return
    reader = zstandard.ZstdDecompressor().stream_reader(ZSTD_MAGIC + data, read_across_frames=True)
    assert len(transfers) + transfers.malformed == reader.read().count(b"\n")
