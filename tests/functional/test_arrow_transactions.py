"""A receiver with transactions and a backlog: batches, the end of a run, and its pace."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast, run_pyfast
from support.control import controlled
from support.judgement import assert_clean, assert_error
from support.processes import Running, wait_until
from support.scripted_peer import Coordinator
from support.server import running_server


@pytest.mark.parametrize("size", [1, 7, 10, 100])
@pytest.mark.parametrize("window", [1, 10, 1000])
def test_everything_of_a_backlog_is_committed(size: int, window: int) -> None:
    with Coordinator(to_send=250) as peer:
        words = arguments(
            "receive", peer.port, count=250, transaction_size=size, credit_window=window
        )
        end = run_pyfast(*words)
    assert_clean(end)
    assert len(end.lines) == 250
    assert peer.errors == []
    sizes = [done for done, failed in peer.discharged if not failed]
    assert sum(sizes) == 250
    assert set(sizes[:-1]) <= {size}


def test_a_run_that_ends_by_its_duration_enlists_nothing_without_a_transaction() -> None:
    with Coordinator() as peer:
        words = arguments("receive", peer.port, count=0, duration=1, transaction_size=10)
        end = run_pyfast(*words)
    assert_clean(end)
    assert peer.errors == []
    assert sum(done for done, _ in peer.discharged) == len(end.lines) > 0


@pytest.mark.parametrize("size", [3, 10])
def test_a_run_that_is_stopped_commits_what_it_recorded(tmp_path: Path, size: int) -> None:
    with (
        Coordinator() as peer,
        controlled(
            tmp_path, *arguments("receive", peer.port, count=0, transaction_size=size)
        ) as arrow,
    ):
        arrow.wait_ready()
        wait_until(lambda: arrow.records() > 0, "the first records")
        arrow.say("stop")
        end, report = arrow.end()
    assert_clean(end)
    assert peer.errors == []
    assert sum(done for done, _ in peer.discharged) == len(end.lines) == report["received"]
    assert report["transactions"] == len(peer.discharged)


def test_a_signal_ends_a_run_with_transactions() -> None:
    with Coordinator() as peer:
        words = arguments("receive", peer.port, count=0, transaction_size=10)
        with Running(pyfast(*words)) as arrow:
            wait_until(lambda: bool(arrow.stdout_so_far()), "the first records")
            arrow.send_signal(signal.SIGTERM)
            end = arrow.wait()
    assert_error(end, "SIGTERM", code=128 + signal.SIGTERM)
    assert peer.errors == []


@pytest.mark.parametrize(("size", "window"), [(10, 1000), (10, 10), (100, 1000)])
def test_no_batch_waits_for_a_timer(tmp_path: Path, size: int, window: int) -> None:
    """A timer's tick for each batch was 50 ms: 500 batches of a backlog took 25 s."""
    with running_server(tmp_path) as server:
        assert_clean(run_pyfast(*arguments("send", server.port, count=500 * size)))
        words = arguments(
            "receive", server.port, count=500 * size, transaction_size=size, credit_window=window
        )
        end = run_pyfast(*words)
        assert_clean(end)
        assert len(end.lines) == 500 * size
        # Every one of them is committed: none is left.
        rest = run_pyfast(*arguments("receive", server.port, count=0, duration=1))
    assert_clean(rest)
    assert rest.lines == []
    times = [int(line.split(",")[1]) for line in end.lines]
    assert times[-1] - times[0] < 12_000
