"""Brokers for the tests that want one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.artemis import Artemis, running_artemis
from support.rabbitmq import RabbitMQ, running_rabbitmq


@pytest.fixture(scope="session")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """One node for all tests; each uses queues of its own."""
    with running_rabbitmq(tmp_path_factory.mktemp("rabbitmq")) as node:
        yield node


@pytest.fixture(scope="session")
def artemis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Artemis]:
    """One broker for all tests; each uses queues of its own."""
    with running_artemis(tmp_path_factory.mktemp("artemis")) as broker:
        yield broker
