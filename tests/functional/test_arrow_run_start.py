"""Messages of this run and of others in one queue: `run-start` and `run-id`."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proton import Message
from support.arrows import arguments, arguments_v2, run_pyfast
from support.control import controlled
from support.documents import parsed
from support.examples import examples
from support.judgement import assert_clean, assert_error
from support.processes import Finished
from support.remote import serving
from support.scripted_peer import ScriptedPeer
from support.server import running_server

from quiver_fast.wall_clock import wall_base

UNITS_PER_MS = {"ms": 1, "us": 10**3, "ns": 10**6}
# An hour ago for what is older, and an hour from now for what comes in the run.
NOW_MS = int(time.time() * 1000)
HOUR_MS = 3_600_000
RUN = "run7"

# Kinds of messages: what they count as, SendTime in ms relative to the run's start, their
# unit (None: the run's), and their id, to which the number is added; None: no id.
KINDS: dict[str, tuple[str, int, str | None, str | None]] = {
    "own": ("received", 5, None, f"{RUN}-"),
    "old": ("older", -HOUR_MS, None, "left-"),
    "old without id": ("older", -HOUR_MS, None, None),
    "old ms": ("older", -1, "ms", "left-"),
    "old us": ("older", -HOUR_MS, "us", "left-"),
    "old ns": ("older", -1, "ns", "left-"),
    "from 1970": ("older", 1 - NOW_MS, "ms", "left-"),
    "foreign": ("foreign", 5, None, "other-"),
    "foreign without id": ("foreign", 0, None, None),
    "foreign, almost ours": ("foreign", 5, None, RUN),
    "foreign us": ("foreign", HOUR_MS, "us", "other-"),
    "own by a slow clock": ("received", -HOUR_MS, None, f"{RUN}-"),
}
TOLD_BY_TIME = [name for name, kind in KINDS.items() if kind[0] == "older"] + ["own"]
mixed = st.lists(st.sampled_from(sorted(KINDS)), max_size=40)
by_time = st.lists(st.sampled_from(TOLD_BY_TIME), max_size=40)
units = st.sampled_from(sorted(UNITS_PER_MS))
# Each example starts an arrow: twelve, and five in the gate.
slowly = settings(
    max_examples=examples(24) // 2,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def send_time(kind: str, unit: str) -> int:
    _, offset_ms, own_unit, _ = KINDS[kind]
    return (NOW_MS + offset_ms) * UNITS_PER_MS[own_unit or unit]


def encoder(kinds: list[str], unit: str) -> Callable[[int], bytes]:
    """Return what encodes message `number` as the kind at that place."""

    def encode(number: int) -> bytes:
        kind = kinds[number - 1]
        prefix = KINDS[kind][3]
        message: Any = Message(body=b"x" * 10, inferred=True)
        if prefix is not None:
            message.id = f"{prefix}{number}"
        message.properties = {"SendTime": send_time(kind, unit)}
        encoded: bytes = message.encode()
        return encoded

    return encode


def receive(
    directory: Path, kinds: list[str], unit: str, make: Callable[..., list[str]], **changes: object
) -> tuple[Finished, dict[str, Any], ScriptedPeer]:
    """Let our receiver take messages of these kinds; it ends at its count of own ones."""
    report = directory / "report.json"
    with ScriptedPeer(to_send=len(kinds), encode=encoder(kinds, unit)) as peer:
        end = run_pyfast(
            *make(
                "receive",
                peer.port,
                **{
                    "run_start": NOW_MS,
                    "run_id": RUN,
                    "time_unit": unit,
                    "report_file": report,
                    **changes,
                },
            )
        )
    return end, parsed(report.read_text()), peer


def check(end: Finished, report: dict[str, Any], kinds: list[str]) -> None:
    """All were recorded, each counted as its own kind."""
    assert_clean(end)
    assert len(end.lines) == len(kinds)
    for name in ("received", "older", "foreign"):
        assert report[name] == sum(KINDS[kind][0] == name for kind in kinds), name
    assert report["complete"] is True


@slowly
@given(kinds=mixed, unit=units)
def test_ids_tell_messages_apart(tmp_path: Path, kinds: list[str], unit: str) -> None:
    kinds = [*kinds, "own"]
    count = sum(KINDS[kind][0] == "received" for kind in kinds)
    end, report, peer = receive(tmp_path, kinds, unit, arguments_v2, count=count, credit_window=7)
    check(end, report, kinds)
    assert peer.transferred == len(kinds), "all are accepted and settled"
    for number, (kind, line) in enumerate(zip(kinds, end.lines, strict=True), 1):
        prefix = KINDS[kind][3]
        shown = "" if prefix is None else f"{prefix.removeprefix(f'{RUN}-')}{number}"
        assert line.split(",")[:2] == [shown, str(send_time(kind, unit))]


@slowly
@given(kinds=by_time, unit=units)
def test_times_tell_messages_apart(tmp_path: Path, kinds: list[str], unit: str) -> None:
    kinds = [*kinds, "own"]
    end, report, peer = receive(
        tmp_path, kinds, unit, arguments, count=kinds.count("own"), credit_window=3
    )
    check(end, report, kinds)
    assert peer.transferred == len(kinds), "all are accepted and settled"
    sent = [int(line.split(",")[0]) for line in end.lines]
    assert sent == [send_time(kind, unit) for kind in kinds]


@pytest.mark.parametrize("window", [1, 10, 1000])
def test_older_messages_use_no_credit_up(tmp_path: Path, window: int) -> None:
    """Many times the count, and the credit of one window, stand before the run's own."""
    kinds = ["old"] * (window + 500) + ["own"] * 20
    end, report, peer = receive(tmp_path, kinds, "ms", arguments, count=20, credit_window=window)
    check(end, report, kinds)
    assert peer.sent == len(kinds), "no message is asked for beyond the count"


def test_a_duration_ends_among_older_messages(tmp_path: Path) -> None:
    kinds = ["old"] * 100
    end, report, peer = receive(tmp_path, kinds, "ms", arguments, count=0, duration=1)
    # On a busy machine the peer may not have come to send all of them.
    assert peer.sent == len(end.lines) > 0
    check(end, report, kinds[: peer.sent])
    assert report["queue_empty"] is False, "this peer answers no drain"


def test_the_sent_number_counts_own_messages(tmp_path: Path) -> None:
    kinds = ["old", "foreign", "own"] * 30
    with (
        ScriptedPeer(to_send=len(kinds), encode=encoder(kinds, "ms")) as peer,
        controlled(
            tmp_path,
            *arguments_v2("receive", peer.port, count=0, run_start=NOW_MS, run_id=RUN),
        ) as arrow,
    ):
        arrow.say("sent 30")
        end, report = arrow.end()
    check(end, report, kinds)


def test_without_a_start_nothing_is_told_apart(tmp_path: Path) -> None:
    kinds = ["old", "foreign", "own"] * 3
    end, report, _ = receive(tmp_path, kinds, "ms", arguments_v2, count=9, run_start=None)
    assert_clean(end)
    assert (report["received"], report["older"], report["foreign"]) == (9, 0, 0)


@pytest.mark.parametrize(("unit", "theirs"), [("ms", "us"), ("ms", "ns"), ("us", "ns")])
def test_a_message_of_this_run_in_another_unit_is_an_error(
    tmp_path: Path, unit: str, theirs: str
) -> None:
    kinds = ["old", "old", "own"]
    encode = encoder(kinds, theirs)
    with ScriptedPeer(to_send=3, encode=encode) as peer:
        end = run_pyfast(
            *arguments("receive", peer.port, count=3, run_start=NOW_MS, time_unit=unit)
        )
    assert_error(end, "SendTime", "message 3", "another unit")
    assert len(end.lines) == 2


def test_a_first_message_in_a_coarser_unit_is_an_error() -> None:
    with ScriptedPeer(to_send=1, encode=encoder(["own"], "ms")) as peer:
        end = run_pyfast(
            *arguments("receive", peer.port, count=1, run_start=NOW_MS, time_unit="us")
        )
    assert_error(end, "message 1", "another unit")


def test_what_a_run_left_is_older_in_the_next(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        assert_clean(run_pyfast(*arguments("send", server.port, count=5000, time_unit="us")))
        time.sleep(0.002)
        start = int(time.time() * 1000)
        assert_clean(run_pyfast(*arguments("send", server.port, count=200)))
        report = tmp_path / "report.json"
        end = run_pyfast(
            *arguments("receive", server.port, count=200, run_start=start, report_file=report)
        )
    assert_clean(end)
    counts = parsed(report.read_text())
    assert (counts["received"], counts["older"], len(end.lines)) == (200, 5000, 5200)


def test_bodies_of_older_messages_are_not_looked_at(tmp_path: Path) -> None:
    """A stream's receiver verifies bodies of its run only, and shows only their progress."""
    report = tmp_path / "report.json"

    def encode(number: int) -> bytes:
        old = number <= 10
        message: Any = Message(body=(b"y" if old else b"x") * 1000, inferred=True)
        message.properties = {"SendTime": NOW_MS - HOUR_MS if old else NOW_MS + 1}
        encoded: bytes = message.encode()
        return encoded

    with ScriptedPeer(to_send=15, encode=encode) as peer:
        end = run_pyfast(
            *arguments(
                "receive", peer.port, count=5, streaming=1, run_start=NOW_MS, report_file=report
            )
        )
    assert_clean(end)
    counts = parsed(report.read_text())
    assert (counts["received"], counts["older"], counts["bytes"]) == (5, 10, 5000)
    assert sum(line.startswith("F,") for line in end.lines) == 5
    assert len(end.lines) == 20


def test_the_start_is_checked() -> None:
    assert_error(run_pyfast(*arguments("receive", 1, run_start="soon")), "run-start", code=2)
    assert_error(run_pyfast(*arguments("receive", 1, run_start=10**13)), "run-start", code=2)


# A step back leaves the run's clock a minute ahead of the wall clock.
MINUTE_NS = 60 * 10**9


def set_back() -> dict[str, int]:
    """Return what tells an arrow that the wall clock was set back since its run started."""
    base = wall_base() + MINUTE_NS
    return {"clock_base": base, "run_start": int(time.time() * 1000) + MINUTE_NS // 10**6 - 100}


@pytest.mark.parametrize("unit", UNITS_PER_MS)
def test_a_sender_by_a_wall_clock_that_was_set_back_is_of_the_run(
    tmp_path: Path, unit: str
) -> None:
    """Without ids; messages of another implementation carry what the wall clock shows."""
    report = tmp_path / "report.json"
    step = set_back()
    now = int(time.time() * 1000)
    times = [now - HOUR_MS, *range(now, now + 10)]

    def encode(number: int) -> bytes:
        message: Any = Message(body=b"x" * 10, inferred=True)
        message.properties = {"SendTime": times[number - 1] * UNITS_PER_MS[unit]}
        encoded: bytes = message.encode()
        return encoded

    with ScriptedPeer(to_send=len(times), encode=encode) as peer:
        words = arguments(
            "receive", peer.port, count=10, time_unit=unit, report_file=report, **step
        )
        assert_clean(run_pyfast(*words))
    counts = parsed(report.read_text())
    assert (counts["older"], counts["received"]) == (1, 10)


# -- over csp


def send_csp(port: int, count: int, **changes: object) -> None:
    assert_clean(run_pyfast(*arguments_v2("send", port, count=count, scheme="csp", **changes)))


@pytest.mark.parametrize("make", [arguments, arguments_v2])
def test_entries_of_others_over_csp(tmp_path: Path, make: Callable[..., list[str]]) -> None:
    report = tmp_path / "report.json"
    with serving(tmp_path / "store") as port:
        send_csp(port, 30, run_id="before", time_unit="us")
        time.sleep(0.002)
        start = int(time.time() * 1000)
        send_csp(port, 7, run_id="other")
        send_csp(port, 10, run_id=RUN)
        end = run_pyfast(
            *make(
                "receive", port, count=10, scheme="csp", run_id=RUN, run_start=start,
                report_file=report,
            )
        )  # fmt: skip
    assert_clean(end)
    counts = parsed(report.read_text())
    assert (counts["received"], counts["older"], counts["foreign"]) == (10, 30, 7)
    # Without ids a foreign entry's record would be one of ours.
    assert len(end.lines) == (47 if make is arguments_v2 else 40)


def test_older_entries_are_told_by_time_over_csp(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with serving(tmp_path / "store") as port:
        send_csp(port, 30, time_unit="ns")
        time.sleep(0.002)
        start = int(time.time() * 1000)
        send_csp(port, 10)
        end = run_pyfast(
            *arguments("receive", port, count=10, scheme="csp", run_start=start, report_file=report)
        )
    assert_clean(end)
    counts = parsed(report.read_text())
    assert (counts["received"], counts["older"], len(end.lines)) == (10, 30, 40)


def test_a_wall_clock_that_was_set_back_over_csp(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    with serving(tmp_path / "queues") as port:
        send_csp(port, 5, clock_base=wall_base() - HOUR_MS * 10**6)
        step = set_back()
        send_csp(port, 10)
        words = arguments("receive", port, count=10, scheme="csp", report_file=report, **step)
        assert_clean(run_pyfast(*words))
    counts = parsed(report.read_text())
    assert (counts["older"], counts["received"]) == (5, 10)
