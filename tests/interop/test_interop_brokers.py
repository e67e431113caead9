"""Each option of an arrow, and whole runs, on every broker that we launch."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.arrows import COMMANDS, arguments, arguments_v2, run_pyfast
from support.brokers import declare, marked
from support.cases import cases
from support.judgement import assert_clean, assert_error
from support.processes import Finished, Running
from support.server import Server

SECONDS = 60.0
# Those that other files of this folder leave alone.
NEW = ("rabbitmq4", "classic", "broker_j")


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Server:
    """The broker that a parameter names; each is started once."""
    server: Server = request.getfixturevalue(request.param)
    return server


def transfer(broker: Server, queue: str, **keys: object) -> tuple[Finished, Finished]:
    """Run sender and receiver at the same time through a queue of their own."""
    declare(broker, queue)
    options = {"path": queue, **keys}
    with Running([*COMMANDS["pyfast"], *arguments("receive", broker.port, **options)]) as receiving:
        sent = run_pyfast(*arguments("send", broker.port, **options), timeout=SECONDS)
        return sent, receiving.wait(SECONDS)


@pytest.mark.parametrize(
    ("broker", "size"),
    cases(marked(*NEW), [0, 100, 65536, 1_000_000], gate=lambda _, size: size in (100, 1_000_000)),
    indirect=["broker"],
)
def test_body_sizes(broker: Server, size: int) -> None:
    count = 10 if size > 100_000 else 200
    for end in transfer(broker, f"size-{size}", body_size=size, count=count):
        assert_clean(end)
        assert len(end.lines) == count


@pytest.mark.parametrize("broker", marked(*NEW), indirect=True)
def test_ids_with_settlement(broker: Server) -> None:
    """The queue keeps what was sent; ids come out as they went in, and all is settled."""
    declare(broker, "settled")
    keys = {"path": "settled", "settlement": 1, "count": 600}
    sent = run_pyfast(*arguments_v2("send", broker.port, **keys), timeout=SECONDS)
    received = run_pyfast(*arguments_v2("receive", broker.port, **keys), timeout=SECONDS)
    assert_clean(sent)
    assert_clean(received)
    ids = [line.split(",")[0] for line in sent.lines if line[0] not in "Ss"]
    assert [line.split(",")[0] for line in received.lines] == ids
    assert sum(line[0] in "Ss" for line in sent.lines) == 600


@pytest.mark.parametrize("broker", marked(*NEW), indirect=True)
def test_presettled(broker: Server) -> None:
    for end in transfer(broker, "presettled", presettled=1, count=200):
        assert_clean(end)
        assert len(end.lines) == 200


@pytest.mark.parametrize("broker", marked("rabbitmq4", "artemis"), indirect=True)
def test_what_is_released_comes_again(broker: Server, tmp_path: Path) -> None:
    declare(broker, "refused")
    keys = {"path": "refused", "record_format": "v2", "count": 2000}
    assert_clean(run_pyfast(*arguments("send", broker.port, **keys), timeout=SECONDS))
    report = tmp_path / "report.json"
    words = arguments(
        "receive", broker.port, release="10%", reject="1%", report_file=report, **keys
    )
    end = run_pyfast(*words, timeout=SECONDS)
    assert_clean(end)
    found = json.loads(report.read_text())
    deliveries = 2000 + found["released"]
    assert (found["released"], found["rejected"]) == (deliveries // 10, deliveries // 100)
    assert len({line.split(",")[0] for line in end.lines}) == len(end.lines) == found["received"]
    assert found["received"] + found["rejected"] == 2000


@pytest.mark.parametrize("broker", marked("rabbitmq4", "classic"), indirect=True)
def test_durable_messages(broker: Server) -> None:
    for end in transfer(broker, "durable", durable=1, count=50):
        assert_clean(end)
        assert len(end.lines) == 50


@pytest.mark.parametrize("broker", marked("classic", "broker_j"), indirect=True)
@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.slow), 100])
def test_transactions(broker: Server, batch: int, tmp_path: Path) -> None:
    """Every batch is one transaction, the rest of the count the last."""
    count = 20 if batch == 1 else 205
    for operation in ("send", "receive"):
        report = tmp_path / f"{operation}.json"
        keys = {"path": f"batch-{batch}", "count": count, "transaction_size": batch}
        words = arguments(operation, broker.port, **keys, report_file=report)
        end = run_pyfast(*words, timeout=SECONDS)
        assert_clean(end)
        assert len(end.lines) == count
        assert json.loads(report.read_text())["transactions"] == -(-count // batch)


@pytest.mark.parametrize("broker", marked("rabbitmq4"), indirect=True)
def test_a_message_that_is_too_large_for_the_broker_is_not_sent(broker: Server) -> None:
    """RabbitMQ 4 takes 16 MiB, unless it is told otherwise, and its attach says so."""
    declare(broker, "large")
    words = arguments("send", broker.port, path="large", count=1, body_size=17_000_000)
    assert_error(run_pyfast(*words, timeout=SECONDS), "at most 16,777,216 bytes", "17000033")


@pytest.mark.peer("rabbitmq4")
@pytest.mark.parametrize(("there", "back"), [("queue0", "/queues/queue0"), ("/queues/queue0",) * 2])
def test_both_addresses_of_rabbitmq_4_reach_the_declared_queue(
    rabbitmq4: Server, there: str, back: str
) -> None:
    """The launcher declares the queue of its path: the form with a slash makes none."""
    for operation, path in (("send", there), ("receive", back)):
        end = run_pyfast(*arguments(operation, rabbitmq4.port, path=path), timeout=SECONDS)
        assert_clean(end)
        assert len(end.lines) == 100


@pytest.mark.peer("rabbitmq4")
def test_a_queue_that_rabbitmq_4_does_not_have(rabbitmq4: Server) -> None:
    words = arguments("send", rabbitmq4.port, path="/queues/none")
    assert_error(run_pyfast(*words, timeout=SECONDS), "not-found", "none")
