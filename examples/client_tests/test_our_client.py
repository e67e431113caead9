"""Tests of a client library's speed, with the fixtures of quiver-fast.

pip install quiver-fast pytest python-qpid-proton
pytest test_our_client.py

`messaging.yml` is a GitHub workflow that does the same.
"""

import os
import sys
from pathlib import Path

import pytest
from proton import Message
from proton.utils import BlockingConnection


def test_a_message_comes_back(amqp_server):
    """`amqp_server` is a broker for the whole session, with every queue that a client names."""
    connection = BlockingConnection(amqp_server.url_of("orders"))
    connection.create_sender("orders").send(Message(body="nails"))
    assert connection.create_receiver("orders").receive(timeout=10).body == "nails"
    connection.close()


@pytest.fixture
def our_client(monkeypatch):
    """Tell quiver the folder of the program that sends with our library, and its Python."""
    monkeypatch.setenv("QUIVER_IMPL_PATH", str(Path(__file__).parent))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    return "our-client"


@pytest.mark.quiver(count="5k", fail_if=["rate<100", "lost>0", "duplicate>0"])
def test_nothing_is_lost_and_the_rate_holds(amqp_server, our_client, measure):
    """The marker has options of `quiver`. If a condition of `fail_if` holds, the test fails."""
    result = measure(amqp_server.url_of("speed"), sender=our_client)
    assert result.received == 5000


@pytest.mark.quiver(count="2k", runs=3)
def test_no_slower_than_before(amqp_server, our_client, measure):
    """Machines differ: a limit works everywhere if it is a ratio to other runs."""
    ours = measure(amqp_server.url_of("ours"), sender=our_client)
    reference = measure(amqp_server.url_of("reference"))
    assert ours.rate > reference.rate / 10_000
