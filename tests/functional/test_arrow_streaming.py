"""The arrow's streams: bodies of any size in constant memory, faults in the middle of one."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import pytest
from support.arrow_streams import (
    ENDLESS,
    Recorded,
    cpu_seconds,
    peak_bytes,
    rearm_peak,
    running_pair,
)
from support.arrows import Pair, arguments, arguments_v2, pyfast, run_pair, run_pyfast
from support.certificates import Certificates
from support.control import controlled
from support.documents import parsed
from support.judgement import assert_clean, assert_error
from support.measured import Figure
from support.processes import Running, free_port, wait_until
from support.server import running_server

MIB = 1 << 20
SIZES = [0, 1, 65_535, 65_536, 65_537, 1_000_000]


def check_streams(pair: Pair, count: int, body_size: int) -> None:
    """Both ends succeeded and tell of ``count`` whole bodies."""
    for end in (pair.sender, pair.receiver):
        assert_clean(end)
        told = Recorded.by(end)
        assert (told.whole, told.body_bytes) == (count, count * body_size)
        assert all(sent <= first for sent, first in told.first_byte)
        assert len([line for line in told.transfers if line[0] not in "Ss"]) == count


def stream(count: int, body_size: int, **options: object) -> Pair:
    pair = run_pair(
        "pyfast", "pyfast", count=count, body_size=body_size, streaming=1, timeout=60, **options
    )
    check_streams(pair, count, body_size)
    return pair


@pytest.mark.parametrize("body_size", SIZES)
def test_bodies_of_every_size(body_size: int) -> None:
    stream(20, body_size)


def test_a_hundred_megabytes() -> None:
    stream(3, 100_000_000)


@pytest.mark.parametrize("server", ["send", "receive"])
@pytest.mark.parametrize("active", ["client", "server"])
def test_whoever_listens_and_whoever_attaches(server: str, active: str) -> None:
    stream(5, 300_000, server=server, active=active)


def test_tls(certificates: Certificates) -> None:
    keys = certificates.server.keys()
    pair = run_pair(
        "pyfast",
        "pyfast",
        count=5,
        body_size=3_000_000,
        streaming=1,
        scheme="amqps",
        host="localhost",
        sender_options={"trust_store": certificates.authority},
        receiver_options=keys,
    )
    check_streams(pair, 5, 3_000_000)


@pytest.mark.parametrize(
    "options",
    [
        {"sender_options": {"presettled": 1}},
        {"set_message_id": 1, "record_format": "v1"},
        {"durable": 1},
        {"credit_window": 1},
        {"max_frame_size": 4096},
        {"receiver_options": {"max_frame_size": 512}},
    ],
    ids=str,
)
def test_other_modes(options: dict[str, object]) -> None:
    stream(10, 200_000, **options)


def test_settlements_are_recorded_beside() -> None:
    pair = run_pair(
        "pyfast",
        "pyfast",
        contract=arguments_v2,
        count=10,
        body_size=200_000,
        streaming=1,
        sender_options={"settlement": 1},
    )
    check_streams(pair, 10, 200_000)
    assert len([line for line in pair.sender.lines if line[0] in "Ss"]) == 10


def test_a_duration_ends_with_a_whole_message() -> None:
    pair = run_pair("pyfast", "pyfast", count=0, duration=1, body_size=20_000_000, streaming=1)
    count = len(Recorded.by(pair.receiver).transfers)
    assert count > 0
    check_streams(pair, count, 20_000_000)


def test_a_message_that_outlasts_the_duration_is_finished() -> None:
    """Beyond 4 GiB."""
    pair = run_pair("pyfast", "pyfast", count=0, duration=1, body_size=5_000_000_000, streaming=1,
                    timeout=120)  # fmt: skip
    count = len(Recorded.by(pair.receiver).transfers)
    assert count > 0
    check_streams(pair, count, 5_000_000_000)


@pytest.mark.slow
def test_a_receiver_that_does_not_stream_reads_large_bodies() -> None:
    pair = run_pair("pyfast", "pyfast", count=1, body_size=4_000_000_000, timeout=120)
    pair.check(1)


@pytest.mark.measured
@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
@pytest.mark.parametrize("streaming", [0, 1])
def test_memory_is_flat_whatever_the_body(streaming: int, count: int, figure: Figure) -> None:
    """Beyond 4 GiB with streaming; a receiver that does not stream reads large bodies too."""
    body_size = 5_000_000_000 if streaming else 4_000_000_000
    with running_pair(count=count, body_size=body_size, streaming=streaming) as (sender, receiver):
        processes = [end.process.pid for end in (sender, receiver)]
        # By its own clock: a busy machine starts them at any time.
        wait_until(lambda: all(cpu_seconds(one) > 0.15 for one in processes), "both transfer")
        for one in processes:
            rearm_peak(one)
        before = [peak_bytes(one) for one in processes]
        peaks = before
        while sender.process.poll() is None and receiver.process.poll() is None:
            # Between the end of a process and its reaping there is no figure.
            with contextlib.suppress(KeyError, OSError):
                peaks = [peak_bytes(one) for one in processes]
            time.sleep(0.01)
        ends = [sender.wait(60), receiver.wait(60)]
    for role, end, first, peak in zip(("sender", "receiver"), ends, before, peaks, strict=True):
        assert_clean(end)
        figure(f"memory of the {role}", peak, at_most=40_000_000, unit="B")
        figure(f"growth of the {role}", peak - first, at_most=MIB, unit="B")
        assert not streaming or Recorded.by(end).body_bytes == count * body_size


def test_a_receiver_that_does_not_stream_takes_streams() -> None:
    pair = run_pair(
        "pyfast", "pyfast", count=3, body_size=50_000_000, sender_options={"streaming": 1}
    )
    pair_of_records = (Recorded.by(pair.sender), pair.receiver.lines)
    assert (pair_of_records[0].whole, len(pair_of_records[1])) == (3, 3)
    assert_clean(pair.receiver)


def test_large_bodies_need_streaming() -> None:
    end = run_pyfast(*arguments("send", free_port(), body_size=2**32))
    assert_error(end, "body-size", "needs streaming", code=2)


@pytest.mark.parametrize("body_size", [100, 1_000_000, 30_000_000])
@pytest.mark.parametrize("streaming", [0, 1])
def test_through_our_server(body_size: int, streaming: int, tmp_path: Path) -> None:
    """Whether the receiver takes streams on links of their own, or on its one link."""
    with running_server(tmp_path) as server:
        both = {"count": 20, "body_size": body_size}
        receiving = arguments("receive", server.port, streaming=streaming, **both)
        sending = arguments("send", server.port, streaming=1, **both)
        with controlled(tmp_path, *receiving) as receiver:
            # A stream without a consumer is released.
            receiver.wait_ready()
            with Running(pyfast(*sending)) as sender:
                ends = [sender.wait(60), receiver.running.wait(60)]
    for end in ends:
        assert_clean(end)
        assert len(Recorded.by(end).transfers) == 20
    if streaming:
        assert Recorded.by(ends[1]).body_bytes == 20 * body_size


def test_transactions_of_large_messages(tmp_path: Path) -> None:
    large_messages_in_transactions(tmp_path, 12)


@pytest.mark.measured
def test_transactions_do_not_pile_up_large_messages(tmp_path: Path, figure: Figure) -> None:
    """While one is discharged nothing is read: the session's window bounds the waiting frames."""
    peak = large_messages_in_transactions(tmp_path, 60)
    figure("memory of the receiver", peak, at_least=10 * MIB, at_most=40_000_000, unit="B")


def large_messages_in_transactions(directory: Path, count: int) -> int:
    """Receive large messages in transactions; return the most memory that it took."""
    with running_server(directory) as server:
        both = {"count": count, "body_size": 3_000_000}
        assert_clean(run_pyfast(*arguments("send", server.port, **both)))
        words = arguments("receive", server.port, transaction_size=3, **both)
        with Running(pyfast(*words)) as receiver:
            peak = 0
            while receiver.process.poll() is None:
                with contextlib.suppress(KeyError, OSError):
                    peak = peak_bytes(receiver.process.pid)
                time.sleep(0.01)
            end = receiver.wait()
    assert_clean(end)
    assert len(end.lines) == count
    return peak


# -- faults in the middle of a body


def in_the_middle(end: Running) -> None:
    wait_until(lambda: "B," in end.stdout_so_far(), "a part of the body is recorded")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_aborts_the_body(number: signal.Signals, code: int, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    port = free_port()
    both = {"count": 1, "body_size": ENDLESS, "streaming": 1}
    listening = arguments("receive", port, connection_mode="server", channel_mode="passive", **both)
    with Running(pyfast(*listening)) as receiver:
        receiver.wait_until_listening(port)
        with Running(pyfast(*arguments("send", port, report_file=report, **both))) as sender:
            in_the_middle(sender)
            sender.send_signal(number)
            ended = sender.wait()
        assert_error(receiver.wait(), "1 deliveries were aborted", within=60)
    assert ended.code == code
    assert "Traceback" not in ended.stderr
    told = parsed(report.read_text())
    assert (told["complete"], told["sent"], told["aborted"]) == (False, 1, 1)
    assert told["bytes"] >= Recorded.by(ended).body_bytes > 0


def test_a_signal_ends_the_receiver_in_the_middle() -> None:
    with running_pair(count=1, body_size=ENDLESS, streaming=1) as (sender, receiver):
        in_the_middle(receiver)
        receiver.send_signal(signal.SIGTERM)
        ended = receiver.wait()
        assert_error(sender.wait(), "closed", within=60)
    assert ended.code == 143
    told = Recorded.by(ended)
    assert (told.whole, told.transfers) == (0, [])
    assert told.body_bytes > 0


def test_the_death_of_the_sender_fails_the_receiver() -> None:
    with running_pair(count=1, body_size=ENDLESS, streaming=1) as (sender, receiver):
        in_the_middle(receiver)
        os.kill(sender.process.pid, signal.SIGKILL)
        end = receiver.wait()
    assert_error(end, "connection", within=60)
    assert Recorded.by(end).transfers == []


def test_the_death_of_the_receiver_fails_the_sender() -> None:
    with running_pair(count=1, body_size=ENDLESS, streaming=1) as (sender, receiver):
        in_the_middle(sender)
        os.kill(receiver.process.pid, signal.SIGKILL)
        assert_error(sender.wait(), "connection", within=60)
