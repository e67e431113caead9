"""Brokers for the tests that want one, started by our own launchers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.brokers import running_broker
from support.server import Server

HERE = Path(__file__).parent
# The first test with a broker waits for its start.
SECONDS = 400


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))


def _broker(kind: str) -> Callable[..., Any]:
    """Return the fixture of that name: one broker for all tests; each uses queues of its own."""

    @pytest.fixture(scope="session", name=kind)
    def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
        with running_broker(kind, tmp_path_factory.mktemp(kind)) as broker:
            yield broker

    return running


rabbitmq = _broker("rabbitmq")
rabbitmq4 = _broker("rabbitmq4")
artemis = _broker("artemis")
classic = _broker("classic")
broker_j = _broker("broker_j")
