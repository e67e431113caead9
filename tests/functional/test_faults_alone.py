"""Faults of processes that end, or do not come back."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from support.processes import free_port, wait_until

from quiver_fast.arrow.amqp.returning import places_of
from quiver_fast.cli.pair import faults
from quiver_fast.cli.pair.fault_text import read_fault
from quiver_fast.errors import QuiverError


@pytest.fixture(name="process")
def a_process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def caused(
    process: subprocess.Popen[bytes], text: str, also: Callable[[Any], object] = lambda _: None
) -> list[str]:
    """Return the problems of a fault of a process, which nobody starts again."""
    arrow: Any = SimpleNamespace(
        options=SimpleNamespace(failover=None),
        url=SimpleNamespace(host="127.0.0.1"),
        port=free_port(),
        clock_base=0,
    )
    signals: Any = None
    one = faults.Faults([read_fault(text)], arrow, None, str(process.pid), signals)
    one.begin()
    (found,) = one.sections()["faults"]
    also(found)
    wait_until(lambda: found["until"] or found["problem"], "the fault is over")
    one.end()
    return one.problems()


def test_a_server_that_nobody_starts_is_awaited_for_a_time(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "_PATIENCE", 0.2)
    (problem,) = caused(process, "0s kill 100ms")
    assert problem.startswith("the fault '0s kill 100ms' did not end: 127.0.0.1:")
    assert problem.endswith(" did not come back")


def test_a_stopped_process_that_is_killed_is_over_at_once(
    process: subprocess.Popen[bytes],
) -> None:
    def kill(found: dict[str, Any]) -> None:
        wait_until(lambda: found["at"], "it is stopped")
        process.kill()

    begin = time.monotonic()
    assert caused(process, "0s stop 500ms", kill) == []
    assert time.monotonic() - begin < 20


def test_a_process_that_ended_is_not_stopped(process: subprocess.Popen[bytes]) -> None:
    one = faults._Processes([process.pid])
    one.send(signal.SIGKILL, one.gone)
    with pytest.raises(QuiverError, match=f"process {process.pid} has ended"):
        one.send(signal.SIGSTOP, one.stopped)
    one.close()


def test_places_keep_their_names_behind_a_relay() -> None:
    named, via = [("one", 1), ("other", 2)], [("127.0.0.1", 3), ("127.0.0.1", 4)]
    first, second = places_of(named, via)
    assert first == ("127.0.0.1", 3, "one", "one:1")
    assert second == ("127.0.0.1", 4, "other", "other:2")
    assert places_of(named) == [("one", 1, "one", "one:1"), ("other", 2, "other", "other:2")]
