"""Receivers that each get every message: each one's account against dictionaries."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ends_records import START, Ends, Receipt, loaded
from test_analysis_ends import reordered_of
from test_each_end import members_of

from quiver_fast.analysis.figures.each_end import EndFacts
from quiver_fast.analysis.figures.fan_out import fan_out_section
from quiver_fast.analysis.figures.run_data import RunData
from quiver_fast.analysis.sections.ends import end_sections
from quiver_fast.analysis.show.text import section_text
from quiver_fast.cli.arrow.verdict import pair_warnings
from quiver_fast.cli.pair.ends_run import shared_instead
from quiver_fast.management.addresses import exchange_of

SECOND = 10**6


def check(made: Ends, run: RunData, strangers: int) -> None:
    """Compare a run with counts of its records, of each receiver and of all."""
    sends = Counter(key for key, _ in chain(*made.sent))
    each = [Counter(one.id for one in lines if one.id in sends) for lines in made.received]
    rows = members_of(run, "receiver")
    assert [row["delivery"]["sent"] for row in rows] == [sends.total()] * len(each)
    assert [row["delivery"]["received"] for row in rows] == [got.total() for got in each]
    unreceived = [(sends - got).total() for got in each]
    assert [row["delivery"]["unreceived"] for row in rows] == unreceived
    duplicate = [(got - sends).total() for got in each]
    assert [row["delivery"]["duplicate"] for row in rows] == duplicate
    reordered = [reordered_of([one for one in lines if one.id in sends]) for lines in made.received]
    assert [row["delivery"]["reordered"] for row in rows] == reordered
    assert run.delivery is not None
    assert run.delivery["copies"] == sends.total() * len(each)
    assert run.delivery["foreign"] == strangers
    sums = {"unreceived": unreceived, "duplicate": duplicate, "reordered": reordered}
    assert {key: run.delivery[key] for key in sums} == {k: sum(v) for k, v in sums.items()}
    assert run.fan_out is not None
    assert run.fan_out["lacking"] == sum(map(bool, unreceived))
    of_senders = [row["delivery"] for row in members_of(run, "sender")]
    for sent, found in zip(made.sent, of_senders, strict=True):
        keys = {key for key, _ in sent}
        assert found["received"] == sum(len(keys & got.keys()) for got in each)
        assert found["unreceived"] == len(keys) * len(each) - found["received"]


@given(
    seed=st.integers(0, 2**32), senders=st.integers(1, 3), receivers=st.integers(1, 5),
    messages=st.integers(1, 60), members=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strangers=st.integers(0, 3),
)  # fmt: skip
def test_each_receiver_is_compared_with_all_sends(
    seed: int, senders: int, receivers: int, messages: int, members: tuple[int, int], strangers: int
) -> None:
    made = Ends(seed, senders, receivers, messages, fan_out=True)
    for number in range(strangers):
        lines = made.received[number % receivers]
        lines.insert(len(lines) // 2, Receipt(7 * 10**17 + number, START, START + 5))
    with tempfile.TemporaryDirectory() as folder:
        run = made.write_processes(Path(folder) / "run", *members)
    if all(made.received):
        check(made, run, strangers)


def test_receivers_that_share_the_messages_are_told(tmp_path: Path) -> None:
    made = Ends(1, 1, 2, 40, fan_out=True)
    lines = [Receipt(key, time, time + 9) for key, time in made.sent[0]]
    made.received = [lines[::2], lines[1::2]]
    run = made.write_processes(tmp_path / "run", 1, 1)
    (problem,) = shared_instead(run)
    assert problem.startswith("--fan-out: each message came once, not to each of 2 receivers")
    made.received = [lines, lines[1::2]]
    assert shared_instead(made.write_processes(tmp_path / "other", 1, 1)) == []
    assert shared_instead(None) == []


def test_the_end_of_the_sending_tells_who_is_behind(tmp_path: Path) -> None:
    made = Ends(1, 1, 3, 1000, fan_out=True)
    lines = [Receipt(key, time, time + 9) for key, time in made.sent[0]]
    late = [one._replace(received=one.received + SECOND) for one in lines]
    made.received = [lines, lines[:900] + late[900:], lines[:-1]]
    made.write_processes(tmp_path / "run", 1, 2)
    for path in (tmp_path / "run").glob("*-summary.json"):
        document = json.loads(path.read_text()) | {"complete": True}
        document["config"]["duration"] = 0.05
        path.write_text(json.dumps(document))
    run = loaded(tmp_path / "run")
    assert run.fan_out == {
        "receivers": 3,
        "lacking": 1,
        "skew": {"seconds": 1.00004, "messages": 100},
        "each": [
            {"number": 0, "seconds_behind": 4e-05, "messages_behind": 0},
            {"number": 1, "seconds_behind": 1.00004, "messages_behind": 100},
            {"number": 2, "seconds_behind": 0, "messages_behind": 1},
        ],
    }
    document: dict[str, Any] = {
        "ends": run.ends, "fan_out": run.fan_out, "delivery": run.delivery, "sender": run.sender,
        "receiver": run.receiver, "clock_step": None,
        "queue_growth": run.sections["queue_growth"],
    }  # fmt: skip
    section = next(one for one in end_sections(document) if one.title == "FAN-OUT")
    text = section_text(section)
    assert "Copies due" in text
    assert "receiver 1     1,000           0          0          0" in text
    assert any(line.startswith("1 of 3,000 copies were not received") for line in
               pair_warnings(document))  # fmt: skip


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("exchanges/amq.fanout", ("amq.fanout", "")),
        ("/exchanges/amq.topic/a.b%2Fc", ("amq.topic", "a.b/c")),
        ("/queues/q0", None),
        ("topic", None),
    ],
)
def test_the_address_of_an_exchange(path: str, found: tuple[str, str] | None) -> None:
    assert exchange_of(path) == found


def test_receivers_of_which_nothing_is_known() -> None:
    nothing = {"number": 0, "seconds_behind": None, "messages_behind": None}
    assert fan_out_section([EndFacts(0, None)], None, "us", ended=True) == {
        "receivers": 1,
        "lacking": None,
        "skew": {"seconds": None, "messages": None},
        "each": [nothing],
    }
