"""How rates, counts and queues are spread over many ends."""

from __future__ import annotations

import argparse
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quiver_fast.cli.arrow.plan import contract_arguments
from quiver_fast.cli.pair.command import make_parser
from quiver_fast.cli.pair.ends_plan import (
    FIRST_IDS,
    EndsPlans,
    halves_of,
    has_ends,
    part_of,
    parts_of,
    share_of,
    usable_cpus,
)
from quiver_fast.errors import UsageError
from quiver_fast.rate_steps import parse_rate_steps


def parsed(*words: str) -> argparse.Namespace:
    return make_parser().parse_args(words)


def plans(*words: str) -> EndsPlans:
    """Plan ends that are a process each."""
    return EndsPlans(parsed(*words, "--processes", "1000"))


def shared_plans(processes: int, *words: str) -> EndsPlans:
    return EndsPlans(parsed(*words, "--processes", str(processes)))


@given(total=st.integers(0, 10**12), ends=st.integers(1, 1000))
def test_parts_add_up_and_differ_by_one_at_most(total: int, ends: int) -> None:
    parts = [part_of(total, number, ends) for number in range(ends)]
    assert sum(parts) == total
    assert max(parts) - min(parts) <= 1


def test_only_their_options_ask_for_many_ends() -> None:
    assert not has_ends(parsed("//h/q"))
    for flag in ("--senders", "--receivers", "--queues", "--processes"):
        assert has_ends(parsed("//h/q", flag, "1"))


def test_rate_and_count_are_of_all_and_credit_is_of_each() -> None:
    made = plans("//h/q", "--senders", "3", "--receivers", "2", "--rate", "1000", "--count", "10")
    senders = [made.end("send", number) for number in range(3)]
    assert [one.options.rate for one in senders] == [334, 333, 333]
    assert [one.options.count for one in senders] == [4, 3, 3]
    receivers = [made.end("receive", number) for number in range(2)]
    # We tell them when to end.
    assert [one.options.count for one in receivers] == [0, 0]
    assert {one.options.credit_window for one in receivers} == {1000}
    assert [one.first_id for one in senders] == [1, FIRST_IDS + 1, 2 * FIRST_IDS + 1]
    assert {one.run_id for one in (*senders, *receivers)} == {made.run_id}
    assert len({one.id for one in (*senders, *receivers)}) == 5


@pytest.mark.parametrize("rate", ["1", "2", "0.4", "100000.5", "999999.999999999"])
def test_rates_below_one_for_each_add_up(rate: str) -> None:
    made = plans("//h/q", "--senders", "7", "--rate", rate, "--timeout", "1h")
    words = [word for number in range(7) for word in contract_arguments(made.end("send", number))]
    shares = [Fraction(word.removeprefix("rate=")) for word in words if word.startswith("rate=")]
    assert sum(shares) == Fraction(rate)
    assert max(shares) - min(shares) <= Fraction(1, 10**9)


@pytest.mark.parametrize("text", ["10:2s,7..21:3s", "1:2s,2..21:3s", "0.5..0.7:9s"])
def test_steps_add_up(text: str) -> None:
    made = plans("//h/q", "--senders", "3", "--rate-steps", text, "--timeout", "1h")
    steps = [parse_rate_steps(made.end("send", n).options.rate_steps or "") for n in range(3)]
    for asked, parts in zip(parse_rate_steps(text), zip(*steps, strict=True), strict=True):
        assert sum(part.first for part in parts) == asked.first
        assert sum(part.last for part in parts) == asked.last
        assert {part.seconds for part in parts} == {asked.seconds}


@pytest.mark.parametrize(
    ("url", "queues", "expected"),
    [
        ("//h/q", 1, ["q", "q", "q", "q"]),
        ("//h/q", 2, ["q-0", "q-1", "q-0", "q-1"]),
        ("//h/q-%d", 1, ["q-0"] * 4),
        ("//h/jobs/%d/in", 4, ["jobs/0/in", "jobs/1/in", "jobs/2/in", "jobs/3/in"]),
    ],
)
def test_queues_take_turns(url: str, queues: int, expected: list[str]) -> None:
    made = plans(url, "--senders", "4", "--receivers", "4", "--queues", str(queues))
    for operation in ("send", "receive"):
        assert [made.end(operation, number).url.path for number in range(4)] == expected


def test_a_unique_queue_is_one_for_each() -> None:
    made = plans("//h/q", "--senders", "2", "--receivers", "2", "--queues", "2", "--unique-queue")
    paths = [plan.url.path for plan in made.queue_plans()]
    assert paths == [made.end("send", number).url.path for number in range(2)]
    assert len({*paths}) == 2
    made.learn_path(1, "/queues/other")
    assert made.end("receive", 1).url.path == "/queues/other"


def test_peers_are_pairs() -> None:
    made = plans("--senders", "3")
    assert (made.senders, made.receivers, made.queues) == (3, 3, 3)
    made = plans("--receivers", "2", "--count", "5")
    assert (made.senders, made.receivers) == (2, 2)
    assert [made.end("receive", number, 1).options.count for number in range(2)] == [3, 2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--senders", "2", "--receivers", "3"], "as many --senders as --receivers"),
        (["--queues", "2"], "--queues needs a URL"),
        (["//h/q", "--senders", "2", "--queues", "3"], "--queues 3 are more than --senders 2"),
        (["//h/q", "--senders", "3", "--queues", "2"], "more than --receivers 1"),
        (["//h/q", "--senders", "4", "--count", "3"], "--count 3 is less than 1"),
        (["//h/q", "--senders", "40", "--rate", "2"], "the sender 0 sends one each 20 s"),
        (["csp://h/q", "--receivers", "2"], "a csp URL does not go with"),
        (["--senders", "2", "--purge"], "--purge needs a URL"),
        (["//h/q", "--senders", "2", "--warmup", "1"], "--warmup does not go with"),
    ],
)
def test_options_that_cannot_be_spread_are_refused(words: list[str], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        plans(*words)
    assert message in str(caught.value)


@given(total=st.integers(0, 10**12), ends=st.integers(1, 1000), processes=st.integers(1, 50))
def test_parts_of_processes_cover_all_ends_and_shares_add_up(
    total: int, ends: int, processes: int
) -> None:
    parts = parts_of(ends, processes, 1)
    covered = [number for part in parts for number in range(part.first, part.first + part.count)]
    assert covered == list(range(ends))
    assert len(parts) == min(ends, processes)
    assert max(part.count for part in parts) - min(part.count for part in parts) <= 1
    shares = [share_of(total, part, ends) for part in parts]
    assert sum(shares) == total
    # However a process spreads its share over its ends, each has the whole part of it, or one more.
    for part, share in zip(parts, shares, strict=True):
        assert {share // part.count, -(-share // part.count)} <= {total // ends, -(-total // ends)}


def test_processes_have_neighbours_and_the_counts_of_their_ends() -> None:
    made = shared_plans(
        4, "//h/q", "--senders", "5", "--receivers", "4", "--queues", "2", "--count", "11"
    )
    senders = [made.end("send", number) for number in range(made.process_count("send"))]
    receivers = [made.end("receive", number) for number in range(made.process_count("receive"))]
    assert [one.part and (one.part.first, one.part.count) for one in senders] == [(0, 2), (2, 3)]
    assert [one.part and (one.part.first, one.part.count) for one in receivers] == [(0, 2), (2, 2)]
    # The first of five senders has three messages, and the others have two each.
    assert [one.options.count for one in senders] == [5, 6]
    assert {one.url.path for one in (*senders, *receivers)} == {"q-%d"}
    assert [one.title for one in senders] == ["senders 0 to 1", "senders 2 to 4"]
    words = contract_arguments(senders[1])
    assert {"connections=3", "first-end=2", "queues=2", "path=q-%d"} <= {*words}


def test_a_rate_below_the_number_of_senders_is_shared() -> None:
    made = shared_plans(4, "//h/q", "--senders", "1000", "--receivers", "9", "--rate", "7")
    assert [made.end("send", number).options.rate for number in range(2)] == [3, 4]


def test_by_default_there_is_a_process_for_each_cpu() -> None:
    made = EndsPlans(parsed("//h/q", "--senders", "5000", "--receivers", "5000"))
    senders, receivers = (made.process_count(side) for side in ("send", "receive"))
    assert senders + receivers == max(2, usable_cpus())
    assert 0 <= receivers - senders <= 1


@pytest.mark.parametrize(
    ("processes", "senders", "receivers", "alike", "expected"),
    [
        (1, 9, 9, False, (1, 1)),
        (3, 9, 9, False, (1, 2)),
        (5, 2, 3, False, (2, 3)),
        (8, 1, 9, False, (1, 7)),
        (8, 9, 1, False, (7, 1)),
        (99, 2, 3, False, (2, 3)),
        (5, 9, 9, True, (2, 2)),
    ],
)
def test_each_side_has_half_of_the_processes(
    processes: int, senders: int, receivers: int, alike: bool, expected: tuple[int, int]
) -> None:
    assert halves_of(processes, senders, receivers, alike=alike) == expected


def test_transactions_take_a_process_each() -> None:
    words = ("//h/q", "--senders", "3", "--transaction-size", "5")
    assert EndsPlans(parsed(*words)).process_count("send") == 3
    with pytest.raises(UsageError, match="--processes does not go with --transaction-size"):
        shared_plans(2, *words)
    with pytest.raises(UsageError, match="2000 processes of one side"):
        EndsPlans(parsed("//h/q", "--senders", "2000", "--streaming"))
