"""What of a queue is still to be delivered, against a model that remembers everything."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.live import LiveEntries, Mark, mark_transaction, remove_entries

# append n entries; remove the k-th live one onwards, m of them; a transaction of n
# entries, ended or torn by a crash.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 40)),
        st.tuples(st.just("remove"), st.integers(0, 30), st.integers(1, 20), st.integers(1, 3)),
        st.tuples(st.just("transaction"), st.integers(0, 20)),
    ),
    max_size=30,
)


def live(directory: Path) -> list[tuple[int, bytes]]:
    return list(LiveEntries(directory))


@settings(max_examples=60, deadline=None)
@given(steps=steps, torn=st.integers(0, 5))
def test_equals_a_model(steps: list[tuple[object, ...]], torn: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        appender = Appender(directory, roll="TEST4_DAILY")
        model: dict[int, bytes] = {}
        number = 0
        for step in steps:
            match step:
                case ("append" | "transaction" as kind, int(count)):
                    if kind == "transaction":
                        mark_transaction(appender, "begin")
                    for _ in range(count):
                        text = f"entry {number}"
                        model[appender.append_text(text)] = text.encode()
                        number += 1
                    if kind == "transaction":
                        mark_transaction(appender, "commit")
                case ("remove", int(first), int(count), int(stride)):
                    gone = list(model)[first::stride][:count]
                    remove_entries(appender, gone)
                    for index in gone:
                        del model[index]
        if torn:
            mark_transaction(appender, "begin")
            for _ in range(torn):
                appender.append_text("never was")
            remove_entries(appender, list(model))
        appender.close()
        entries = LiveEntries(directory)
        assert dict(entries) == model
        assert entries.owed == (Mark.MARK_ROLLBACK if torn else Mark.MARK_NONE)


def test_removals_across_cycles(tmp_path: Path) -> None:
    appender = Appender(tmp_path, roll="TEST_SECONDLY")
    first = [appender.append_text(f"a {n}") for n in range(10)]
    cycle = first[0] >> 32
    while True:
        index = appender.append_text("b")
        if index >> 32 != cycle:
            break
        first.append(index)
    remove_entries(appender, first)
    appender.close()
    assert live(tmp_path) == [(index, b"b")]


@pytest.mark.parametrize("count", [1, 4096, 4097, 10_000])
def test_many_ranges(tmp_path: Path, count: int) -> None:
    appender = Appender(tmp_path, roll="FAST_DAILY")
    indexes = [appender.append_text("x") for _ in range(2 * count)]
    remove_entries(appender, indexes[::2])
    appender.close()
    assert [index for index, _ in live(tmp_path)] == indexes[1::2]
