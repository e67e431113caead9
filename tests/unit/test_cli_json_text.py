"""JSON with a series on a line."""

import json

from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.cli.json_text import json_text

plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
documents = st.recursive(
    plain, lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts), max_leaves=30
)


@given(documents)
def test_reads_as_what_json_writes(document):
    assert json.dumps(json.loads(json_text(document))) == json.dumps(document)


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
