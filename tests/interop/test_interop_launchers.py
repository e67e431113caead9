"""Launchers with the brokers that they are for: who is let in, how it ends, and the bench."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import psutil
import pytest
from support.arrows import arguments, run_pyfast
from support.brokers import ENVIRONMENT, running_broker
from support.certificates import Certificates
from support.judgement import assert_clean, assert_error
from support.processes import run, wait_until
from support.server import Server

SECONDS = 60.0
# The password of a launcher may be any text, in files that each have rules of their own.
SECRET = {"username": "ü=ser", "password": "p a:s#s\\'\"<&>é😀"}
NAMES = {
    "rabbitmq": "rabbitmq",
    "rabbitmq4": "rabbitmq-4",
    "artemis": "activemq-artemis",
    "classic": "activemq-classic",
    "broker_j": "qpid-broker-j",
}
"""The launchers' modules, and the names of their servers."""
BROKERS = [pytest.param(module, marks=pytest.mark.peer(module)) for module in NAMES]


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


@pytest.mark.parametrize("broker", BROKERS)
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
        wait_until(lambda: gone(family), "all processes are gone", 5)


@pytest.mark.parametrize("broker", BROKERS)
def test_tls_with_certificates_on_both_sides(
    broker: str, tmp_path: Path, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has no certificate does not get in; a killed launcher takes its broker with it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    keys = {"scheme": "amqps", "host": "localhost", **certificates.server.keys()}
    with running_broker(broker, tmp_path, **keys, trust_store=certificates.authority) as server:
        known = {"scheme": "amqps", "host": "localhost", "trust_store": certificates.authority}
        transfer(server, **known, **certificates.client.keys(), sasl_mechanisms="ANONYMOUS")
        words = arguments("send", server.port, path="queue0", count=1, **known)
        assert_error(run_pyfast(*words, timeout=SECONDS), "localhost")
        family = server.process.children(recursive=True)
        server.kill()
        wait_until(lambda: gone(family), "all processes are gone", 10)


@pytest.mark.peer("rabbitmq")
@pytest.mark.peer("artemis")
def test_the_bench_ranks_real_brokers(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ["--include-senders", "pyfast", "--include-receivers", "pyfast", "--client-server"]
    words += ["--include-servers", "rabbitmq,artemis,pyfast", "-c", "2000", "--output", str(out)]
    command = [sys.executable, "-m", "quiver_fast.cli.bench", *words]
    end = run(command, 110, env=ENVIRONMENT)
    assert end.code == 0, end
    results = json.loads((out / "bench.json").read_text())["results"]
    assert {one["server"] for one in results} == {"pyfast", "rabbitmq", "activemq-artemis"}
    for one in results:
        assert (one["count"], one["unreceived"], one["duplicate"]) == (2000, 0, 0)
    by_server = {one["server"]: one["cpu_us"]["server"] for one in results}
    assert 0 <= by_server["pyfast"] < min(by_server["rabbitmq"], by_server["activemq-artemis"])
