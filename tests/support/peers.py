"""Installed and missing peers of other projects."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from collections.abc import Callable, Mapping
from functools import partial

from support.arrows import INTEROP

HOW = "make peers"


def _missing_proton() -> str | None:
    if importlib.util.find_spec("proton") is None:
        return "python-qpid-proton is not installed: pip install 'quiver-fast[test]'"
    return None


def _missing_rhea() -> str | None:
    if shutil.which("node") is None:
        return f"Node.js is not installed: {HOW}"
    if not (INTEROP / "node_modules" / "rhea").is_dir():
        return f"rhea is not installed: {HOW}"
    return None


def _missing_broker(module: str) -> str | None:
    broker = importlib.import_module(f"quiver_fast.brokers.{module}").BROKER
    reason = broker.unavailable()
    return None if reason is None else f"{reason}: {HOW}"


def _missing_spark() -> str | None:
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed: pip install 'quiver-fast[spark]'"
    from spark_analysis.java import why_java_is_missing

    return why_java_is_missing()


def _missing_chronicle() -> str | None:
    from support.chronicle import home

    if shutil.which("java") is None:
        return f"Java is not installed: {HOW}"
    if not (home() / "classes" / "QueuePeer.class").is_file():
        return f"Chronicle Queue is not in {home()}: {HOW}"
    return None


def _missing_jms() -> str | None:
    from support.jms import home

    if shutil.which("java") is None:
        return f"Java is not installed: {HOW}"
    if not (home() / "classes" / "JmsSuite.class").is_file():
        return f"Qpid JMS is not in {home()}: {HOW}"
    return None


def _missing_go_amqp() -> str | None:
    from support.suites import go_suite

    return None if go_suite().is_file() else f"go-amqp is not in {go_suite().parent}: {HOW}"


def _missing_hdfs() -> str | None:
    missing = _missing_spark()
    if missing is not None:
        return missing
    from support.hdfs import home

    if not any(home().glob("hadoop-client-minicluster-*.jar")):
        return f"HDFS is not in {home()}: {HOW}"
    return None


def _missing_browser() -> str | None:
    if shutil.which("chromium") is None:
        return f"Chromium is not installed: {HOW}"
    if shutil.which("chromedriver") is None:
        return f"Chromium's driver is not installed: {HOW}"
    if not (INTEROP / "node_modules" / "axe-core").is_dir():
        return f"axe-core is not installed: {HOW}"
    return None


def _missing_prometheus() -> str | None:
    if shutil.which("prometheus") is None:
        return f"Prometheus is not installed: {HOW}"
    return None


_CHECKS: Mapping[str, Callable[[], str | None]] = {
    "proton": _missing_proton,
    "rhea": _missing_rhea,
    "rabbitmq": partial(_missing_broker, "rabbitmq"),
    "rabbitmq4": partial(_missing_broker, "rabbitmq4"),
    "artemis": partial(_missing_broker, "artemis"),
    "classic": partial(_missing_broker, "classic"),
    "broker_j": partial(_missing_broker, "broker_j"),
    "spark": _missing_spark,
    "chronicle": _missing_chronicle,
    "jms": _missing_jms,
    "go_amqp": _missing_go_amqp,
    "chromium": _missing_browser,
    "hdfs": _missing_hdfs,
    "prometheus": _missing_prometheus,
}

PEERS = tuple(_CHECKS)
"""The names of all peers."""

# The unproven claims of a run without a peer.
_SHOWS: Mapping[str, str] = {
    "proton": "that the reference client in Python sends and receives as ours does",
    "rhea": "that a JavaScript client sends and receives as ours does",
    "rabbitmq": "that the system's RabbitMQ is started, and measured through",
    "rabbitmq4": "that RabbitMQ 4 is started, and measured through",
    "artemis": "that ActiveMQ Artemis is started, and measured through",
    "classic": "that ActiveMQ Classic is started, and measured through",
    "broker_j": "that Qpid Broker-J is started, and measured through",
    "spark": "that Spark analyses records as the local engine does",
    "chronicle": "that Chronicle Queue in Java reads what ours writes, and writes what ours reads",
    "jms": "what a JMS client is given, case by case",
    "go_amqp": "what a client in Go is given, case by case",
    "chromium": "that a browser draws the HTML pages, and that people can read them",
    "hdfs": "that records in HDFS are read",
    "prometheus": "that Prometheus reads our metrics, and that the dashboard shows them",
}


def what_it_shows(name: str) -> str:
    """Return the claim of the tests with a peer, as the end of a sentence.

    Raises:
        KeyError: No such peer is known.
    """
    return _SHOWS[name]


def why_missing(name: str) -> str | None:
    """Return the reason why a peer cannot be used, or None.

    Raises:
        KeyError: No such peer is known.
    """
    return _CHECKS[name]()


def are_required() -> bool:
    """Tell whether a missing peer is a failure: continuous integration says so."""
    return os.environ.get("QUIVER_FAST_REQUIRE_PEERS") == "1"
