"""Values of the text wire: what is accepted, how it is stored, and that it breaks nothing."""

from __future__ import annotations

import re

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.examples import examples
from textwire_twin import stored_form as slow_stored_form

from quiver_fast.remote.wire.textwire import map_pairs, stored_form

PIECES = [
    "!a", "!!null", "!!binary", "!<x>", "!", "{", "}", "[", "]", ",", ": ", ":", " ", "\n", '"a"',
    "'b'", "ab", "a b", "-", "?", "#", "\\n", '"\\u0041"', "//", "é", "\t", '"', "'", "\r", "---",
    "...", " #", "~", "=", "<<", "\\", "\ufeff", "\u2028", "\x85", "\x7f", "\0", "&a", "*a", "|",
    ">", "%", "@", "`", "0x1", "\\x4", "\\ud800", "''", '""', "{a: ", "k: v", "[1, 2]",
]  # fmt: skip
texts = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=14).map("".join).map(str.encode),
    st.text(max_size=40).map(str.encode),
    st.binary(max_size=40),
)


def fast_stored_form(text: bytes) -> bytes | None:
    try:
        return stored_form(text)
    except ValueError:
        return None


@given(texts)
@settings(deadline=None, max_examples=examples(2000))
@example(b"a" * 1030 + b": b")
@example(b"{" + b"a" * 1023 + b" : b}")
@example(b"{" + b"a" * 1024 + b" : b}")
@example(b"[" * 64 + b"]" * 64)
@example(b"[" * 65 + b"]" * 65)
@example(b"{a: !!null}")
@example(b"!a{b: !c[1]} // comment")
@example(b'"abcdefgh\x85"')
@example(b'"abcdefg\\"abcdefgh"')
def test_the_scanner_equals_its_slow_twin(text: bytes) -> None:
    assert fast_stored_form(text) == slow_stored_form(text)


@given(st.lists(texts, min_size=1, max_size=3))
@settings(deadline=None, max_examples=examples(1000))
def test_what_is_accepted_is_one_entry_of_a_reply_to_every_reader(values: list[bytes]) -> None:
    stored = [form for form in map(fast_stored_form, values) if form is not None]
    entries = [re.sub(rb"\r\n|\n|\r", lambda found: found[0] + b"    ", form) for form in stored]
    listed = b"".join(b"  - " + entry + b"\n" for entry in entries)
    reply = yaml.load(b"index: 5\nreply:\n" + listed + b"  - last\n", yaml.CBaseLoader)
    assert list(reply) == ["index", "reply"]
    assert len(reply["reply"]) == len(stored) + 1
    assert reply["reply"][-1] == "last"


@given(texts)
@settings(deadline=None)
def test_a_stored_form_is_stored_as_it_is(text: bytes) -> None:
    form = fast_stored_form(text)
    if form is not None:
        assert stored_form(form) == form


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        (b" { field1: one, field2: two }\n   ", b"{ field1: one, field2: two }"),
        (b" !net.openhft.MyObject{ field1: one }", b"!net.openhft.MyObject { field1: one }"),
        (b"{ a: !b[1] }", b"{ a: !b [1] }"),
        (b"hello, world", b'"hello, world"'),
        (b'say "x", \\', b'"say \\"x\\", \\\\"'),
        (b"!t a#b", b'!t "a#b"'),
        (b"http://host/path # a comment", b"http://host/path"),
        (b"one // the RFC's comment", b"one"),
        (b"{ } // comment", b"{ }"),
        (b'!!null ""', b'!!null ""'),
        (b"{\n a: b,\n}\n# end\n", b"{\n a: b,\n}"),
        ("é".encode(), "é".encode()),
        (b"-1", b"-1"),
        (b"010", b"010"),
    ],
)
def test_values_are_stored_verbatim_but_for_tags_and_cut_scalars(
    text: bytes, stored: bytes
) -> None:
    assert stored_form(text) == stored


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"# only a comment", b"{", b"}", b"{ a: b", b"{ a: b }}", b"[1", b"{ a: }",
        b"a: b", b"- a", b"|\n a", b"> a", b"&a b", b"*a", b"%a", b"@a", b"`a", b"? a", b": a",
        b"{ a: b # c\n }", b'"a', b"'a", b'"\\q"', b'"\\ud800"', b"\xff", b"a\0b", b"a\x85",
        b"\xed\xa0\x80", b"\xc0\x80", b"! a", b"{ a: b } junk", b"a\nb: c", b"--- a\n--- b: c",
        b'"a"b', b"{ a: b: c }", b"[a: b]", b"!a\n{ }", b"{ a\n: b }", b"{ a:{ b: c } }",
    ],
)  # fmt: skip
def test_what_is_no_value_of_the_subset_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"[a-z]{3}"):
        stored_form(text)


def test_pairs_of_a_map() -> None:
    assert map_pairs(b'{ index: 5, "batch": [1, {a: b}], wait, }') == [
        (b"index", b"5"),
        (b'"batch"', b"[1, {a: b}]"),
        (b"wait", None),
    ]
    with pytest.raises(ValueError, match="not a map"):
        map_pairs(b"[1]")
