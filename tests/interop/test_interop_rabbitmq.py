"""pyfast through RabbitMQ's rabbitmq_amqp1_0 plugin: a broker that we did not write."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.arrows import COMMANDS, arguments, arguments_v2, run_pyfast
from support.cases import cases
from support.judgement import assert_clean, assert_error
from support.processes import Finished, Running, run
from support.server import Server

pytestmark = pytest.mark.peer("rabbitmq")

QUEUE_SECONDS = 60.0
# The user that RabbitMQ accepts over the loopback.
GUEST = "guest"


def through(**changes: object) -> dict[str, object]:
    """Return the keys that every arrow needs here."""
    return {"username": GUEST, "password": GUEST, **changes}


def transfer(
    node: Server, queue: str, sender: str = "pyfast", receiver: str = "pyfast", **keys: object
) -> tuple[Finished, Finished]:
    """Run sender and receiver at the same time through a queue of their own."""
    options = through(path=queue, **keys)
    receive = [*COMMANDS[receiver], *arguments("receive", node.port, **options)]
    send = [*COMMANDS[sender], *arguments("send", node.port, **options)]
    with Running(receive) as receiving:
        sent = run(send, QUEUE_SECONDS)
        return sent, receiving.wait(QUEUE_SECONDS)


@pytest.mark.parametrize(
    "size", cases([0, 1, 100, 1000, 65536, 1_000_000], gate=(0, 100, 1_000_000).__contains__)
)
def test_body_sizes(rabbitmq: Server, size: int) -> None:
    count = 10 if size > 100_000 else 200
    ends = transfer(rabbitmq, f"size-{size}", body_size=size, count=count)
    for end in ends:
        assert_clean(end)
        assert len(end.lines) == count


@pytest.mark.parametrize("durable", [pytest.param(0, marks=pytest.mark.slow), 1])
@pytest.mark.peer("proton")
def test_messages_survive_the_broker(rabbitmq: Server, durable: int) -> None:
    """Proton receives pyfast's messages with the right content, and the reverse."""
    keys = {"durable": durable, "set_message_id": 1, "count": 100}
    for sender, receiver in (("pyfast", "proton"), ("proton", "pyfast")):
        queue = f"survive-{sender}-{durable}"
        for end in transfer(rabbitmq, queue, sender, receiver, **keys):
            assert_clean(end)
            assert len(end.lines) == 100


def test_send_first_receive_later(rabbitmq: Server) -> None:
    """The queue keeps what was sent; ids come out as they went in."""
    keys = through(path="later", settlement=1, count=500)
    sent = run_pyfast(*arguments_v2("send", rabbitmq.port, **keys))
    received = run_pyfast(*arguments_v2("receive", rabbitmq.port, **keys))
    assert_clean(sent)
    assert_clean(received)
    ids = [line.split(",")[0] for line in sent.lines if line[0] not in "Ss"]
    assert [line.split(",")[0] for line in received.lines] == ids
    assert sum(line[0] in "Ss" for line in sent.lines) == 500


def test_receiver_takes_its_count_and_leaves_the_rest(rabbitmq: Server) -> None:
    """Credit beyond the count would lose the messages that another receiver is due."""
    keys = through(path="rest", count=100)
    assert_clean(run_pyfast(*arguments("send", rabbitmq.port, **keys)))
    for _ in range(2):
        end = run_pyfast(*arguments("receive", rabbitmq.port, **{**keys, "count": 50}))
        assert_clean(end)
        assert len(end.lines) == 50


def test_wrong_password(rabbitmq: Server) -> None:
    keys = through(path="refused", password="wrong")
    assert_error(run_pyfast(*arguments("send", rabbitmq.port, **keys)), "SASL", "PLAIN")


def test_address_that_does_not_exist(rabbitmq: Server) -> None:
    keys = through(path="/exchange/no-such-exchange/key")
    assert_error(run_pyfast(*arguments("send", rabbitmq.port, **keys)), "no-such-exchange")


def test_quiver_through_the_broker(rabbitmq: Server, tmp_path: Path) -> None:
    """The whole: wrapper, two arrows, broker, analysis."""
    url = f"amqp://{GUEST}:{GUEST}@localhost:{rabbitmq.port}/whole"
    words = [url, "--count", "1000", "--output", str(tmp_path / "output")]
    end = run([sys.executable, "-m", "quiver_fast.cli.pair.command", *words], QUEUE_SECONDS)
    assert end.code == 0, end
    assert "RESULTS" in end.stdout
    for name in ("sender", "receiver"):
        summary = json.loads((tmp_path / "output" / f"{name}-summary.json").read_text())
        assert summary["results"]["message_count"] == 1000
        assert f":{GUEST}@" not in json.dumps(summary)


@pytest.mark.parametrize("operation", ["send", "receive"])
def test_there_is_no_transaction_coordinator(rabbitmq: Server, operation: str) -> None:
    """RabbitMQ 3 ends the session over the attach; the arrow says so as it comes."""
    options = through(path=f"transactions-{operation}", transaction_size=10)
    end = run_pyfast(*arguments(operation, rabbitmq.port, **options))
    assert_error(end, "the peer has no transaction coordinator", within=30.0)
