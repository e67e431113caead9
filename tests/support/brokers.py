"""Other projects' brokers, started by our launchers."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from quiver_fast.management.queues import QueueManager
from quiver_fast.security.security import Security
from support.cases import cases
from support.server import Server, running_server

ALL = ("rabbitmq", "rabbitmq4", "artemis", "classic", "broker_j")
"""The launchers' modules that are tested with their brokers; fixtures and peers are called so."""

START_SECONDS = 90.0
END_SECONDS = 30.0
# Idle schedulers must not spin where many tests share a small machine.
ENVIRONMENT = {
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none"
}


@contextlib.contextmanager
def running_broker(module: str, directory: Path, **keys: object) -> Iterator[Server]:
    """Run a broker until the end of the block.

    Args:
        module: Its launcher's name in quiver_fast.brokers.
        directory: The folder of its ready file.
        keys: As of `support.server.command`.
    """
    with running_server(
        directory,
        module=f"quiver_fast.brokers.{module}",
        start_seconds=START_SECONDS,
        end_seconds=END_SECONDS,
        environment=ENVIRONMENT,
        **keys,
    ) as server:
        yield server


def marked(*names: str, gate: Collection[str] = ALL) -> list[Any]:
    """Return the parameters of a test that runs with each of these brokers.

    Args:
        names: of the brokers.
        gate: the brokers of the gate; the others are slow.
    """
    peers = [pytest.param(name, marks=pytest.mark.peer(name)) for name in names]
    return cases(peers, gate=gate.__contains__)


def declare(broker: Server, path: str) -> None:
    """Create a queue, because RabbitMQ 4 does not create it when a link attaches."""
    with QueueManager("localhost", broker.port, Security()) as queues:
        queues.declare(queues.address(path))
