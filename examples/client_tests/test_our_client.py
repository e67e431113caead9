"""Tests of a client library's speed, with the fixtures of quiver-fast.

pip install quiver-fast pytest python-qpid-proton
pytest test_our_client.py
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


def test_nothing_is_lost_and_the_rate_holds(amqp_server, our_client, quiver_measure):
    result = quiver_measure(
        amqp_server.url_of("speed"),
        sender=our_client,
        receiver="pyfast",
        count="5k",
        fail_if=["rate<100", "lost>0", "duplicate>0"],
    )
    assert result.received == 5000


def test_no_slower_than_before(amqp_server, our_client, quiver_measure):
    """Machines differ: a limit works everywhere if it is a ratio to another run."""
    ours = quiver_measure(
        amqp_server.url_of("ours"), sender=our_client, receiver="pyfast", count="5k"
    )
    reference = quiver_measure(amqp_server.url_of("reference"), count="5k")
    assert ours.rate > reference.rate / 10_000
