"""The live entries of a queue, against a model that remembers everything."""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.queue_damage import flips, offsets, write_records

from quiver_fast.queuefile.appender import Appender
from quiver_fast.queuefile.live import (
    LiveEntries,
    Mark,
    mark_decision,
    mark_prepared,
    mark_transaction,
    remove_entries,
    was_committed,
)

# append n entries; remove the k-th live one onwards, m of them; a transaction of n
# entries that removes m, and how it ends.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 40)),
        st.tuples(st.just("remove"), st.integers(0, 30), st.integers(1, 20), st.integers(1, 3)),
        st.tuples(
            st.just("transaction"),
            st.integers(0, 20),
            st.integers(0, 20),
            st.sampled_from(["commit", "rollback", "decision"]),
        ),
    ),
    max_size=30,
)


def live(directory: Path) -> list[tuple[int, bytes]]:
    return list(LiveEntries(directory))


def append(appender: Appender, number: int, count: int) -> dict[int, bytes]:
    """Append entries and return them."""
    texts = [f"entry {n}" for n in range(number, number + count)]
    return {appender.append_text(text): text.encode() for text in texts}


def end(appender: Appender, how: str) -> bool:
    """End a transaction; say whether it counts."""
    if how == "decision":
        mark_prepared(appender, 7, "home")
        mark_decision(appender, 7)
    else:
        mark_transaction(appender, how)
    return how != "rollback"


@settings(max_examples=40, deadline=None)
@given(steps=steps, torn=st.integers(0, 5), home_says=st.sampled_from([None, False, True]))
def test_equals_a_model(steps: list[tuple[object, ...]], torn: int, home_says: bool | None) -> None:
    """`home_says`: the torn transaction is prepared, and what its home knows; None: it is not."""
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        appender = Appender(directory, roll="TEST4_DAILY")
        model: dict[int, bytes] = {}
        number = 0
        for step in steps:
            match step:
                case ("append", int(count)):
                    model |= append(appender, number, count)
                    number += count
                case ("transaction", int(count), int(removed), str(how)):
                    mark_transaction(appender, "begin")
                    new = append(appender, number, count)
                    number += count
                    gone = list(model)[:removed]
                    remove_entries(appender, gone)
                    if end(appender, how):
                        model = {k: v for k, v in model.items() if k not in gone} | new
                case ("remove", int(first), int(count), int(stride)):
                    gone = list(model)[first::stride][:count]
                    remove_entries(appender, gone)
                    for index in gone:
                        del model[index]
        expected = Mark.MARK_NONE
        if torn:
            mark_transaction(appender, "begin")
            new = append(appender, number, torn)
            remove_entries(appender, list(model))
            expected = Mark.MARK_ROLLBACK
            if home_says is not None:
                mark_prepared(appender, 9, "home")
            if home_says:
                model, expected = new, Mark.MARK_COMMIT
        appender.close()
        entries = LiveEntries(directory, lambda transaction, home: bool(home_says))
        assert dict(entries) == model
        assert entries.owed == expected


def test_who_is_asked(tmp_path: Path) -> None:
    """The other queue is asked by name and id, and knows what was decided in it only."""
    home, other = tmp_path / "home", tmp_path / "other"
    with Appender(home) as appender:
        mark_decision(appender, 2**64 - 1)
    with Appender(other) as appender:
        mark_transaction(appender, "begin")
        index = appender.append_text("a")
        mark_prepared(appender, 2**64 - 1, "höme/of")
    asked = []

    def committed(transaction: int, name: str) -> bool:
        asked.append((transaction, name))
        return was_committed(home, transaction)

    assert [found for found, _ in LiveEntries(other, committed)] == [index]
    assert asked == [(2**64 - 1, "höme/of")]
    assert not was_committed(home, 2**64 - 2)
    assert not was_committed(other, 2**64 - 1)
    assert list(LiveEntries(other)) == []


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


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Let the process take 1 GiB more, in builds that do not reserve terabytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    taken = pages * resource.getpagesize()
    if taken < 1 << 40:
        resource.setrlimit(resource.RLIMIT_AS, (taken + (1 << 30), hard))
    yield
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


@pytest.mark.usefixtures("little_memory")
def test_no_damaged_note_counts_beyond_the_entries(tmp_path: Path) -> None:
    """Each bit of each record in turn: notes are taken only for entries that were read."""
    directory = tmp_path / "q"
    kept = write_records(directory)
    assert [index for index, _ in live(directory)] == kept
    (path,) = directory.glob("*.cq4")
    intact = path.read_bytes()
    entries = len(offsets(intact))
    for data in flips(intact):
        path.write_bytes(data)
        found = LiveEntries(directory)
        assert sum(len(bits) for bits in found.removed.values()) <= entries
        assert len(found.states) <= 1
        assert len(list(found)) <= entries


def test_a_damaged_note_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Removals of entries that never were, in cycles that never were, or after the note."""
    with Appender(tmp_path, roll="TEST4_DAILY") as appender:
        index = appender.append_text("one")
        remove_entries(appender, [index + 1, index + (1 << 40), (1 << 63) + 5, (1 << 64) - 1])
        for ends in ((index, index + (1 << 31)), (index, (1 << 64) - 1), (index + 1, index)):
            removed = b"\xb9\x0equiver.removed\x82\x11\0\0\0\x8a"
            appender.append_meta_data(removed + b"".join(end.to_bytes(8, "little") for end in ends))
        # The file of an older cycle may have been deleted, after all of it was removed.
        remove_entries(appender, [index - (1 << 40)])
        appender.append_text("two")
    assert [text for _, text in live(tmp_path)] == [b"one", b"two"]
    (record,) = caplog.records
    assert record.getMessage() == (
        f"{tmp_path}: damaged notes of removed or failed messages are ignored: 7"
    )
