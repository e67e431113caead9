"""A receiver with transactions and a backlog: batches, the end of a run, and its pace."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast, run_pyfast
from support.control import controlled
from support.judgement import assert_clean, assert_error
from support.measured import Figure
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


SIZES_AND_WINDOWS = pytest.mark.parametrize(("size", "window"), [(10, 1000), (10, 10), (100, 1000)])


@SIZES_AND_WINDOWS
def test_a_servers_backlog_is_committed(tmp_path: Path, size: int, window: int) -> None:
    receive_backlog(tmp_path, 50, size, window)


@pytest.mark.measured
@SIZES_AND_WINDOWS
def test_no_batch_waits_for_a_timer(tmp_path: Path, size: int, window: int, figure: Figure) -> None:
    """A timer's tick for each batch was 50 ms: 500 batches of a backlog took 25 s."""
    seconds = receive_backlog(tmp_path, 500, size, window)
    figure("500 batches", seconds, at_most=12, unit="s")


def receive_backlog(directory: Path, batches: int, size: int, window: int) -> float:
    """Receive all that a server has, in transactions; return the seconds that it took."""
    count = batches * size
    with running_server(directory) as server:
        assert_clean(run_pyfast(*arguments("send", server.port, count=count)))
        words = arguments(
            "receive", server.port, count=count, transaction_size=size, credit_window=window
        )
        end = run_pyfast(*words)
        assert_clean(end)
        assert len(end.lines) == count
        # Every one of them is committed: none is left.
        report = directory / "report.json"
        assert_clean(
            run_pyfast(*arguments("receive", server.port, count=0, purge=1, report_file=report))
        )
    assert json.loads(report.read_text())["purged"] == 0
    times = [int(line.split(",")[1]) for line in end.lines]
    return (times[-1] - times[0]) / 1000
