"""Addresses of all kinds, above all those that cannot be names of folders."""

from __future__ import annotations

from hypothesis import strategies as st

CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
SEGMENTS = st.sampled_from([
    "", ".", "..", "a", "q1", "Q1", "%", "%2E", "a%", "metadata.cq4t", "METADATA.CQ4T",
    "20261123F.cq4", "20261123F.cq4.damaged", "20261123F.CQ4.2.damaged", "metadata.cq4t.partial",
    ".quiver.lock", "x" * 128, "x" * 129, "." * 200, "gr\u00fcn", "\u00e4" * 100, "a b", "\n",
    "\x1b[31m", "\\", "-", "--help", "con", "\u0130",
]) | st.text(CHARACTERS, max_size=8)  # fmt: skip
# Any that the server may accept: 1 to 1024 bytes of UTF-8, without NUL.
ADDRESSES = (
    st.lists(SEGMENTS, min_size=1, max_size=12)
    .map("/".join)
    .filter(lambda address: 0 < len(address.encode()) <= 1024)
)
