"""The arrow as a process: signals, its output's end, time, the report, stray connections."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.arrows import arguments, pyfast, run_at, run_pair, run_pyfast
from support.documents import parsed
from support.judgement import assert_clean, assert_error
from support.measured import Figure
from support.processes import Finished, Running, free_port, run, wait_until
from support.scripted_peer import Event, LeavesAfter, ScriptedPeer

BOTH = pytest.mark.parametrize("operation", ["send", "receive"])
ENDLESS = {"count": 0, "duration": 0}


# -- signals


@BOTH
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_the_run_with_its_records(
    operation: str, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    with ScriptedPeer() as peer:
        words = arguments(operation, peer.port, rate=1000, report_file=report, **ENDLESS)
        with Running(pyfast(*words)) as running:
            wait_until(lambda: running.stdout_so_far() != "", "records appear while it runs")
            running.send_signal(number)
            end = running.wait()
    assert end.code == code
    assert "Traceback" not in end.stderr
    assert len(end.stderr.splitlines()) <= 1
    assert end.stdout.endswith("\n"), "the last record is cut"
    told = parsed(report.read_text())
    assert told["complete"] is False
    assert told["reason"]
    assert told["sent" if operation == "send" else "received"] == len(end.lines)


@pytest.mark.parametrize("mode", ["client", "server"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_while_waiting_for_a_peer(mode: str, number: signal.Signals, code: int) -> None:
    """Nothing has come yet: in accept as a server, in an unanswered handshake as a client."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = free_port() if mode == "server" else silent.getsockname()[1]
        words = arguments("receive", port, connection_mode=mode, **ENDLESS)
        with Running(pyfast(*words)) as running:
            if mode == "server":
                running.wait_until_listening(port)
            else:
                assert select.select([silent], [], [], 15)[0]
            time.sleep(0.2)
            running.send_signal(number)
            end = running.wait()
    assert end.code == code
    assert "Traceback" not in end.stderr


def test_second_signal_does_not_lose_the_records() -> None:
    with ScriptedPeer() as peer:
        words = arguments("send", peer.port, rate=1000, **ENDLESS)
        with Running(pyfast(*words)) as running:
            wait_until(lambda: running.stdout_so_far() != "", "records appear while it runs")
            running.send_signal(signal.SIGTERM)
            running.send_signal(signal.SIGTERM)
            end = running.wait()
    assert end.code == 143
    assert end.stdout.endswith("\n")


# -- output


@BOTH
def test_reader_closes_stdout(operation: str) -> None:
    """EPIPE: `quiver-arrow-pyfast … | head` must end, and not as a success."""
    reader, writer = os.pipe()
    with ScriptedPeer() as peer:
        words = arguments(operation, peer.port, **ENDLESS)
        with Running(pyfast(*words), stdout=writer) as running:
            os.close(writer)
            os.read(reader, 10)
            os.close(reader)
            end = running.wait()
    assert_error(end, "records")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB; where mounting is not allowed, the test is skipped."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def run_into(path: Path, operation: str) -> Finished:
    """Run an endless arrow with its stdout in a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        with ScriptedPeer() as peer:
            return run_pyfast(*arguments(operation, peer.port, **ENDLESS), stdout=descriptor)
    finally:
        os.close(descriptor)


@BOTH
def test_disk_full(operation: str, small_disk: Path) -> None:
    end = run_into(small_disk / "transfers.csv", operation)
    assert_error(end, "records", "no space left")
    assert (small_disk / "transfers.csv").stat().st_size > 0


@BOTH
def test_device_full(operation: str) -> None:
    assert_error(run_into(Path("/dev/full"), operation), "records", "no space left")


def test_device_full_at_the_very_end() -> None:
    """A few records reach the device at the last flush only: still a failure."""
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        with ScriptedPeer() as peer:
            end = run_pyfast(*arguments("send", peer.port, count=3), stdout=descriptor)
    finally:
        os.close(descriptor)
    assert_error(end, "records", "no space left")


def seconds_to_more_records() -> float:
    """Wait for an arrow's first records, and return how long the next are in coming."""
    with (
        ScriptedPeer() as peer,
        Running(pyfast(*arguments("send", peer.port, rate=10, **ENDLESS))) as running,
    ):
        wait_until(lambda: running.stdout_so_far() != "", "the first records")
        seen, since = len(running.stdout_so_far()), time.monotonic()
        wait_until(lambda: len(running.stdout_so_far()) > seen, "more records")
        return time.monotonic() - since


def test_records_appear_while_it_runs() -> None:
    """A live wrapper must see progress at ten messages per second too."""
    seconds_to_more_records()


@pytest.mark.measured
def test_records_appear_within_a_second_or_so(figure: Figure) -> None:
    figure("time between records", seconds_to_more_records(), at_most=2.0, unit="s")


# -- stop conditions


@BOTH
def test_duration_expiry_between_arrows_leaves_nothing_unsettled(operation: str) -> None:
    pair = run_pair("pyfast", "pyfast", count=0, duration=1, server=operation)
    for end in (pair.sender, pair.receiver):
        assert end.code == 0, end
        assert end.stderr == ""
        assert end.lines


@pytest.mark.parametrize("credit", [1, 7, 1000])
def test_count_is_never_overshot(credit: int) -> None:
    """The peer sends as much as it is allowed to: no credit beyond the count may be given."""
    with ScriptedPeer() as peer:
        end = run_pyfast(*arguments("receive", peer.port, count=50, credit_window=credit))
        assert_clean(end)
        assert len(end.lines) == 50
        assert peer.sent == 50
        assert max(peer.credit_seen) <= min(credit, 50)


@pytest.mark.parametrize("rate", [20, 2000])
def test_a_rate_is_that_of_the_send_times(rate: int) -> None:
    """They are those of the schedule, however late a busy machine sends."""
    count = rate  # one second's worth
    end = run_at(ScriptedPeer(), "send", rate=rate, count=count)
    assert_clean(end)
    times = [int(line.split(",")[0]) for line in end.lines]
    expected = 1000 * (count - 1) / rate
    assert times[-1] - times[0] == pytest.approx(expected, abs=1)
    assert 1000 * end.seconds >= expected


@pytest.mark.measured
@pytest.mark.parametrize("rate", [20, 2000])
def test_rate_is_kept(rate: int, figure: Figure) -> None:
    """By the peer's clock: when its messages came."""

    class Notes(ScriptedPeer):
        def on_message(self, event: Event) -> None:
            times.append(time.monotonic())
            super().on_message(event)

    times: list[float] = []
    assert_clean(run_at(Notes(), "send", rate=rate, count=rate))
    elapsed = (times[-1] - times[0]) / ((rate - 1) / rate)
    figure("time of a second's messages", elapsed, at_least=0.9, at_most=1.5, unit="s")


@pytest.mark.measured
def test_rate_steps_are_kept() -> None:
    """Records have the times at which messages were due: the second at 50/s, then 1,000/s."""
    with ScriptedPeer() as peer:
        end = run_pyfast(
            *arguments("send", peer.port, rate_steps="50:1s,1000:1s", count=0, duration=2)
        )
    assert_clean(end)
    assert 1040 <= len(end.lines) <= 1051
    times = [int(line.split(",")[0]) for line in end.lines]
    assert sum(time - times[0] < 1000 for time in times) in (50, 51)
    assert times[150] - times[50] in (99, 100, 101)


def test_a_rate_below_one_for_each_of_two_ends() -> None:
    """Records have the times at which messages were due."""
    end = run_at(ScriptedPeer(), "send", rate=2.5, count=3, connections=2)
    assert_clean(end)
    times = sorted(int(line.split(",")[0]) for line in end.lines)
    assert [round((time - times[0]) / 10) for time in times] == [0, 40, 80]


def test_peer_that_leaves_at_the_end_of_a_timed_run() -> None:
    """Receivers of other engines stop at their own clock, with messages on their way.

    Both ends are told one duration; that one of them is a moment earlier is no failure.
    """

    class LeavesEarly(LeavesAfter):
        """Leaves at a message of the last half second; at the latest when the run is over."""

        first = 0

        def on_message(self, event: Event) -> None:
            super().on_message(event)
            sent = event.message.properties["SendTime"]
            self.first = self.first or sent
            if sent >= self.first + 1500:
                event.connection.close()

    with LeavesEarly(6, outcome=lambda n: "held" if n > 100 else "accepted") as peer:
        end = run_pyfast(*arguments("send", peer.port, rate=1000, count=0, duration=2))
    assert_clean(end)
    assert len(end.lines) > 100


@BOTH
def test_peer_that_leaves_long_before_the_end_of_a_timed_run(operation: str) -> None:
    end = run_at(LeavesAfter(0.5), operation, rate=1000, count=0, duration=60)
    assert_error(end, "the peer closed the")


# -- server mode


@BOTH
def test_stray_connection_before_the_peer(operation: str) -> None:
    """Wrappers probe the port until it listens: a bare connect and close is not the peer."""
    other = "receive" if operation == "send" else "send"
    port = free_port()
    words = arguments(operation, port, connection_mode="server", channel_mode="passive")
    with Running(pyfast(*words)) as listening:
        listening.wait_until_listening(port)
        for _ in range(3):
            socket.create_connection(("127.0.0.1", port), 5).close()
        client = run_pyfast(*arguments(other, port))
        server = listening.wait()
    assert_clean(client)
    assert_clean(server)
    assert len(server.lines) == 100


def test_stray_connection_with_garbage_before_the_peer() -> None:
    port = free_port()
    words = arguments("receive", port, connection_mode="server", channel_mode="passive")
    with Running(pyfast(*words)) as listening:
        listening.wait_until_listening(port)
        with socket.create_connection(("127.0.0.1", port), 5) as stray:
            stray.sendall(b"GET / HTTP/1.0\r\n\r\n")
            stray.settimeout(5)
            while stray.recv(1000):
                pass
        server = listening.wait()
    # The first client with bytes counts as the peer; they are no AMQP, so the run ends.
    assert_error(server)
    assert "amqp:connection:framing-error" in server.stderr


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_hosts_by_name_and_address(host: str) -> None:
    if host == "::1" and not Path("/proc/net/if_inet6").exists():
        pytest.skip("this machine has no IPv6")
    run_pair("pyfast", "pyfast", host=host, count=20).check(20)


def test_shim_and_module_are_one_program() -> None:
    shim = Path(__file__).resolve().parents[2] / "impls" / "quiver-arrow-pyfast"
    direct, through = run_pyfast(), run([pyfast()[0], str(shim)])
    assert_clean(through)
    assert through.stdout == direct.stdout


# -- what passes between wrapper and arrow besides the contract


def test_password_through_a_descriptor() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"correct horse\n")
    os.close(writer)
    port = free_port()
    server = arguments(
        "receive",
        port,
        connection_mode="server",
        channel_mode="passive",
        username="alice",
        password="correct horse",
    )
    with Running(pyfast(*server)) as listening:
        listening.wait_until_listening(port)
        words = arguments("send", port, username="alice", password_fd=reader)
        end = run_pyfast(*words, pass_fds=(reader,))
        os.close(reader)
        assert_clean(listening.wait())
    assert_clean(end)


@BOTH
def test_report_of_a_complete_run(operation: str, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    end = run_at(ScriptedPeer(), operation, report_file=report)
    assert_clean(end)
    told = parsed(report.read_text())
    assert told["complete"] is True
    assert told["sent" if operation == "send" else "received"] == 100
    assert (told["rejected"], told["released"], told["modified"]) == (0, 0, 0)
    if operation == "send":
        assert told["accepted"] == 100


def test_report_of_refused_messages(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    end = run_at(
        ScriptedPeer(outcome=lambda n: "rejected" if n == 3 else "accepted"),
        "send",
        report_file=report,
    )
    assert_error(end, "1 rejected")
    told = parsed(report.read_text())
    assert (told["complete"], told["accepted"], told["rejected"]) == (False, 99, 1)


def test_a_report_that_cannot_be_put_in_its_place_leaves_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.mkdir()
    end = run_at(ScriptedPeer(), "send", report_file=report)
    assert_error(end, f"cannot write the report {report}: Is a directory")
    assert list(tmp_path.iterdir()) == [report]
