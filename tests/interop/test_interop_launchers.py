"""Launchers with the brokers that they are for: who is let in, how it ends, and the bench."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.arrows import arguments, run_pyfast
from support.brokers import ALL, ENVIRONMENT, marked, running_broker
from support.certificates import Certificates
from support.judgement import assert_clean, assert_error
from support.measured import Figure
from support.processes import run, wait_until
from support.server import Server

SECONDS = 60.0
# Seconds that a broker's processes may outlive it.
GONE_SECONDS = 60.0
# Each broker is started, measured and ended, one after the other.
BENCH_SECONDS = 240.0
# The password of a launcher may be any text, in files that each have rules of their own.
SECRET = {"username": "ü=ser", "password": "p a:s#s\\'\"<&>é😀"}
# The gate starts each broker in one of the two ways.
PASSWORD = ("rabbitmq", "artemis", "broker_j")
CERTIFICATES = ("rabbitmq4", "classic")


def transfer(server: Server, **keys: object) -> None:
    """Send some messages and take them again."""
    keys = {"path": "queue0", "count": 50, **keys}
    for operation in ("send", "receive"):
        end = run_pyfast(*arguments(operation, server.port, **keys), timeout=SECONDS)
        assert_clean(end)
        assert len(end.lines) == 50


def gone(family: list[psutil.Process]) -> bool:
    """Tell whether no process of a family runs any more."""
    return not any(
        one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in family
    )  # fmt: skip


@pytest.mark.parametrize("broker", marked(*ALL, gate=PASSWORD))
def test_a_user_is_demanded_where_one_is_given(
    broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else gets in, the password shows nowhere, and SIGTERM leaves nothing."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    keys = {"user": SECRET["username"], "password": SECRET["password"]}
    with running_broker(broker, tmp_path, **keys) as server:
        transfer(server, **SECRET)
        for wrong in ({}, {**SECRET, "password": "x"}, {"username": "guest", "password": "guest"}):
            words = arguments("send", server.port, path="queue0", count=1, **wrong)
            assert_error(run_pyfast(*words, timeout=SECONDS), "SASL")
        family = server.process.children(recursive=True)
        assert not any(SECRET["password"] in word for one in family for word in one.cmdline())
        assert len(list(tmp_path.glob("quiver-server-*"))) == 1
        end = server.end(signal.SIGTERM)
        assert (end.code, end.stderr) == (0, "")
        assert list(tmp_path.glob("quiver-server-*")) == []
        # RabbitMQ's helpers see that their node is gone, and go.
        wait_until(lambda: gone(family), "all processes are gone", GONE_SECONDS)


@pytest.mark.parametrize("broker", marked(*ALL, gate=CERTIFICATES))
def test_tls_with_certificates_on_both_sides(
    broker: str, tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client without a certificate is refused; a killed launcher takes its broker with it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    keys = {"scheme": "amqps", "host": "localhost", **certificates.server.keys()}
    with running_broker(broker, tmp_path, **keys, trust_store=certificates.authority) as server:
        known = {"scheme": "amqps", "host": "localhost", "trust_store": certificates.authority}
        transfer(server, **known, **certificates.client.keys(), sasl_mechanisms="ANONYMOUS")
        words = arguments("send", server.port, path="queue0", count=1, **known)
        assert_error(run_pyfast(*words, timeout=SECONDS), "localhost")
        family = server.process.children(recursive=True)
        server.kill()
        wait_until(lambda: gone(family), "all processes are gone", GONE_SECONDS)


def bench(directory: Path, servers: Iterable[str], *words: str) -> list[dict[str, Any]]:
    """Run pyfast's pair through each server, and return the results; none may fail."""
    pair = ["--include-senders", "pyfast", "--include-receivers", "pyfast", "--client-server"]
    out = directory / "out"
    where = ["--include-servers", ",".join(servers), "--output", str(out)]
    command = [sys.executable, "-m", "quiver_fast.cli.bench.command", *pair, *where, *words]
    end = run(command, BENCH_SECONDS - 10, env=ENVIRONMENT)
    assert end.code == 0, end
    results: list[dict[str, Any]] = json.loads((out / "bench.json").read_text())["results"]
    assert {one["server"] for one in results} == set(servers)
    return results


def check_counts(results: list[dict[str, Any]]) -> None:
    for one in results:
        assert (one["count"], one["unreceived"], one["duplicate"]) == (2000, 0, 0)


@pytest.mark.slow
@pytest.mark.timeout(BENCH_SECONDS)
@pytest.mark.peer("broker_j")
def test_the_bench_starts_a_real_broker(tmp_path: Path) -> None:
    check_counts(bench(tmp_path, ["qpid-broker-j"], "-c", "2000"))


@pytest.mark.measured
@pytest.mark.timeout(BENCH_SECONDS)
@pytest.mark.peer("artemis")
@pytest.mark.peer("classic")
@pytest.mark.peer("broker_j")
def test_the_bench_ranks_real_brokers(tmp_path: Path, figure: Figure) -> None:
    servers = ["activemq-artemis", "activemq-classic", "qpid-broker-j", "pyfast"]
    results = bench(tmp_path, servers, "-c", "2000")
    check_counts(results)
    by_server = {one["server"]: one["cpu_us"]["server"] for one in results}
    ours = by_server.pop("pyfast")
    assert ours >= 0
    figure("our server's CPU time by the least of the others'", ours / min(by_server.values()),
           at_most=1)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(BENCH_SECONDS)
@pytest.mark.peer("rabbitmq")
@pytest.mark.peer("rabbitmq4")
def test_the_bench_of_a_rate_and_a_duration(tmp_path: Path) -> None:
    """Both versions get through the end of a duration, the one that cannot drain as well."""
    results = bench(tmp_path, ["rabbitmq", "rabbitmq-4"], "--rate", "1k", "--duration", "3s")
    for one in results:
        assert one["count"] > 0
        assert (one["unreceived"], one["duplicate"]) == (0, 0)
