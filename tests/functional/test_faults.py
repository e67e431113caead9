"""`quiver --fault`: each kind happens, is proven, and is told; one that does not fails the run."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.documents import faults, parsed
from support.processes import Finished, Running, free_port, run, wait_until
from support.server import Server, command, running_server

QUIVER = (sys.executable, "-m", "quiver_fast.cli.pair.command")
ANALYZE = (sys.executable, "-m", "quiver_fast.cli.analyze.command")
LOAD = ("--rate", "2k", "--duration", "2s", "--json")


@pytest.fixture(name="server", scope="module")
def a_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


def url(server: Server, queue: str = "faults") -> str:
    return f"//127.0.0.1:{server.port}/{queue}"


def measured(place: str, out: Path, *words: str) -> tuple[Finished, dict[str, Any]]:
    end = run([*QUIVER, place, *LOAD, "--output", str(out), *words])
    document: dict[str, Any] = parsed(end.stdout)
    assert faults("run", document) == []
    return end, document


def the_fault(document: dict[str, Any]) -> dict[str, Any]:
    (fault,) = document["faults"]
    return fault


def state(pid: int) -> str:
    found: str = psutil.Process(pid).status()
    return found


def test_stop_is_proven_and_seen_by_the_analysis(server: Server, tmp_path: Path) -> None:
    pid = server.process.pid
    page, marks = tmp_path / "page.html", tmp_path / "marks.md"
    end, document = measured(
        url(server), tmp_path / "out", "--fault", "500ms stop 300ms", "--fault-pid", str(pid),
        "--html", str(page), "--markdown", str(marks),
    )  # fmt: skip
    assert (end.code, document["complete"]) == (0, True)
    fault = the_fault(document)
    assert fault["proof"].startswith(f"process {pid} was stopped ")
    assert fault["proof"].endswith(" ms after SIGSTOP")
    assert fault["until"] - fault["at"] >= 300_000_000
    assert fault["began"] >= 0.5
    assert state(pid) != psutil.STATUS_STOPPED
    # The clock is that of the records: nothing was received in the midst of the fault.
    slowest = document["latency"]["percentiles"]["100"]
    assert slowest >= 250_000
    # It is told while it happens.
    assert "fault '500ms stop 300ms': process" in end.stderr
    assert "fault '500ms stop 300ms': over" in end.stderr
    assert 'class="fault"' in page.read_text()
    assert fault["proof"] in page.read_text()
    assert f"| 500ms stop 300ms | {fault['began']:.3f} |" in marks.read_text()
    later = run([*ANALYZE, "--json", str(tmp_path / "out")])
    assert parsed(later.stdout)["faults"] == document["faults"]
    assert fault["proof"] in run([*ANALYZE, str(tmp_path / "out")]).stdout


def test_a_file_with_the_process_is_read_again(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    file.write_text(f"{server.process.pid}\n")
    write = f"800ms run 'echo none > {file}'"
    words = ("--fault", "400ms stop 100ms", "--fault", write, "--fault", "1200ms stop 100ms")
    end, document = measured(url(server), tmp_path / "out", *words, "--fault-pid", str(file))
    first, second, third = document["faults"]
    assert (first["problem"], second["proof"]) == (None, "exit code 0")
    assert (third["at"], third["problem"]) == (None, f"{file} has no process number")
    why = f"the fault '1200ms stop 100ms' did not happen: {file} has no process number"
    assert (end.code, document["reason"]) == (1, why)


def test_a_process_that_is_gone_is_no_fault(server: Server, tmp_path: Path) -> None:
    with Running(["sleep", "600"]) as other:
        pid = other.process.pid
        gone = (
            f"200ms run 'kill -9 {pid}; while ! grep -q Z.*zombie /proc/{pid}/status; do :; done'"
        )
        words = ("--fault", gone, "--fault", "1s stop 100ms", "--fault-pid", str(pid))
        # The test has not waited for it: no signal stops a zombie.
        end, document = measured(url(server), tmp_path / "out", *words)
    assert end.code == 1
    assert document["faults"][0]["problem"] is None
    assert document["faults"][1]["at"] is None
    assert f"process {pid} has ended" in document["reason"]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--fault-pid", "none.pid"), "none.pid: No such file or directory"),
        (("--fault-pid", "999999999"), "there is no process 999999999"),
        (("--fault-pid", "99999999999"), "there is no process 99999999999"),
    ],
)
def test_a_process_that_was_never_there_is_one_line(
    server: Server, words: tuple[str, ...], line: str
) -> None:
    end = run([*QUIVER, url(server), *LOAD, "--fault", "1s stop 1s", *words])
    assert (end.code, end.stderr) == (1, f"quiver: error: {line}\n")


@pytest.mark.skipif(os.getuid() == 0, reason="root may stop any process")
def test_a_process_of_another_user_is_one_line(server: Server) -> None:
    end = run([*QUIVER, url(server), *LOAD, "--fault", "1s stop 1s", "--fault-pid", "1"])
    assert (end.code, end.stderr) == (1, "quiver: error: process 1 is another user's\n")


def test_a_command_that_fails_fails_the_run(server: Server, tmp_path: Path) -> None:
    words = ("--fault", "200ms run 'echo broken >&2; exit 3'")
    end, document = measured(url(server), tmp_path / "out", *words)
    why = "the fault '200ms run 'echo broken >&2; exit 3'' did not end: broken (exit code 3)"
    assert (end.code, document["reason"], document["complete"]) == (1, why, False)


def test_what_a_command_starts_outlives_it(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    words = ("--fault", f"200ms run 'sleep 600 & echo $! >{file}'")
    end, document = measured(url(server), tmp_path / "out", *words)
    assert (end.code, the_fault(document)["proof"]) == (0, "exit code 0")
    daemon = psutil.Process(int(file.read_text()))
    assert daemon.name() == "sleep"
    daemon.kill()


def test_a_relay_keeps_the_names_of_all_places(server: Server, tmp_path: Path) -> None:
    port = free_port()
    with Running(command(port)) as one:
        one.wait_until_listening(port)
        words = ("--fault", "100ms delay 1ms 100ms", "--fault", "500ms kill")
        words += ("--fault-pid", str(one.process.pid), "--reconnect")
        words += ("--failover", f"//127.0.0.1:{server.port}")
        _, document = measured(f"//127.0.0.1:{port}/names", tmp_path / "out", *words)
        one.wait()
    (lost,) = document["sender"]["failures"]
    assert lost["place"] == f"127.0.0.1:{server.port}"


def test_a_fault_after_the_last_message_did_not_happen(server: Server, tmp_path: Path) -> None:
    words = ("--count", "500", "--duration", "0", "--fault", "1h run true")
    end, document = measured(url(server), tmp_path / "out", *words)
    why = "the fault '1h run true' did not happen: the run ended before"
    assert (end.code, document["reason"]) == (1, why)


def test_ctrl_c_continues_a_stopped_process(server: Server, tmp_path: Path) -> None:
    pid = server.process.pid
    words = ("--fault", "200ms stop 1h", "--fault-pid", str(pid), "--output", str(tmp_path / "out"))
    with Running([*QUIVER, url(server), "--rate", "1k", "--duration", "1h", *words]) as quiver:
        wait_until(lambda: state(pid) == psutil.STATUS_STOPPED, "the server is stopped")
        quiver.send_signal(signal.SIGINT)
        assert quiver.wait().code == 130
    assert state(pid) != psutil.STATUS_STOPPED


def test_a_server_of_the_run(tmp_path: Path) -> None:
    port = free_port()
    words = ("--server", "pyfast --durability group", "--fault", "500ms stop 200ms")
    end, document = measured(f"//127.0.0.1:{port}/q0", tmp_path / "out", "--durable", *words)
    assert (end.code, document["reason"]) == (0, None)
    assert the_fault(document)["proof"].endswith("after SIGSTOP")
    # It ends with the run.
    assert not listens(port)


def listens(port: int) -> bool:
    return any(
        one.laddr.port == port and one.status == psutil.CONN_LISTEN
        for one in psutil.net_connections("tcp")
        if one.laddr
    )


def test_a_server_that_cannot_start_is_one_line(server: Server) -> None:
    end = run([*QUIVER, url(server), *LOAD, "--server", "pyfast"])
    assert end.code == 1
    assert end.stderr.startswith("quiver: error: the server ended by itself: exit code 1: ")
    assert "Address already in use" in end.stderr


def test_a_workload_has_the_faults(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "workload.toml"
    file.write_text(f'url = "{url(server)}"\nfault = ["200ms run true", "400ms run true"]\n')
    end = run([*QUIVER, "--workload", str(file), *LOAD, "--output", str(tmp_path / "out")])
    document = json.loads(end.stdout)
    assert [fault["proof"] for fault in document["faults"]] == ["exit code 0"] * 2
    assert document["workload"]["fault"] == ["200ms run true", "400ms run true"]


def test_runs_of_a_set_have_their_faults(server: Server, tmp_path: Path) -> None:
    words = ("--runs", "2", "--fault", "200ms run true", "--output", str(tmp_path / "out"))
    end = run([*QUIVER, url(server), *LOAD, *words])
    document = json.loads(end.stdout)
    assert faults("run-set", document) == []
    assert [run["faults"][0]["proof"] for run in document["runs"]] == ["exit code 0"] * 2


def test_many_ends_have_faults(server: Server, tmp_path: Path) -> None:
    words = ("--senders", "3", "--receivers", "2", "--reconnect", "--fault", "200ms run true")
    end, document = measured(url(server), tmp_path / "out", *words)
    assert (end.code, the_fault(document)["proof"]) == (0, "exit code 0")
    assert [one["fault"] for one in document["ledger"]["failures"]] == [0]
    later = parsed(run([*ANALYZE, "--json", str(tmp_path / "out")]).stdout)
    assert [later[key] for key in ("faults", "ledger")] == [
        document[key] for key in ("faults", "ledger")
    ]


@pytest.mark.parametrize(
    ("text", "proof"),
    [
        ("500ms cut", "2 connections cut"),
        ("500ms cut 50%", "1 connection cut"),
        ("500ms refuse 200ms", "2 connections cut, "),
        ("500ms freeze 200ms", "2 connections held, "),
        ("500ms half 200ms 50%", "1 connection held, "),
        ("500ms delay 20ms 300ms", "2 connections delayed, "),
        ("500ms throttle 50k 300ms", "2 connections throttled, "),
    ],
)
def test_a_fault_of_the_network(server: Server, tmp_path: Path, text: str, proof: str) -> None:
    place = url(server, text.replace(" ", "-").replace("%", ""))
    end, document = measured(place, tmp_path / "out", "--reconnect", "--fault", text)
    assert (end.code, document["reason"]) == (0, None)
    fault = the_fault(document)
    assert fault["proof"].startswith(proof)
    assert fault["began"] >= 0.5
    assert document["ledger"]["lost"] == 0
    assert {*document["relay"]} == {"p50_us", "p99_us"}
    assert "The relay adds " in end.stderr
    cuts = "cut" in proof
    assert bool(document["sender"]["failures"] + document["receiver"]["failures"]) == cuts


def test_a_share_of_too_few_connections_is_no_fault(server: Server, tmp_path: Path) -> None:
    words = ("--reconnect", "--fault", "500ms cut 10%")
    end, document = measured(url(server), tmp_path / "out", *words)
    why = "the fault '500ms cut 10%' did not happen: 10% of 2 connections are none"
    assert (end.code, document["reason"]) == (1, why)


def test_ctrl_c_ends_a_fault_of_the_network(server: Server, tmp_path: Path) -> None:
    words = ("--fault", "200ms freeze 1h", "--output", str(tmp_path / "out"))
    with Running([*QUIVER, url(server), "--rate", "1k", "--duration", "1h", *words]) as quiver:
        wait_until(lambda: "begun" in quiver.stdout_so_far(), "the fault has begun")
        quiver.send_signal(signal.SIGINT)
        end = quiver.wait()
    assert end.code == 130
    assert "over: 2 connections held" in end.stdout


@pytest.mark.parametrize("kind", ["kill", "term"])
def test_a_server_of_the_run_is_started_again(tmp_path: Path, kind: str) -> None:
    place = f"//127.0.0.1:{free_port()}/q0"
    words = ("--server", "pyfast --durability group", "--durable", "--reconnect")
    end, document = measured(place, tmp_path / "out", *words, "--fault", f"500ms {kind} 200ms")
    assert (end.code, document["reason"]) == (0, None)
    fault = the_fault(document)
    assert "gone" in fault["proof"]
    assert fault["proof"].endswith(f"after SIG{kind.upper()}")
    assert fault["until"] - fault["at"] >= 200_000_000
    # Its messages came back with it.
    assert document["ledger"]["lost"] == 0
    assert document["ledger"]["acknowledged_received"] > 0
    (lost, *_) = document["sender"]["failures"]
    # A client may be back some milliseconds before the run sees that the server is ready.
    assert lost["back_at"] >= fault["at"] + 200_000_000


def test_a_killed_server_of_others_is_awaited(tmp_path: Path) -> None:
    port = free_port()
    place = f"//127.0.0.1:{port}/q0"
    with Running(command(port)) as first:
        first.wait_until_listening(port)
        words = ("--fault", "500ms kill 100ms", "--fault-pid", str(first.process.pid))
        words += ("--reconnect", "--output", str(tmp_path / "out"))
        with Running([*QUIVER, place, *LOAD, *words]) as quiver:
            assert first.wait().code == -signal.SIGKILL
            with Running(command(port)):
                end = quiver.wait()
    document = parsed(end.stdout)
    assert (end.code, document["reason"]) == (0, None)
    assert the_fault(document)["until"] is not None


def test_a_server_that_never_comes_back_fails_the_run(tmp_path: Path) -> None:
    port = free_port()
    words = ("--reconnect", "--reconnect-for", "1s", "--fault", "500ms kill 100ms")
    with Running(command(port)) as server:
        server.wait_until_listening(port)
        words += ("--fault-pid", str(server.process.pid))
        end, document = measured(f"//127.0.0.1:{port}/q0", tmp_path / "out", *words)
        server.wait()
    assert end.code == 1
    problem = the_fault(document)["problem"]
    assert problem == f"the run ended before 127.0.0.1:{port} was back"


def test_many_ends_lose_their_connections(server: Server, tmp_path: Path) -> None:
    words = ("--senders", "3", "--receivers", "3", "--reconnect", "--fault", "500ms cut 50%")
    end, document = measured(url(server, "many"), tmp_path / "out", *words)
    assert (end.code, document["reason"]) == (0, None)
    assert the_fault(document)["proof"] == "3 connections cut"
    assert document["ledger"]["lost"] == 0
