"""Messages due, sent and never sent: no stall is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analysis_twins import analysis
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.analysis.figures.file_analysis import FileAnalysis
from quiver_fast.analysis.figures.schedule import send_schedule, unsent_waits
from quiver_fast.analysis.figures.summary import receiver_sections, sender_sections
from quiver_fast.analysis.model.bounds import RunBounds, Sending
from quiver_fast.analysis.model.ranks import RANKS
from quiver_fast.rate_steps import parse_rate_steps, schedule_of, times_due

EPOCH = 1_472_344_673_324
SECOND = 10**9


def asked(text: str, **reported: Any) -> Sending:
    """Return the schedule of a rate such as 100, or of steps such as 100:1s,200:9s."""
    rate = int(text) if text.isdigit() else 0
    steps = () if rate else parse_rate_steps(text)
    return Sending(tuple(schedule_of(rate, steps)), **reported)


def of_ours(sending: Sending, sent: int) -> FileAnalysis:
    """Return what our arrow records of ``sent`` messages: when they were due, in nanoseconds."""
    times = times_due(sending.asked, range(sent))
    return analysis([EPOCH * 10**6 + time for time in times], unit="ns")


@given(
    rates=st.lists(st.integers(1, 400), min_size=1, max_size=3),
    stalls=st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(0, 2 * SECOND)), max_size=4),
    duration=st.integers(1, 3),
)
def test_whatever_stalls_what_was_due_was_sent_or_never_sent(
    rates: list[int], stalls: list[tuple[int, int]], duration: int
) -> None:
    text = ",".join(f"{rate}:1s" for rate in rates)
    sending = asked(text, reported_ns=duration * SECOND)
    # Slow and obvious: each message leaves when it is due, or at the end of the stalls around it.
    all_due = [time for time in times_due(sending.asked, range(1300)) if time < duration * SECOND]
    sent = 0
    for time in all_due:
        for begin, length in sorted(stalls):
            if begin <= time < begin + length:
                time = begin + length
        sent += time < duration * SECOND
    run = RunBounds(duration=duration, complete=True, sending=sending)
    found = send_schedule(of_ours(sending, sent), run)
    assert (found["due"], found["sent"]) == (len(all_due), sent)
    assert found["due"] == found["sent"] + found["never_sent"]
    assert found["achieved"] * duration == pytest.approx(sent)
    assert found["missed"] is (sent == 0 or found["never_sent"] > len(all_due) / 1000)
    waits = unsent_waits(of_ours(sending, sent), run, "ns")
    unsent = [duration * SECOND - time for time in all_due[sent:]] if found["missed"] else []
    assert waits.total == len(unsent)
    assert [*waits.values.repeat(waits.counts)] == sorted(unsent)


def test_many_that_were_never_sent_wait_no_longer_than_they_did() -> None:
    sending = asked("100000", reported_ns=2 * SECOND)
    run = RunBounds(duration=2, complete=True, sending=sending)
    waits = unsent_waits(of_ours(sending, 1000), run, "us")
    assert waits.total == 199_000
    assert len(waits) <= 10_000
    slow = [2_000_000 - 10 * index for index in range(1000, 200_000)]
    found = sorted(waits.values.repeat(waits.counts), reverse=True)
    assert all(0 <= true - least < 10 * 20 for true, least in zip(slow, found, strict=True))


def test_a_run_that_was_stopped_owes_what_was_due_until_then() -> None:
    sending = asked("1000", reported_ns=SECOND // 2)
    found = send_schedule(of_ours(sending, 400), RunBounds(duration=9, sending=sending))
    assert (found["due"], found["never_sent"], found["achieved"]) == (500, 100, 800)


@pytest.mark.parametrize(
    ("passed", "achieved", "missed"),
    [(0.999, 1000, False), (1.0005, 999.5, False), (1.02, 980.4, True), (2.5, 400, True)],
)
def test_of_a_count_nothing_is_never_sent_but_it_may_come_late(
    passed: float, achieved: float, missed: bool
) -> None:
    sending = asked("1000", reported_ns=int(passed * SECOND))
    found = send_schedule(of_ours(sending, 1000), RunBounds(count=1000, sending=sending))
    assert (found["due"], found["sent"], found["never_sent"]) == (1000, 1000, 0)
    assert found["achieved"] == pytest.approx(achieved, rel=1e-4)
    assert found["missed"] is missed


def test_the_rate_of_a_sender_is_that_of_the_time_that_passed() -> None:
    """98,303 of 180,000 messages, all of which have the times at which they were due."""
    sending = asked("60000", reported_ns=3 * SECOND)
    run = RunBounds(duration=3, complete=True, sending=sending)
    sections = sender_sections(of_ours(sending, 98_303), run)
    assert sections["results"]["message_rate"] == round(98_303 / 3)
    assert sections["schedule"]["achieved"] == pytest.approx(98_303 / 3)
    assert (sections["schedule"]["never_sent"], sections["schedule"]["missed"]) == (81_697, True)


def test_a_warm_up_is_not_in_the_rate() -> None:
    sending = asked("100", reported_ns=3 * SECOND)
    start = EPOCH // 1000 * 1000
    sent = analysis([start + 10 * number for number in range(200)])
    run = RunBounds(duration=3, complete=True, warmup=1, sending=sending)
    sections = sender_sections(sent, run)
    assert sections["results"]["message_rate"] == 50
    assert sections["schedule"]["achieved"] == pytest.approx(200 / 3)


def test_percentiles_with_the_messages_that_were_never_sent() -> None:
    sending = asked("10", reported_ns=2 * SECOND)
    run = RunBounds(duration=2, complete=True, sending=sending)
    sent = [EPOCH + 100 * number for number in range(15)]
    received = analysis(sent, [time + 7 for time in sent])
    latency = receiver_sections(received, run, analysis(sent))["latency"]
    assert latency["percentiles"]["100"] == 7
    # Those that were due at 1.5 to 1.9 s waited until the end.
    all_due = [7] * 15 + [100, 200, 300, 400, 500]
    found = latency["with_never_sent"]
    assert (found["never_sent"], found["mean"]) == (5, np.mean(all_due))
    assert list(found["percentiles"].values()) == np.percentile(all_due, RANKS).tolist()
    assert found["stddev"] == pytest.approx(np.std(all_due))
    kept = analysis(range(EPOCH, EPOCH + 2000, 100))
    whole = receiver_sections(received, run, kept)
    assert "with_never_sent" not in whole["latency"]


# ---- a sender that reports nothing ---------------------------------------------------


@pytest.mark.parametrize(
    ("gap_ms", "late_p50", "missed"),
    [(10, 50, False), (10, 20_000, True), (11, None, True), (9, None, True), (10, None, False)],
)
def test_the_records_tell_the_rate(gap_ms: int, late_p50: int | None, missed: bool) -> None:
    sender = analysis(range(EPOCH, EPOCH + 1000 * gap_ms, gap_ms))
    late = None if late_p50 is None else {"p50": float(late_p50)}
    ours = send_schedule(sender, RunBounds(sending=asked("100", late_us=late)))
    assert ours["missed"] is missed
    assert ours["achieved"] == pytest.approx(1000 / gap_ms)
    assert ours["never_sent"] == (99 if gap_ms == 11 else 0)


def test_a_foreign_sender_that_stalls_to_the_end_missed_its_rate() -> None:
    sender = analysis(range(EPOCH, EPOCH + 1000, 10))
    run = RunBounds(duration=2, complete=True, sending=asked("100"))
    ours = send_schedule(sender, run)
    assert (ours["due"], ours["sent"], ours["never_sent"]) == (200, 100, 100)
    assert (ours["achieved"], ours["missed"]) == (50, True)
    assert sender_sections(sender, run)["results"]["message_rate"] == 50


def test_a_schedule_allows_for_the_clocks_resolution() -> None:
    """50 messages at 100,000/s take half a millisecond, which may look like 0 or 1 ms."""
    for span in (0, 1):
        sender = analysis([EPOCH] * 49 + [EPOCH + span])
        ours = send_schedule(sender, RunBounds(sending=asked("100000")))
        assert (ours["due"], ours["never_sent"], ours["missed"]) == (50, 0, False)


@pytest.mark.parametrize(("count", "missed"), [(300, False), (308, True), (296, True)])
def test_a_schedule_of_steps(count: int, missed: bool) -> None:
    """100 messages in the first second, 200 in the next: the mean rate is that of both."""
    sent = [EPOCH + index * 2000 // (count - 1) for index in range(count)]
    ours = send_schedule(analysis(sent), RunBounds(sending=asked("100:1s,200:9s")))
    assert ours["missed"] is missed
    assert ours["rate"] == 150
    assert ours["achieved"] == pytest.approx((count - 1) / 2)


def test_one_message_has_no_rate() -> None:
    assert send_schedule(analysis([EPOCH]), RunBounds(sending=asked("100")))["missed"] is None
