"""The reckoning of a run: any mix of messages gives exactly what was made.

A run is made first, and its records from it, so that what must come out is known without
reading a record. The twins then judge runs that nobody could make on purpose.
"""

from dataclasses import dataclass, field

import numpy as np
import pytest
from analysis_twins import slow_reconcile, slow_sieve
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.examples import examples

from quiver_fast.analysis.figures.ends import bounds_of_ends
from quiver_fast.analysis.figures.sender_rate import told_rate
from quiver_fast.analysis.model.bounds import RunBounds
from quiver_fast.analysis.model.units import PER_SECOND
from quiver_fast.analysis.read.local import analyze_file, analyze_receiver

START = 1_700_000_000_000
files = settings(
    deadline=None,
    max_examples=examples(150),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@dataclass
class Made:
    """The expected counts, from the making of the records."""

    sent: int = 0
    older: int = 0
    foreign: int = 0
    unreceived: int = 0
    duplicate: int = 0
    own: list = field(default_factory=list)  # (send time, receive time)
    senders: list = field(default_factory=list)  # lines
    receivers: list = field(default_factory=list)  # (receive time, line)


# The fate of one message of the run: arriving copies, and the delay of the first.
messages = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 1, 1, 1, 2, 3]), st.integers(-2, 3000)),
    min_size=1,
    max_size=40,
)
strangers = st.lists(
    st.tuples(st.sampled_from(["older", "known id", "unit", "foreign"]), st.integers(1, 900)),
    max_size=12,
)
units = st.sampled_from(["ms", "us", "ns"])
OTHER_UNIT = {"ms": 1000, "us": 1, "ns": 1}


def receipt(message, sent, received, with_ids):
    return f"{message},{sent},{received}\n" if with_ids else f"{sent},{received}\n"


def make(run, others, unit, with_ids):
    """Make the records of a run, each message with a tick of its own."""
    made, ticks = Made(), PER_SECOND[unit] // 1000
    start = now = START * ticks
    for message, (pause, copies, late) in enumerate(run, start=1):
        # Odd ticks are left to the foreign messages.
        now += 2 * ticks * (1 + 100 * pause)
        start = now if message == 1 else start
        made.sent += 1
        made.senders.append(f"{message},{now}\n" if with_ids else f"{now},0\n")
        made.unreceived += copies == 0
        made.duplicate += max(0, copies - 1)
        for copy in range(copies):
            received = now + (late + 5 * copy) * ticks
            made.own.append((now, received))
            made.receivers.append((received, receipt(message, now, received, with_ids)))
    for number, (kind, distance) in enumerate(others):
        received = start + distance * ticks
        if kind == "foreign":
            made.foreign += 1
            line = receipt(10**6 + number, start + 2 * distance * ticks + 1, received, with_ids)
        else:
            made.older += 1
            sent, message = start - distance * ticks, 10**6 + number
            if kind == "unit":
                sent = (START + distance) * OTHER_UNIT[unit]
            if kind == "known id":
                message = 1
            line = receipt(message, sent, received, with_ids)
        made.receivers.append((received, line))
    made.receivers.sort(key=lambda entry: entry[0])
    made.own.sort(key=lambda entry: entry[1])
    return made, start, now


def write(folder, made):
    (folder / "s.csv").write_text("".join(made.senders))
    (folder / "r.csv").write_text("".join(line for _, line in made.receivers))


def analysed(folder, with_ids, run):
    known = {"record_format": "v1" if with_ids else "v3"}
    sender = analyze_file(folder / "s.csv", operation="send", reconcilable=True, **known)
    return analyze_receiver(folder / "r.csv", sender, run=run, **known)


def samples(distribution):
    return [
        value
        for part in distribution.parts()
        for value in np.repeat(part.values, part.counts).tolist()
    ]


def expected_sections(made, start, last_send, unit, run):
    """Return results, drain and growth, one message at a time."""
    ticks = PER_SECOND[unit]
    received = [time for _, time in made.own]
    results = {"message_count": len(received)}
    by_duration = run.duration > 0 and run.complete and not 0 < run.count <= made.sent
    if by_duration:
        end = max(last_send, start + run.duration * ticks)
    else:
        end = received[-1] if received else None
    within = [time for time in received if not by_duration or time <= end]
    duration = None if end is None else (end - start) / ticks
    results["duration"] = duration
    span = None if not received or end <= received[0] else (end - received[0]) / ticks
    results["receiver_rate"] = None if span is None else told_rate(len(within) / span)
    results["end_to_end_rate"] = None
    if duration is not None and duration > 0 and (by_duration or len(within) > 1):
        results["end_to_end_rate"] = len(within) / duration
    if not by_duration:
        return results, None, None
    after = [time for time in received if time > end]
    drain = {"seconds": (max(after) - end) / ticks if after else 0.0, "messages": len(after)}
    backlog = made.sent - len(within)
    growth = {"per_second": backlog / duration, "messages": backlog}
    return results, drain, growth if backlog > max(2 * run.credit_window, made.sent / 100) else None


bounds = st.builds(
    RunBounds,
    duration=st.integers(0, 3),
    count=st.sampled_from([0, 0, 10, 1000]),
    credit_window=st.integers(0, 4),
    complete=st.sampled_from([True, True, True, False, None]),
    emptied=st.booleans(),
    peer_to_peer=st.booleans(),
)


@given(messages, strangers, units, st.booleans(), bounds)
@files
def test_any_mix_gives_what_was_made(tmp_path, mix, others, unit, with_ids, run):
    made, start, last_send = make(mix, others, unit, with_ids)
    write(tmp_path, made)
    pair = analysed(tmp_path, with_ids, run)
    delivery, receiver = pair.delivery, pair.receiver
    for name in ("sent", "older", "foreign", "unreceived", "duplicate"):
        assert delivery[name] == getattr(made, name), name
    assert delivery["received"] == receiver.count == len(made.own)
    assert (receiver.older, receiver.foreign) == (made.older, made.foreign)
    assert delivery["negative_latency"] == sum(sent > received for sent, received in made.own)
    if run.emptied or (run.peer_to_peer and run.complete):
        assert delivery["lost"] == made.unreceived
    else:
        assert delivery["lost"] == (None if made.unreceived else 0)
    # Nothing else of the file is seen: latencies, seconds, first and last.
    assert samples(receiver.latencies) == sorted(received - sent for sent, received in made.own)
    seconds = [received // PER_SECOND[unit] for _, received in made.own]
    assert samples(receiver.seconds) == sorted(seconds)
    if made.own:
        assert receiver.first_time == made.own[0][1]
        assert receiver.last_time == made.own[-1][1]
    results, drain, growth = expected_sections(made, start, last_send, unit, run)
    ours = pair.sections
    assert {name: ours["results"][name] for name in results} == results
    assert (ours["drain"], ours["queue_growth"]) == (drain, growth)


ids = st.integers(0, 12)
ticks = st.integers(START, START + 12)


@given(
    st.lists(st.tuples(ids, ticks), max_size=20),
    st.lists(st.tuples(st.integers(0, 16), st.integers(START - 4, START + 14), ticks), max_size=30),
    st.booleans(),
    bounds,
)
@files
def test_any_records_against_the_twin(tmp_path, sends, receipts, with_ids, run):
    """Ids that repeat at either end, ticks that many share, sends out of order."""
    lines = [f"{i},{t}\n" if with_ids else f"{t},0\n" for i, t in sends]
    (tmp_path / "s.csv").write_text("".join(lines))
    lines = [receipt(*r, with_ids) for r in receipts]
    (tmp_path / "r.csv").write_text("".join(lines))
    pair = analysed(tmp_path, with_ids, run)
    ours = dict(pair.delivery)
    assert ours.pop("method") == ("ids" if with_ids else "per-millisecond lower bound")
    assert ours == slow_reconcile(sends, receipts, with_ids, run)
    own, older, foreign = slow_sieve(sends, receipts, with_ids, run)
    receiver = pair.receiver
    assert (receiver.count, receiver.older, receiver.foreign) == (len(own), older, foreign)
    assert samples(receiver.latencies) == sorted(r[2] - r[1] for r in own)
    assert samples(receiver.seconds) == sorted(r[2] // 1000 for r in own)
    stamps = [r[1] for r in own]
    behind = sum(time < max(stamps[: n + 1]) for n, time in enumerate(stamps))
    assert receiver.reordered == behind


def test_twenty_thousand_older_messages_are_in_no_figure(tmp_path):
    """The issue's first case: 50,000 are left in the queue, 20,000 are asked for."""
    old, new = START - 60_000, START
    sends = [new + n // 100 for n in range(20_000)]
    (tmp_path / "s.csv").write_text("".join(f"{sent},0\n" for sent in sends))
    receipts = [(old + n // 100, new + n // 1000) for n in range(50_000)]
    receipts += [(sent, sent + 7) for sent in sends]
    (tmp_path / "r.csv").write_text("".join(f"{s},{r}\n" for s, r in receipts))
    run = RunBounds(count=20_000, complete=True, peer_to_peer=False)
    sender = analyze_file(tmp_path / "s.csv", operation="send", reconcilable=True)
    pair = analyze_receiver(tmp_path / "r.csv", sender, run=run)
    counts = {name: pair.delivery[name] for name in ("older", "received", "unreceived", "lost")}
    assert counts == {"older": 50_000, "received": 20_000, "unreceived": 0, "lost": 0}
    assert (pair.receiver.latencies.minimum, pair.receiver.latencies.maximum) == (7, 7)
    assert pair.sections["results"]["end_to_end_rate"] == pytest.approx(20_000 / 0.206)
    assert "body_rate" not in pair.sections["results"]


@pytest.mark.parametrize(
    ("config", "body_bytes"),
    [
        ({"body_size": 10_000}, 10_000),
        ({"body_size": 9_999}, None),
        ({"body_size": "10k..30k"}, 20_000),
        ({"body_size": "100:50%,50k:50%"}, 25_050),
        ({"body_size": "100:80%,10k:20%"}, None),
        ({"body_size": "large"}, None),
        ({"body_size": 20_000, "body_file": "body"}, None),
        ({}, None),
    ],
)
def test_large_bodies_have_a_rate_in_bytes(tmp_path, config, body_bytes):
    """Bodies of 10 kB and more on average; of a file the summary does not tell the size."""
    (tmp_path / "s.csv").write_text("a,1000\nb,1100\n")
    (tmp_path / "r.csv").write_text("a,1000,1001\nb,1100,1200\n")
    run = RunBounds.of({"config": config}, None)
    results = analysed(tmp_path, True, run).sections["results"]
    assert results["end_to_end_rate"] == pytest.approx(10)
    assert results.get("body_rate") == (body_bytes and pytest.approx(10 * body_bytes))
    ends = bounds_of_ends([{"config": config}] * 2, [{"config": None}])
    assert ends.body_bytes == run.body_bytes


def test_many_foreign_ids_that_are_no_numbers(tmp_path, monkeypatch):
    """Another run on the same queue, its ids hashes: the table of them goes to files."""
    monkeypatch.setattr("quiver_fast.analysis.tables.sorted_rows.ROOM", 1 << 12)
    sends = [f"run1-{n},{START + n // 10}\n" for n in range(3000)]
    mixed = [
        f"run{who}-{n},{START + n // 10},{START + n // 10 + who}\n"
        for n in range(3000)
        for who in (1, 2)
    ]
    (tmp_path / "s.csv").write_text("".join(sends))
    (tmp_path / "r.csv").write_text("".join(mixed))
    sender = analyze_file(tmp_path / "s.csv", operation="send", reconcilable=True)
    pair = analyze_receiver(tmp_path / "r.csv", sender)
    assert (pair.delivery["received"], pair.delivery["foreign"]) == (3000, 3000)
    assert pair.delivery["told_apart_by"] == "ids"
    assert (pair.receiver.latencies.minimum, pair.receiver.latencies.maximum) == (1, 1)
    assert pair.receiver.foreign == 3000


@pytest.mark.parametrize("with_ids", [True, False])
def test_streams_are_of_the_run_too(tmp_path, with_ids):
    """Lines of streaming mode come before the record of their message, and have no id."""
    sends = [START, START + 10]
    (tmp_path / "s.csv").write_text("".join(receipt(n, t, 0, False) for n, t in enumerate(sends)))
    if with_ids:
        (tmp_path / "s.csv").write_text("".join(f"{n},{t}\n" for n, t in enumerate(sends)))
    lines = [
        f"F,{START - 500},{START + 1},{START + 2},4000\n",  # older
        f"B,{START},{START + 3},{START + 5},100\n",
        f"F,{START},{START + 3},{START + 8},10\n",
        receipt(0, START, START + 8, with_ids),
        f"F,{START + 7},{START + 8},{START + 900},2000\n",  # foreign
        f"F,{START + 10},{START + 17},{START + 20},1\n",
        receipt(1, START + 10, START + 20, with_ids),
    ]
    (tmp_path / "r.csv").write_text("".join(lines))
    streams = analysed(tmp_path, with_ids, RunBounds()).receiver.streams
    assert (streams.body_bytes, streams.start, streams.end) == (111, START + 3, START + 20)
    assert samples(streams.first_byte) == [3, 7]
    alone = analyze_file(tmp_path / "r.csv", operation="receive", run=RunBounds(run_start=START))
    assert alone.streams.body_bytes == 2111
