"""The figures of each end and each queue, against dictionaries over the records."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.ends_records import FIRST_IDS, START, Ends, Receipt, loaded
from test_analysis_ends import reordered_by_end

from quiver_fast.analysis.figures.each_end import MOST_SHOWN, queues_of, shown_of_each
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.sections.ends import end_sections
from quiver_fast.analysis.show.report import ends_section
from quiver_fast.analysis.show.text import section_text

SECOND = 10**6
RATES = {"sent_rate": None, "received_rate": None}


def members_of(run: RunData, role: str) -> list[dict[str, Any]]:
    return [*chain(*(end["members"] for end in run.ends or () if end["role"] == role))]


def rate_of(times: list[int]) -> float | None:
    """Return n over last - first, as documents have it."""
    if not times or times[-1] <= times[0]:
        return None
    rate = len(times) * SECOND / (times[-1] - times[0])
    return round(rate) if rate >= 100 else round(rate, 3)


def check_latency(found: dict[str, Any], receipts: list[Receipt]) -> None:
    latencies = [one.received - one.sent for one in receipts]
    assert found["count"] == len(latencies)
    assert found["negative"] == sum(one < 0 for one in latencies)
    if not latencies:
        assert {*found["percentiles"].values(), found["mean"], found["p99_us"]} == {None}
        return
    assert found["mean"] == sum(latencies) / len(latencies)
    for rank, value in found["percentiles"].items():
        assert value == pytest.approx(np.percentile(latencies, float(rank)))


@given(
    seed=st.integers(0, 2**32), senders=st.integers(1, 5), receivers=st.integers(1, 5),
    messages=st.integers(1, 60), of_process=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strangers=st.integers(0, 3), ids=st.booleans(), queues=st.integers(1, 3), idle=st.booleans(),
)  # fmt: skip
def test_each_end_and_each_queue(
    seed: int, senders: int, receivers: int, messages: int, of_process: tuple[int, int],
    strangers: int, ids: bool, queues: int, idle: bool,
) -> None:  # fmt: skip
    """Whatever is lost, doubled, out of order or of others, and whoever shares a process."""
    assume(queues <= min(senders, receivers))
    made = Ends(seed, senders, receivers, messages)
    if idle and receivers > 1:
        others = made.received.pop()
        made.received[-1] += others
        made.received.append([])
    own = [[*lines] for lines in made.received]
    assume(any(own))
    fresh = reordered_by_end(made, of_process[1])
    for number in range(strangers):
        made.received[0].append(Receipt(9 * FIRST_IDS + number, START + 5, START + 9))
    with tempfile.TemporaryDirectory() as top:
        run = made.write_processes(Path(top, "run"), *of_process, ids=ids, queues=queues)
    of_receivers, of_senders = members_of(run, "receiver"), members_of(run, "sender")
    assert [row["number"] for row in of_receivers] == [*range(receivers)]
    for row, receipts in zip(of_receivers, own, strict=True):
        assert row["message_count"] == row["delivery"]["received"] == len(receipts)
        assert row["message_rate"] == rate_of([one.received for one in receipts])
        check_latency(row["latency"], receipts)
        assert row["queue"] == row["number"] % queues
    taken = {one.id for one in chain(*own)}
    for row, sends in zip(of_senders, made.sent, strict=True):
        assert row["message_count"] == row["delivery"]["sent"] == len(sends)
        assert row["message_rate"] == rate_of([time for _, time in sends])
        received = sum(key in taken for key, _ in sends)
        left = (received, len(sends) - received) if ids else (None, None)
        assert (row["delivery"]["received"], row["delivery"]["unreceived"]) == left
        assert row["latency"] is None
    delivery, rows = run.delivery or {}, [*of_senders, *of_receivers]
    for name in ("duplicate", "reordered", "unreceived"):
        counts = [row["delivery"][name] for row in rows if row["delivery"][name] is not None]
        assert sum(counts) == (delivery[name] if counts else sum(counts))
        assert bool(counts) == (delivery[name] is not None) or not ids
    if ids:
        assert [row["delivery"]["reordered"] for row in of_receivers] == fresh
    assert sum(row["latency"]["count"] for row in of_receivers) == delivery["received"]
    check_queues(run, own, queues)


def check_queues(run: RunData, own: list[list[Receipt]], queues: int) -> None:
    assert len(run.queues or ()) == (queues if queues > 1 else 0)
    for queue in run.queues or ():
        receipts = [*chain(*own[queue["queue"] :: queues])]
        assert queue["received"] == len(receipts)
        if receipts:
            check_latency(queue["latency"], receipts)
        of_queue = [
            row["delivery"]
            for row in members_of(run, "receiver") + members_of(run, "sender")
            if row["queue"] == queue["queue"]
        ]
        for name in ("sent", "unreceived", "duplicate", "reordered"):
            counts = [one[name] for one in of_queue if one[name] is not None]
            assert queue[name] == (sum(counts) if counts else None)


def test_an_end_has_the_same_figures_alone_and_among_others(tmp_path: Path) -> None:
    """All but the process: a reader handles one shape."""
    made = Ends(3, 4, 3)
    seen: set[int] = set()
    for lines in made.received:
        # A duplicate is of the end that comes later, and the order of files is not that of time.
        lines[:] = [one for one in lines if not (one.id in seen or seen.add(one.id))]
    alone = made.write_processes(tmp_path / "alone", 1, 1, queues=3)
    shared = made.write_processes(tmp_path / "shared", 3, 3, queues=3)
    for role in ("sender", "receiver"):
        assert members_of(alone, role) == members_of(shared, role)
    # The last record of all is another one, so that the duration of the run is.
    assert [one | RATES for one in alone.queues or ()] == [
        one | RATES for one in shared.queues or ()
    ]
    for end in alone.ends or ():
        [row] = end["members"]
        assert row["latency"] == end.get("latency")
        for key in ("message_count", "message_rate"):
            assert row[key] == end["results"][key]


def test_rejected_messages_of_a_queue_are_not_unreceived() -> None:
    """Receivers that share a process share its report, which does not tell the queue."""
    row = {"delivery": dict.fromkeys(("sent", "received", "duplicate", "reordered"))}
    senders = [row | {"queue": n, "delivery": row["delivery"] | {"unreceived": 5}} for n in (0, 1)]
    receivers = [row | {"queue": n} for n in (0, 1)]
    of_both: dict[str, Any] = {"role": "receiver", "members": receivers, "arrow": {"rejected": 4}}
    of_one = of_both | {"members": receivers[1:]}
    sending = {"role": "sender", "members": senders}
    for end, left in ((of_one, [5, 1]), (of_both, [None, None])):
        found = queues_of(2, [sending, end], 1.0, {})
        assert [one["unreceived"] for one in found] == left


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_compressed_and_a_cut_file(role: str, tmp_path: Path) -> None:
    made = Ends(4, 3, 3)
    plain = made.write_processes(tmp_path / "run", 3, 3)
    path = tmp_path / "run" / f"{role}.0-transfers.csv"
    text = path.read_bytes()
    path.with_suffix(".csv.gz").write_bytes(gzip.compress(text))
    path.unlink()
    packed = loaded(tmp_path / "run")
    assert members_of(packed, "receiver") == members_of(plain, "receiver")
    assert members_of(packed, "sender") == members_of(plain, "sender")
    path.with_suffix(".csv.gz").unlink()
    path.write_bytes(text[: len(text) // 2])
    cut = loaded(tmp_path / "run")
    rows = members_of(cut, role)
    assert sum(row["message_count"] for row in rows) == next(
        end["results"]["message_count"] for end in cut.ends or () if end["role"] == role
    )
    assert min(row["message_count"] for row in rows) > 0


def test_numbers_of_ends_that_the_process_does_not_have(tmp_path: Path) -> None:
    """Records of an end elsewhere count for the process; a report of other ends tells nothing."""
    made = Ends(10, 2, 2)
    made.write_processes(tmp_path / "run", 2, 2)
    for role in ("sender", "receiver"):
        path = tmp_path / "run" / f"{role}.0-transfers.csv"
        path.write_text(path.read_text().replace("@1\n", f"@{2**40}\n"))
    run = loaded(tmp_path / "run")
    rows = members_of(run, "sender") + members_of(run, "receiver")
    assert [row["message_count"] for row in rows] == [700, 0, len(made.received[0]), 0]
    assert (run.delivery or {})["received"] == sum(map(len, made.received))
    path.write_text("".join(x for x in path.read_text().splitlines(True) if x[0] != "@"))
    place = tmp_path / "run" / "receiver.0-summary.json"
    document = json.loads(place.read_text())
    document["arrow"]["ends"]["counts"] = [1, 2, 3]
    place.write_text(json.dumps(document))
    rows = members_of(loaded(tmp_path / "run"), "receiver")
    assert [row["message_count"] for row in rows] == [None, None]


def test_an_end_that_a_killed_process_cannot_report(tmp_path: Path) -> None:
    """Its records tell the messages of each of its ends."""
    made = Ends(5, 2, 4)
    made.write_processes(tmp_path / "run", 2, 2)
    path = tmp_path / "run" / "receiver.1-summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"arrow": None}))
    run = loaded(tmp_path / "run")
    assert [row["message_count"] for row in members_of(run, "receiver")] == [
        len(lines) for lines in made.received
    ]
    assert len(((run.fairness or {})["receivers"])["shares"]) == 4


@pytest.mark.parametrize("lost", ["*", "receiver.0", "receiver.1", "sender.0"])
def test_processes_whose_summaries_are_missing_have_the_ends_of_their_records(
    lost: str, tmp_path: Path
) -> None:
    """A command that was killed wrote none: three ends looked like one with their rates."""
    made = Ends(9, 5, 5)
    whole = made.write_processes(tmp_path / "run", 3, 3, queues=5)
    for path in (tmp_path / "run").glob(f"{lost}-summary.json"):
        path.unlink()
    run = loaded(tmp_path / "run")
    nowhere = {"queue": None} if lost == "*" else {}
    for role in ("sender", "receiver"):
        assert members_of(run, role) == [row | nowhere for row in members_of(whole, role)]
    assert run.queues == ([] if lost == "*" else whole.queues)


def test_a_number_of_no_end_where_no_summary_tells_the_ends(tmp_path: Path) -> None:
    Ends(12, 3, 3).write_processes(tmp_path / "run", 3, 3, ids=False)
    for path in (tmp_path / "run").glob("*-summary.json"):
        path.unlink()
    path = tmp_path / "run" / "receiver.0-transfers.csv"
    path.write_text(path.read_text().replace("@1\n", f"@{2**40}\n"))
    run = loaded(tmp_path / "run")
    rows = members_of(run, "receiver")
    assert [row["message_count"] == 0 for row in rows] == [False, True, False]
    # Nothing tells that each queue had one sender.
    assert (run.delivery or {})["reordered"] is None


def test_ends_of_one_message_each_are_shown(tmp_path: Path) -> None:
    """They have no rate, and looked like a process whose records do not tell its ends."""
    made = Ends(11, 3, 3, 1)
    made.received = [[Receipt(key, time, time + 5)] for [(key, time)] in made.sent]
    run = made.write_processes(tmp_path / "run", 3, 3)
    for role in ("sender", "receiver"):
        rows, _ = shown_of_each(run.ends or (), role)
        assert [row["name"] for row in rows] == [f"{role} {number}" for number in range(3)]


def test_messages_after_the_end_of_the_sending_are_in_no_rate(tmp_path: Path) -> None:
    """The rule of a process is that of each of its ends."""
    made = Ends(6, 2, 2)
    made.write_processes(tmp_path / "run", 2, 2)
    last = max(time for sends in made.sent for _, time in sends)
    for path in (tmp_path / "run").glob("*-summary.json"):
        document = json.loads(path.read_text()) | {"complete": True}
        document["config"]["duration"] = 0.001
        path.write_text(json.dumps(document))
    run = loaded(tmp_path / "run")
    for row, lines in zip(members_of(run, "receiver"), made.received, strict=True):
        within = sum(one.received <= last for one in lines)
        assert within < len(lines)
        rate = within * SECOND / (last - lines[0].received)
        assert row["message_rate"] == round(rate)


@pytest.mark.parametrize("members", [1, 3])
def test_the_rate_of_a_sender_with_a_schedule_is_by_the_time_that_passed(
    members: int, tmp_path: Path
) -> None:
    made = Ends(8, 3, 1, 200)
    made.write_processes(tmp_path / "run", members, 1)
    for path in (tmp_path / "run").glob("sender.*-summary.json"):
        document = json.loads(path.read_text())
        document["config"]["rate"] = 1000
        document["arrow"]["schedule"] = {"late_us": {"p50": 0, "max": 0}, "sending_ns": 4 * 10**9}
        path.write_text(json.dumps(document))
    run = loaded(tmp_path / "run")
    assert [row["message_rate"] for row in members_of(run, "sender")] == [50, 50, 50]
    rates = [end["results"]["message_rate"] for end in run.ends or () if end["role"] == "sender"]
    assert sum(rates) == 150


def test_an_id_that_was_sent_twice_tells_no_sender(tmp_path: Path) -> None:
    """Each of two foreign senders may count from 1."""
    made = Ends(7, 2, 1, 50)
    made.sent[1] = [(key % FIRST_IDS, time) for key, time in made.sent[1]]
    made.received = [[Receipt(key, time, time + 5) for sends in made.sent for key, time in sends]]
    run = made.write_processes(tmp_path / "run", 1, 1)
    assert (run.delivery or {})["duplicate"] == (run.delivery or {})["unreceived"] == 0
    rows = members_of(run, "sender") + members_of(run, "receiver")
    assert {row["delivery"]["unreceived"] for row in rows} == {None}
    assert {row["delivery"]["duplicate"] for row in rows} == {None}
    assert Counter(row["message_count"] for row in rows) == {50: 2, 100: 1}


def many_ends(count: int) -> list[dict[str, Any]]:
    """Return the processes of as many receivers; a higher number is slower."""
    rows = [
        {
            "number": number, "queue": 0, "message_count": 9, "message_rate": 9.0,
            "latency": {
                "p99_us": number, "count": 9, "unit": "us",
                "percentiles": {"50": number, "99": number, "100": number},
            },
        }
        for number in range(count)
    ]  # fmt: skip
    results = {"message_count": 9 * count, "message_rate": 9.0}
    end = {"name": "all", "role": "receiver", "results": results, "complete": True}
    return [end | {"members": rows}]


@pytest.mark.parametrize("count", [2, MOST_SHOWN, MOST_SHOWN + 1, 1000])
def test_a_page_and_a_text_of_many_ends_have_the_slowest(count: int) -> None:
    ends = many_ends(count)
    shown, which = shown_of_each(ends, "receiver")
    assert [row["number"] for row in shown] == [*range(max(0, count - MOST_SHOWN), count)]
    assert (which is None) == (count <= MOST_SHOWN)
    page = ends_section({"ends": ends})
    text = "".join(map(section_text, end_sections({"ends": ends})))
    assert page.count("<tr>") == 1 + len(shown)
    assert len(page) < 60_000
    assert text.count("\nreceiver") == len(shown)
    for output in (page, text):
        assert (f"of {count:,} receivers, those of the highest 99 % latencies" in output) == (
            which is not None
        )
