"""`--metrics-port` of `quiver` and `quiver-arrow`: what their arrows did, while they do it."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.metrics import Metrics, scrape, without_prometheus_client
from support.processes import Running, free_port, run, wait_until
from support.server import running_server

from quiver_fast.cli.arrow.meter import BOUNDS, Meter, metered
from quiver_fast.extras import how_to_install
from quiver_fast.metrics import http


def tool(name: str, *words: str) -> list[str]:
    return [sys.executable, "-m", f"quiver_fast.cli.{name}.command", *words]


def received(metrics: Metrics, end: str = "0") -> float:
    return metrics.value("quiver_messages_total", side="receiver", end=end)


def port_of(running: Running) -> int:
    """Return the port that the command printed."""
    found: list[str] = []

    def told() -> bool:
        found[:] = re.findall(
            r"metrics at http://127\.0\.0\.1:(\d+)/metrics", running.stderr_so_far()
        )
        return bool(found)

    wait_until(told, "the port is printed")
    return int(found[0])


@pytest.mark.measured
def test_a_pair(tmp_path: Path) -> None:
    """Counts, CPU, memory and latencies follow the snapshots, which are two seconds apart."""
    words = ("--rate", "1k", "--duration", "6s", "--settlement", "--metrics-port", "0", "--json",
             "--output", str(tmp_path / "out"))  # fmt: skip
    with Running(tool("pair", *words)) as running:
        port = port_of(running)
        wait_until(
            lambda: len(scrape(port).labels("quiver_messages_total", "side")) == 2, "both count"
        )
        first = scrape(port)
        assert first.types["quiver_latency_seconds"] == "histogram"
        assert 500 < received(first) < 6500
        for side in ("sender", "receiver"):
            assert first.value("quiver_cpu_seconds_total", side=side, end="0") > 0
            assert first.value("quiver_resident_bytes", side=side, end="0") > 1e6
        labels = {"side": "receiver", "end": "0"}
        assert first.value("quiver_latency_seconds_count", **labels) == received(first)
        counts = [
            first.value("quiver_latency_seconds_bucket", le=f"{bound:g}", **labels)
            for bound in BOUNDS
        ]
        assert counts == sorted(counts)
        assert counts[-1] == received(first), "no latency is above 50 s"
        mean = first.value("quiver_latency_seconds_sum", **labels) / received(first)
        assert 1e-6 < mean < 5
        assert 1e-6 < first.value("quiver_settlement_seconds", side="sender", end="0") < 5
        wait_until(lambda: received(scrape(port)) > received(first), "the count goes on")
        assert running.wait(30).code == 0


@pytest.mark.measured
def test_the_end_stays_for_the_next_scrape() -> None:
    """A scrape for each interval never saw the messages of the last one: 34,526 of 36,000."""
    words = ("--rate", "100", "--duration", "6s", "--metrics-port", "0")
    with Running(tool("pair", *words)) as running:
        port = port_of(running)
        scrape(port)
        time.sleep(4)
        scrape(port)
        wait_until(lambda: "stay for the next scrape" in running.stderr_so_far(), "it stays")
        assert received(scrape(port)) == 600
        assert running.wait(5).code == 0


def test_how_long_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One and a half of the interval of two scrapes, up to a minute; no time before two."""
    now = 100.0
    monkeypatch.setattr(http, "time", SimpleNamespace(monotonic=lambda: now))
    server = http.MetricsServer(http.LOOPBACK, 0, Meter())
    try:
        stays = []
        for moment, until in ((100.0, 101.0), (108.0, 110.0), (108.0, 130.0), (1000.0, 1000.0)):
            now = moment
            scraper = threading.Timer(0.1, scrape, (server.port,))
            scraper.start()
            assert server.wait_for_scrape(30)
            scraper.join()
            now = until
            stays.append(server.seconds_to_scrape)
        assert stays == [0, 10, 0, 60]
        for request in ("HEAD /metrics", "GET /favicon.ico", "POST /metrics"):
            with socket.create_connection((http.LOOPBACK, server.port)) as sock:
                sock.sendall(f"{request} HTTP/1.0\r\n\r\n".encode())
                while sock.recv(4096):
                    pass
        assert not server.wait_for_scrape(0.2), "these have no figures"
    finally:
        server.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_wait_for_a_scrape(
    number: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(http.MetricsServer, "seconds_to_scrape", 60.0)
    args = Namespace(metrics_port=0, metrics_host=http.LOOPBACK, init_only=False, quiet=False)
    killer = threading.Timer(0.2, os.kill, (os.getpid(), number))
    killer.start()
    assert metered("quiver", args, lambda: 99) == 99
    killer.join()
    assert "stay for the next scrape" in capsys.readouterr().err
    assert metered("quiver", args, lambda: 128 + number) == 128 + number
    assert "stay for the next scrape" not in capsys.readouterr().err


@pytest.mark.measured
def test_runs_add_up_and_ends_have_series(tmp_path: Path) -> None:
    """A counter never falls: not when the next run of a set begins."""
    with running_server(tmp_path) as server, Running(
        tool("pair", f"//127.0.0.1:{server.port}/queue0", "--count", "300", "--senders", "2",
             "--receivers", "2", "--processes", "4", "--runs", "2", "--rate", "200",
             "--metrics-port", "0")
    ) as running:  # fmt: skip
        port = port_of(running)
        totals: list[float] = []
        while running.process.poll() is None:
            try:
                found = scrape(port)
            except OSError:
                break
            totals.append(found.sum("quiver_messages_total"))
            if totals[-1] > 600:
                ends = found.labels("quiver_messages_total", "end")
                assert sorted(ends) == ["0", "0", "1", "1"]
        assert running.wait(30).code == 0
    assert totals == sorted(totals)
    assert totals[-1] > 600, "both runs are in it"


@pytest.mark.parametrize("name", ["pair", "arrow"])
def test_without_the_library(name: str, tmp_path: Path) -> None:
    words = ["send", "//127.0.0.1:1/q"] if name == "arrow" else []
    end = run(tool(name, "--metrics-port", "0", *words), env=without_prometheus_client(tmp_path))
    assert end.code == 1
    assert end.stderr.endswith(
        f"error: --metrics-port needs prometheus_client: {how_to_install('metrics')}\n"
    )
    assert end.stderr.count("\n") == 1


def test_one_arrow(tmp_path: Path) -> None:
    port = free_port()
    with running_server(tmp_path) as server, Running(
        tool("arrow", "send", f"//127.0.0.1:{server.port}/queue0", "--rate", "500",
             "--duration", "5s", "--metrics-port", str(port))
    ) as running:  # fmt: skip
        assert port_of(running) == port
        wait_until(lambda: scrape(port).sum("quiver_messages_total") > 0, "messages are counted")
        assert scrape(port).labels("quiver_messages_total", "side") == ["sender"]
        assert running.wait(30).code == 0


def test_usage() -> None:
    end = run(tool("pair", "--metrics-port", "70000"))
    assert end.code == 2
    assert "must be at most 65,535" in end.stderr
