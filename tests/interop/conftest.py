"""Brokers for the tests that want one, started by our own launchers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.brokers import running_broker
from support.server import Server


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One node for all tests; each uses queues of its own."""
    with running_broker("rabbitmq", tmp_path_factory.mktemp("rabbitmq")) as node:
        yield node


@pytest.fixture(scope="session")
def rabbitmq4(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One node of RabbitMQ 4 for all tests; each uses queues of its own."""
    with running_broker("rabbitmq4", tmp_path_factory.mktemp("rabbitmq4")) as node:
        yield node


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One broker for all tests; each uses queues of its own."""
    with running_broker("artemis", tmp_path_factory.mktemp("artemis")) as broker:
        yield broker


@pytest.fixture(scope="session")
def classic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One broker for all tests; each uses queues of its own."""
    with running_broker("classic", tmp_path_factory.mktemp("classic")) as broker:
        yield broker


@pytest.fixture(scope="session")
def broker_j(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One broker for all tests; each uses queues of its own."""
    with running_broker("broker_j", tmp_path_factory.mktemp("broker_j")) as broker:
        yield broker
