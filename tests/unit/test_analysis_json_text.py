"""JSON with a series on a line."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.export.json_text import json_pieces, json_text
from quiver_fast.analysis.model.columns import Column, Rows, listed

# Floats with the digits that the text keeps.
figures = st.builds(lambda digits, power: float(f"{digits}e{power}"),
                    st.integers(-999_999_999, 999_999_999), st.integers(-30, 30))  # fmt: skip
odd = st.sampled_from([float("inf"), float("-inf"), float("nan")])
plain = st.none() | st.booleans() | st.integers() | figures | odd | st.text()
documents = st.recursive(
    plain, lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts), max_leaves=30
)
numbers = st.integers(-(2**63), 2**63 - 1)


@given(documents)
def test_it_reads_as_the_text_of_json(document):
    assert json.dumps(json.loads(json_text(document))) == json.dumps(document)


@pytest.mark.parametrize(
    ("figure", "text"),
    [
        (601.010000000002, "601.01"),
        (20000.184001692818, "20000.184"),
        (1458214801.25, "1458214801.0"),
        (-0.1234567891, "-0.123456789"),
        ([0.1 + 0.2], "[0.3]"),
    ],
)
def test_a_figure_has_the_digits_that_it_is_worth(figure, text):
    assert json_text(figure) == text


def test_a_series_is_a_line():
    text = json_text({"a": {}, "series": {"second": [1, 2], "p50": [1.5, None]}, "b": [{"c": []}]})
    assert text.splitlines() == [
        "{",
        '  "a": {},',
        '  "series": {',
        '    "second": [1, 2],',
        '    "p50": [1.5, null]',
        "  },",
        '  "b": [',
        "    {",
        '      "c": []',
        "    }",
        "  ]",
        "}",
    ]


@given(st.lists(st.lists(numbers)), st.lists(st.floats(allow_infinity=False)))
def test_columns_are_written_as_lists_are(pieces, floats):
    whole = Column(sum(map(len, pieces)), lambda: (np.array(p, np.int64) for p in pieces))
    real = Column.of(np.array(floats, np.float64))
    slow = {
        "whole": [number for piece in pieces for number in piece],
        "real": [None if number != number else number for number in floats],
    }
    for columns in ({"whole": whole, "real": real}, pickle.loads(pickle.dumps([whole, real]))):
        ours = columns if isinstance(columns, dict) else dict(zip(slow, columns, strict=True))
        assert ours == slow
        assert json_text([ours]) == json_text([slow])
        assert json.loads(json.dumps(ours, default=listed)) == slow
        assert [len(column) for column in ours.values()] == [len(one) for one in slow.values()]


@given(st.lists(st.tuples(numbers, numbers)))
def test_rows_are_written_as_dictionaries_are(pairs):
    table = np.array(pairs, np.int64).reshape(-1, 2)
    rows = Rows({"first": table[:, 0], "count": table[:, 1]})
    slow = [{"first": first, "count": count} for first, count in pairs]
    assert (len(rows), list(rows)) == (len(slow), slow)
    assert json_text({"stalls": rows}) == json_text({"stalls": slow})


def test_a_long_column_is_written_in_pieces():
    pieces = list(json_pieces({"second": Column.of(np.arange(100_000))}))
    assert "".join(pieces) == json_text({"second": list(range(100_000))})
    assert max(map(len, pieces)) < 200_000
