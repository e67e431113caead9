"""A run of many ends against one file with all its records, and against slow twins."""

from __future__ import annotations

import tempfile
from collections import Counter
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.ends_records import FIRST_IDS, START, Ends, Receipt, loaded

from quiver_fast.analysis.figures.ends import bounds_of_ends, fairness, schedule_of_ends
from quiver_fast.analysis.read.discovery import RunFiles, find_runs
from quiver_fast.errors import RecordError
from quiver_fast.records.log_histogram import LogHistogram


def reordered_of(lines: list[Receipt]) -> int:
    """Return the first receipts of an id after a later one of the same sender: a slow twin."""
    furthest: dict[int, int] = {}
    count, seen = 0, set()
    for one in lines:
        if one.id in seen:
            continue
        seen.add(one.id)
        sender = one.id // FIRST_IDS
        count += one.id < furthest.get(sender, 0)
        furthest[sender] = max(one.id, furthest.get(sender, 0))
    return count


def reordered_by_end(ends: Ends, members: int = 1) -> list[int]:
    """Return what is out of order of each receiver; so many of them share a process each.

    A message's first receipt is that in the file of the lowest number, and there the first line.
    """
    seen: set[int] = set()
    fresh: list[list[Receipt]] = [[] for _ in ends.received]
    for first in range(0, len(ends.received), members):
        of_process = list(enumerate(ends.received))[first : first + members]
        lines = [[(end, one) for one in lines] for end, lines in of_process]
        for end, one in filter(None, chain(*zip_longest(*lines))):
            if one.id not in seen:
                fresh[end].append(one)
            seen.add(one.id)
    return [reordered_of(lines) for lines in fresh]


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize(("seed", "senders", "receivers"), [(1, 4, 4), (2, 1, 3), (3, 5, 1)])
def test_all_together_are_as_one_file(
    seed: int, senders: int, receivers: int, ids: bool, tmp_path: Path
) -> None:
    ends = Ends(seed, senders, receivers)
    many, one = ends.write(tmp_path / "many", ids), ends.write_as_one(tmp_path / "one", ids)
    assert many.sender is not None
    assert one.sender is not None
    assert many.receiver is not None
    assert one.receiver is not None
    # Bit for bit, floats and all.
    assert many.receiver["latency"] == one.receiver["latency"]
    assert many.receiver["latency"]["count"] == sum(map(len, ends.received))
    for key in ("latency_average", "latency_quartiles", "latency_nines", "message_count"):
        assert many.receiver["results"][key] == one.receiver["results"][key]
    assert many.sender.get("settlement") == one.sender.get("settlement")
    assert ("settlement" in many.sender) == ids
    for mine, other in ((many.sends, one.sends), (many.receipts, one.receipts)):
        assert mine is not None
        assert other is not None
        assert mine.values.tolist() == other.values.tolist()
        assert mine.counts.tolist() == other.counts.tolist()
    assert many.delivery is not None
    assert one.delivery is not None
    of_order = ("reordered", "lost", "negative_latency")
    assert {k: v for k, v in many.delivery.items() if k not in of_order} == {
        k: v for k, v in one.delivery.items() if k not in of_order
    }
    assert many.delivery["negative_latency"] == one.delivery["negative_latency"] > 0


def test_times_reach_from_the_first_of_all_to_the_last_of_all(tmp_path: Path) -> None:
    ends = Ends(4, 3, 2)
    run = ends.write(tmp_path / "many")
    assert run.sender is not None
    times = [time for sends in ends.sent for _, time in sends]
    assert run.sender["results"]["first_send_time"] == min(times) // 1000
    assert run.sender["results"]["last_send_time"] == max(times) // 1000


def test_order_and_shares_are_by_sender(tmp_path: Path) -> None:
    ends = Ends(5, 3, 4)
    run = ends.write(tmp_path / "many")
    assert run.ends is not None
    assert run.delivery is not None
    senders, receivers = run.ends[:3], run.ends[3:]
    expected, seen = reordered_by_end(ends), {one.id for one in chain(*ends.received)}
    assert [end["delivery"]["reordered"] for end in receivers] == expected
    assert run.delivery["reordered"] == sum(expected) > 0
    delivered = Counter(key // FIRST_IDS for key in seen)
    assert [end["delivery"]["received"] for end in senders] == [delivered[n] for n in range(3)]
    assert [end["name"] for end in run.ends][2:5] == ["sender 2", "receiver 0", "receiver 1"]


@given(
    seed=st.integers(0, 2**32), senders=st.integers(1, 5), receivers=st.integers(1, 5),
    messages=st.integers(1, 60), of_process=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strangers=st.integers(0, 3),
)  # fmt: skip
def test_every_message_of_many_ends_is_accounted_for(
    seed: int, senders: int, receivers: int, messages: int, of_process: tuple[int, int],
    strangers: int,
) -> None:  # fmt: skip
    """Whatever is lost, doubled, out of order or of others, and whoever shares a process."""
    ends = Ends(seed, senders, receivers, messages)
    for number in range(strangers):
        ends.received[0].append(Receipt(9 * FIRST_IDS + number, START + 5, START + 9))
    ids = [[one.id for one in lines if one.id < 9 * FIRST_IDS] for lines in ends.received]
    assume(any(ids))
    with tempfile.TemporaryDirectory() as top:
        run = ends.write_processes(Path(top, "run"), *of_process)
    found = run.delivery
    assert found is not None
    taken = Counter(chain(*ids))
    sent = senders * messages
    assert (found["sent"], found["received"], found["foreign"]) == (sent, taken.total(), strangers)
    assert found["unreceived"] == sent - len(taken)
    assert found["duplicate"] == taken.total() - len(taken)
    assert found["reordered"] == sum(reordered_by_end(ends, of_process[1]))
    assert run.ends is not None
    assert [
        row["delivery"]["received"]
        for end in run.ends[: -(-senders // of_process[0])]
        for row in end["members"]
    ] == [sum(key // FIRST_IDS == number for key in taken) for number in range(senders)]


def test_without_ids_the_order_is_that_of_each_receiver(tmp_path: Path) -> None:
    """Each sender has a queue of its own, and so has each of the receivers, of one process."""
    ends = Ends(8, 2, 2)
    for number in range(2):
        ends.received[number] = [
            one for one in chain(*ends.received) if one.id // FIRST_IDS == number
        ]
    run = ends.write_processes(tmp_path / "run", 2, 2, ids=False, queues=2)
    assert run.delivery is not None
    expected = [
        sum(one.sent < max(before.sent for before in lines[:place])
            for place, one in enumerate(lines) if place)
        for lines in ends.received
    ]  # fmt: skip
    # Each duplicate may be one of these arrivals.
    assert run.delivery["reordered"] == sum(expected) - run.delivery["duplicate"] > 0


def test_ends_that_the_records_do_not_tell(tmp_path: Path) -> None:
    """Without lines that name the end, orders and shares stay unknown."""
    run = Ends(5, 4, 4).write_processes(tmp_path / "run", 2, 2, told=False)
    assert run.delivery is not None
    assert run.ends is not None
    assert run.delivery["reordered"] is None
    assert {end["delivery"].get("reordered") for end in run.ends} == {None}
    assert [row["message_count"] for row in run.ends[0]["members"]] == [700, 700]
    for row in chain(*(end["members"] for end in run.ends)):
        known = {"sent", "received"} & {k for k, v in row["delivery"].items() if v is not None}
        assert (row["message_rate"], row["latency"], len(known)) == (None, None, 1)


def test_what_others_sent_is_left_out_of_each_receiver(tmp_path: Path) -> None:
    ends = Ends(6, 2, 2)
    clean = ends.write(tmp_path / "clean")
    strange = [Receipt(9077, START + 500, START + 501), Receipt(9078, START - 10, START + 502)]
    ends.received[1] = [*strange, *ends.received[1]]
    run = ends.write(tmp_path / "many")
    assert run.receiver is not None
    assert clean.receiver is not None
    assert run.ends is not None
    assert run.receiver["latency"] == clean.receiver["latency"]
    assert run.delivery == (clean.delivery or {}) | {"foreign": 1, "older": 1}
    of_receivers = [end["delivery"] for end in run.ends[2:]]
    assert [(one["older"], one["foreign"]) for one in of_receivers] == [(0, 0), (1, 1)]


def test_without_ids_senders_of_one_queue_are_not_told_apart(tmp_path: Path) -> None:
    run = Ends(7, 2, 2).write(tmp_path / "many", ids=False)
    assert run.delivery is not None
    assert (run.delivery["reordered"], run.delivery["lost"]) == (None, None)


def test_an_end_that_recorded_nothing(tmp_path: Path) -> None:
    ends = Ends(8, 2, 2)
    before = ends.write(tmp_path / "many")
    (tmp_path / "many" / "receiver.2-transfers.csv").write_text("")
    (tmp_path / "many" / "sender.2-transfers.csv").write_text("")
    run = loaded(tmp_path / "many")
    assert run.receiver is not None
    assert before.receiver is not None
    assert run.fairness is not None
    assert run.receiver["latency"] == before.receiver["latency"]
    assert run.delivery == before.delivery
    assert run.fairness["receivers"]["least"] == 0


def test_ends_that_do_not_fit_each_other_are_an_error(tmp_path: Path) -> None:
    folder = tmp_path / "many"
    Ends(9, 2, 2).write(folder)
    (folder / "sender.2-transfers.csv").write_text(f"1,{START // 1000}\n")
    with pytest.raises(RecordError, match="records of the ends have times in ms and us"):
        loaded(folder)
    (folder / "sender.2-transfers.csv").write_text(f"{START},0\n")
    with pytest.raises(RecordError, match="some have ids, some have not"):
        loaded(folder)
    for number in range(3):
        (folder / f"sender.{number}-transfers.csv").unlink()
    with pytest.raises(RecordError, match="has no senders"):
        loaded(folder)


def test_files_of_numbered_ends_are_one_run(tmp_path: Path) -> None:
    names = ["sender.0-", "sender.2-", "sender.10-", "receiver.1-", "sender-", "receiver-"]
    for name in names:
        (tmp_path / f"{name}transfers.csv").write_text(f"{START},0\n")
    found = {run.many: run for run in find_runs([str(tmp_path)])}
    assert [path.name for path in found[True].paths] == [
        f"{name}transfers.csv" for name in names[:4]
    ]
    assert found[True].name == str(tmp_path)
    assert found[False] == RunFiles(
        str(tmp_path), tmp_path / "sender-transfers.csv", tmp_path / "receiver-transfers.csv"
    )


def test_each_queue_has_its_counts(tmp_path: Path) -> None:
    """Ends of one process are at several queues: the counts of each end tell the queue's."""
    made = Ends(9, 4, 4)
    run = made.write_processes(tmp_path / "run", 3, 2, queues=2)
    assert run.ends is not None
    assert run.queues is not None
    assert [one["queue"] for one in run.queues] == [0, 1]
    seen = {one.id for one in chain(*made.received)}
    for number, queue in enumerate(run.queues):
        sends = [key for end in (number, number + 2) for key, _ in made.sent[end]]
        received = sum(len(made.received[end]) for end in (number, number + 2))
        assert (queue["sent"], queue["received"]) == (len(sends), received)
        assert queue["unreceived"] == sum(key not in seen for key in sends) > 0
        seconds = run.sections["results"]["duration"]
        assert queue["sent_rate"] == pytest.approx(len(sends) / seconds, abs=1)
    one = made.write_processes(tmp_path / "one", 3, 2)
    assert one.queues == []


def test_fairness() -> None:
    assert fairness([0, 0]) is None
    assert fairness([5, 5, 5, 5]) == {
        "index": 1.0, "ratio": 1.0, "least": 0.25, "most": 0.25, "shares": [0.25] * 4,
    }  # fmt: skip
    alone = fairness([8, 0, 0, 0])
    assert alone is not None
    assert (alone["index"], alone["ratio"], alone["least"], alone["most"]) == (0.25, 0, 0, 1)


def test_one_sender_that_misses_its_schedule_is_a_miss_of_all() -> None:
    kept = {"rate": 10, "due": 10, "sent": 10, "never_sent": 0, "achieved": 10.0,
            "late_us": {"p50": 1, "max": 9}, "missed": False,
            "late_by_us": {"credit": {"p50": 0}, "itself": {"p50": 1}},
            "over_time": None}  # fmt: skip
    late = {"rate": 11, "due": 11, "sent": 5, "never_sent": 6, "achieved": 5.0,
            "late_us": {"p50": 20_000, "max": 8}, "missed": True,
            "late_by_us": {"credit": {"p50": 19_999}, "itself": {"p50": 0}},
            "over_time": None}  # fmt: skip
    assert schedule_of_ends([kept, late]) == {
        "rate": 21, "due": 21, "sent": 15, "never_sent": 6, "achieved": 15.0,
        "late_us": {"p50": 20_000, "max": 9}, "missed": True,
        "late_by_us": {"credit": {"p50": 19_999}, "itself": {"p50": 1}}, "over_time": None,
    }  # fmt: skip
    unknown = dict.fromkeys(kept)
    assert schedule_of_ends([kept, unknown]) == unknown


def test_a_queue_was_read_to_its_end_only_if_all_receivers_say_so() -> None:
    sender = {"config": {"duration": 5, "count": 10}, "complete": True,
              "arrow": {"settled_at": {"boot": "b", "ns": 7}, "rejected": 2}}  # fmt: skip
    receiver: dict[str, object] = {
        "config": {"connection_mode": "client", "credit_window": 7, "run_start": 3},
        "complete": True,
        "arrow": {"drained_at": {"boot": "b", "ns": 7, "senders_ended": False}},
    }
    run = bounds_of_ends([sender, sender], [receiver, receiver])
    assert (run.count, run.duration, run.credit_window, run.run_start) == (20, 5, 14, 3)
    assert (run.complete, run.emptied, run.peer_to_peer, run.refused) == (True, True, False, 4)
    early = {"boot": "b", "ns": 6, "senders_ended": False}
    for other in ({}, {"drained_at": None}, {"drained_at": early}):
        assert not bounds_of_ends([sender] * 2, [receiver, receiver | {"arrow": other}]).emptied
    late = {"settled_at": {"boot": "b", "ns": 8}}
    for last in ({}, {"settled_at": None}, late):
        assert not bounds_of_ends([sender, sender | {"arrow": last}], [receiver] * 2).emptied


def test_histograms_of_ends_add_up() -> None:
    chance = np.random.default_rng(10)
    parts = [chance.integers(-500, 90_000, 400), chance.integers(0, 700, 300)]
    whole, merged = LogHistogram(), LogHistogram()
    for part in parts:
        whole.add(part)
        single = LogHistogram()
        single.add(part)
        merged.merge(single)
    assert merged.count == whole.count == 700
    for rank in (0, 1, 50, 99, 100):
        assert merged.percentile(rank) == whole.percentile(rank)
