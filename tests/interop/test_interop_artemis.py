"""pyfast through ActiveMQ Artemis: transactions, durability, credentials, both ways.

And the suite over JMS against it: what docs/server.md says that it gives, beside ours.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest
from support import jms
from support.arrows import COMMANDS, arguments, arguments_v2, run_pyfast
from support.cases import cases
from support.judgement import assert_clean
from support.processes import Finished, Running, run, wait_until
from support.server import Server
from support.suites import Answer

pytestmark = pytest.mark.peer("artemis")

QUEUE_SECONDS = 60.0


def transfer(
    broker: Server, queue: str, sender: str = "pyfast", receiver: str = "pyfast", **keys: object
) -> tuple[Finished, Finished]:
    """Run sender and receiver at the same time through a queue of their own."""
    options = {"path": queue, **keys}
    receive = [*COMMANDS[receiver], *arguments("receive", broker.port, **options)]
    send = [*COMMANDS[sender], *arguments("send", broker.port, **options)]
    with Running(receive) as receiving:
        sent = run(send, QUEUE_SECONDS)
        return sent, receiving.wait(QUEUE_SECONDS)


@pytest.mark.parametrize(
    "size", cases([0, 1, 100, 1000, 65536, 1_000_000], gate=(0, 100, 1_000_000).__contains__)
)
def test_body_sizes(artemis: Server, size: int) -> None:
    count = 10 if size > 100_000 else 200
    for end in transfer(artemis, f"size-{size}", body_size=size, count=count):
        assert_clean(end)
        assert len(end.lines) == count


@pytest.mark.parametrize("durable", [pytest.param(0, marks=pytest.mark.slow), 1])
@pytest.mark.peer("proton")
def test_messages_survive_the_broker(artemis: Server, durable: int) -> None:
    keys = {"durable": durable, "set_message_id": 1, "count": 100}
    for sender, receiver in (("pyfast", "proton"), ("proton", "pyfast")):
        for end in transfer(artemis, f"survive-{sender}-{durable}", sender, receiver, **keys):
            assert_clean(end)
            assert len(end.lines) == 100


@pytest.mark.parametrize("batch", [1, 7, pytest.param(100, marks=pytest.mark.slow)])
def test_transactions_send_and_receive(artemis: Server, batch: int, tmp_path: Path) -> None:
    """Every batch is one transaction, the rest of the count the last."""
    count = 50 if batch == 1 else 205
    reports = {name: tmp_path / f"{name}.json" for name in ("send", "receive")}
    keys = {"path": f"batch-{batch}", "count": count, "transaction_size": batch}
    for operation, report in reports.items():
        words = arguments(operation, artemis.port, **keys, report_file=report)
        end = run_pyfast(*words, timeout=QUEUE_SECONDS)
        assert_clean(end)
        assert len(end.lines) == count
        assert json.loads(report.read_text())["transactions"] == -(-count // batch)


def test_an_unfinished_transaction_leaves_nothing(artemis: Server) -> None:
    """A sender that dies within a batch is rolled back; committed batches stay.

    The first one is received, those after it, of which there may be none, are counted.
    """
    keys = {"path": "rollback", "transaction_size": 100, "count": 0, "rate": 300}
    words = arguments("send", artemis.port, **keys)
    with Running([*COMMANDS["pyfast"], *words]) as sending:
        wait_until(
            lambda: sending.stdout_so_far().count("\n") > 150,
            "the second batch begins", QUEUE_SECONDS,
        )  # fmt: skip
        sending.send_signal(signal.SIGKILL)
    words = arguments("receive", artemis.port, path="rollback", count=100)
    assert_clean(run_pyfast(*words, timeout=QUEUE_SECONDS))
    url = f"amqp://127.0.0.1:{artemis.port}/rollback"
    quiver = [sys.executable, "-m", "quiver_fast.cli.pair.command", url]
    end = run([*quiver, "--purge", "--count", "1", "--json"], QUEUE_SECONDS)
    assert end.code == 0, end
    assert json.loads(end.stdout)["purged"] % 100 == 0


def test_settlement_records_through_the_broker(artemis: Server) -> None:
    keys = {"path": "settled", "settlement": 1, "count": 600}
    sent = run_pyfast(*arguments_v2("send", artemis.port, **keys), timeout=QUEUE_SECONDS)
    assert_clean(sent)
    assert sorted(line.split(",")[0] for line in sent.lines if line[0] == "S") == [
        "S1", "S257", "S513",
    ]  # fmt: skip
    assert sum(line[0] in "Ss" for line in sent.lines) == 600


def test_credentials(artemis: Server) -> None:
    keys = {"path": "secure", "username": "admin", "password": "admin", "count": 10}
    for end in transfer(artemis, **{"queue": keys.pop("path"), **keys}):
        assert_clean(end)


@pytest.fixture(scope="module")
def answers(artemis: Server) -> dict[str, Answer]:
    """The suite's answer for each case."""
    return jms.run_twice(artemis.port)


# Answers of the other broker; it may leave a client without an answer for seconds.
@pytest.mark.slow
@pytest.mark.peer("jms")
@pytest.mark.parametrize("case", jms.CASES)
def test_jms(answers: dict[str, Answer], case: str) -> None:
    answer = answers[case]
    if answer.gives == "late":
        pytest.xfail("Artemis has left the client without an answer, twice")
    assert answer.gives == jms.documented()[case].artemis, answer.says
