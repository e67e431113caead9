"""The loop over many ends, both sides of it in threads of one process."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support.measured import Figure

from quiver_fast.arrow import main as arrow
from quiver_fast.arrow.amqp.ends import Ends
from quiver_fast.arrow.contract import ArrowConfig, parse
from quiver_fast.arrow.run.control import Control
from quiver_fast.arrow.run.course import Limits
from quiver_fast.errors import PeerError
from quiver_fast.rate_steps import schedule_of
from quiver_fast.records.parser import read_transfers
from quiver_fast.records.writer import RecordWriter
from quiver_fast.sockets import free_port
from quiver_fast.wall_clock import wall_base

PATIENCE = 60


def config_of(operation: str, port: int, *words: str) -> ArrowConfig:
    modes = {"send": ("client", "active"), "receive": ("server", "passive")}
    connection, channel = modes[operation]
    return parse([
        f"operation={operation}", f"connection-mode={connection}", f"channel-mode={channel}",
        "host=127.0.0.1", f"port={port}", "path=q", *words,
    ])  # fmt: skip


class Side:
    """The ends of one side, in a thread."""

    def __init__(self, folder: Path, config: ArrowConfig) -> None:
        self.path = folder / config.operation
        self.error: BaseException | None = None
        self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self._writer = RecordWriter(self._fd)
        limits = Limits(
            count=config.count, duration=config.duration, control=Control(), run_start=0,
            clock_base=wall_base(), schedule=schedule_of(config.rate, config.rate_steps),
        )  # fmt: skip
        self.ends: Ends = arrow.make_ends(config, self._writer, limits)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            arrow.run_ends(self.ends)
        except BaseException as error:
            self.error = error
        finally:
            self._writer.flush_now()
            os.close(self._fd)

    def end(self) -> None:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        if self.error is not None:
            raise self.error


def listens_on(port: int) -> bool:
    sockets = psutil.Process().net_connections("tcp")
    return any(each.status == psutil.CONN_LISTEN and each.laddr.port == port for each in sockets)


def both(folder: Path, *words: str) -> tuple[Side, Side]:
    port = free_port("127.0.0.1")
    receiver = Side(folder, config_of("receive", port, *words))
    while receiver.thread.is_alive() and not listens_on(port):
        time.sleep(0.001)
    sender = Side(folder, config_of("send", port, *words))
    sender.end()
    receiver.end()
    return sender, receiver


@pytest.mark.parametrize("words", [(), ("record-format=v2",), ("record-format=v2", "settlement=1")])
@pytest.mark.parametrize(("connections", "links"), [(1, 1), (1, 6), (6, 1), (5, 3)])
def test_all_that_was_sent_is_received(
    tmp_path: Path, connections: int, links: int, words: tuple[str, ...]
) -> None:
    shape = (f"connections={connections}", f"links={links}", "count=4001", "credit-window=7")
    sender, receiver = both(tmp_path, *shape, "first-end=2", *words)
    sending, receiving = sender.ends.account(), receiver.ends.account()
    assert sending.counts == tuple(
        4001 // (connections * links) + (number < 4001 % (connections * links))
        for number in range(connections * links)
    )
    assert sorted(receiving.counts) == sorted(sending.counts)
    assert (sending.accepted, receiving.received) == (4001, 4001)
    sent, received = read_transfers(sender.path), read_transfers(receiver.path)
    assert (len(sent.sent), len(received.sent)) == (4001, 4001)
    if words:
        assert sent.ids is not None
        assert received.ids is not None
        assert sorted(sent.ids.tolist()) == sorted(received.ids.tolist())
        ids = sent.ids.tolist()
        assert len({*ids}) == 4001
        numbers = range(2, 2 + connections * links)
        assert {number // 10**13 for number in ids} == {*numbers}
    if "settlement=1" in words:
        assert sent.settled_ids is not None
        assert sorted(sent.settled_ids.tolist()) == sorted(sent.ids.tolist())


@pytest.mark.parametrize("size", [0, 5_000, 300_000])
def test_bodies_of_any_size(tmp_path: Path, size: int) -> None:
    sender, _ = both(tmp_path, "connections=3", "links=2", "count=60", f"body-size={size}")
    assert sender.ends.account().counts == (10,) * 6


def test_a_rate_below_the_number_of_ends_is_kept(tmp_path: Path) -> None:
    sender, receiver = both(tmp_path, "connections=10", "links=10", "rate=80", "count=100")
    assert sender.ends.account().counts == receiver.ends.account().counts == (1,) * 100
    times = read_transfers(sender.path).sent
    # One each 12.5 ms, to whichever end.
    assert {*(times[1:] - times[:-1]).tolist()} <= {12, 13}


def test_one_of_several_that_is_refused_is_named(tmp_path: Path) -> None:
    port = free_port("127.0.0.1")
    side = Side(tmp_path, config_of("send", port, "connections=4"))
    with pytest.raises(PeerError, match="cannot connect to"):
        side.end()


@pytest.mark.measured
def test_what_waits_has_no_buffers(tmp_path: Path, figure: Figure) -> None:
    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    grown: list[int] = []
    measure: Callable[[], None] = lambda: grown.append(resident())  # noqa: E731
    measure()
    both(tmp_path, "connections=200", "links=5", "rate=100", "duration=1")
    measure()
    # Both sides of 1,000 links. With a buffer of 64 KiB each they would have 125 MiB.
    figure("bytes of 1,000 links", grown[1] - grown[0], at_most=80 << 20, unit="B")
