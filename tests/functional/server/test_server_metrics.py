"""`metrics-port` of the server: its output, its cost for the loop, and its errors."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from proton import Delivery
from support.arrows import arguments, run_pyfast
from support.clients import Clients
from support.metrics import Metrics, scrape, scrape_text, without_prometheus_client
from support.processes import REPOSITORY, Finished, free_port, run, wait_until
from support.server import Server, command, running_server
from support.streams import BOTH, judged

from quiver_fast.extras import how_to_install

Connect = Callable[..., tuple[Server, Clients]]

# The most visits of one reading (readings.pxi), and of queues with a label (container.pxi).
VISITS = 2000
LABELS = 500
OTHERS = "(others)"


@pytest.fixture
def port() -> int:
    return free_port()


def queue(metrics: Metrics, name: str, queue: str = "queue0") -> float:
    return metrics.value(f"quiver_server_queue_{name}", queue=queue)


def both(metrics: Metrics, name: str) -> tuple[float, float]:
    return tuple(  # type: ignore[return-value]
        metrics.value(f"quiver_server_{name}", direction=direction) for direction in ("in", "out")
    )


def test_a_message_on_its_way(connect: Connect, port: int) -> None:
    """Each figure follows a message from the producer to the outcome."""
    _, clients = connect(metrics_port=port)
    empty = scrape(port)
    assert (queue(empty, "depth"), queue(empty, "head_age_seconds")) == (0, 0)
    connection = clients.connect()
    producer = clients.producer(connection, "queue0")
    producer.publish("one", "two", "three")
    waiting = scrape(port)
    assert queue(waiting, "depth") == 3
    assert queue(waiting, "bytes") > 0
    assert queue(waiting, "producers") == 1
    assert both(waiting, "messages_total") == (3, 0)
    assert both(waiting, "message_bytes_total")[0] > len("onetwothree")
    assert waiting.value("quiver_server_connections") == 1
    assert waiting.value("quiver_server_links") == 1
    # The producer's credit is between half and all of its window.
    assert both(waiting, "credit")[0] >= 32
    consumer = clients.consumer(connection, "queue0", credit=10)
    received = consumer.take(3)
    taken = scrape(port)
    assert (queue(taken, "depth"), queue(taken, "unsettled")) == (3, 3)
    assert queue(taken, "consumers") == 1
    assert both(taken, "unsettled_deliveries") == (0, 3)
    assert both(taken, "messages_total") == (3, 3)
    assert both(taken, "credit")[1] == 7
    for each in received:
        each.accept()
    clients.wait(lambda: queue(scrape(port), "depth") == 0, "the queue is empty")
    ended = scrape(port)
    assert ended.value("quiver_server_queue_messages_total", queue="queue0", direction="in") == 3
    assert ended.value("quiver_server_queue_messages_total", queue="queue0", direction="out") == 3
    assert queue(ended, "bytes") == 0
    assert ended.value("quiver_server_connections_accepted_total") == 1
    assert ended.value("process_resident_memory_bytes") > 1e6


def test_messages_that_take_the_short_way(connect: Connect, port: int) -> None:
    """Whole messages without a header, as our arrow sends them (`take_whole`)."""
    server, _ = connect(metrics_port=port)
    for operation in ("send", "receive"):
        end = run_pyfast(*arguments(operation, server.port, count=100))
        assert end.code == 0, end
    metrics = scrape(port)
    assert both(metrics, "messages_total") == (100, 100)
    came, went = both(metrics, "message_bytes_total")
    assert came == went > 100 * 100
    assert queue(metrics, "depth") == 0


def test_the_age_of_the_head(connect: Connect, port: int) -> None:
    """It grows while the message waits, and a released message keeps its age."""
    _, clients = connect(metrics_port=port)
    connection = clients.connect()
    clients.producer(connection, "queue0").publish("old")
    put = time.monotonic()
    wait_until(lambda: queue(scrape(port), "head_age_seconds") >= 0.3, "it is old")
    assert time.monotonic() - put >= 0.3 - 0.032
    consumer = clients.consumer(connection, "queue0", credit=1)
    [message] = consumer.take(1)
    assert queue(scrape(port), "head_age_seconds") == 0
    message.settle(Delivery.RELEASED)
    clients.wait(lambda: queue(scrape(port), "head_age_seconds") >= 0.3, "it is as old as before")


def test_a_topic_is_its_subscriptions(connect: Connect, port: int) -> None:
    _, clients = connect(metrics_port=port, path="topic0")
    connection = clients.connect()
    consumers = [clients.consumer(connection, "topic0", credit=0) for _ in range(2)]
    clients.producer(connection, "topic0").publish("one")
    found = scrape(port)
    assert queue(found, "depth", "topic0") == 2
    assert queue(found, "consumers", "topic0") == len(consumers)


@BOTH
def test_many_queues_and_links_cost_a_bounded_reading(
    connect: Connect, port: int, request: pytest.FixtureRequest, measures: bool
) -> None:
    """500 of 10,000 queues have a label, the others share one; not all 2,100 links are visited."""
    names = [f"q{number}" for number in range(10_000)]
    _, clients = connect(metrics_port=port, addresses=",".join(names))
    connection = clients.connect()
    for name in ("q1", "q9998", "q9999"):
        clients.producer(connection, name).publish("x")
    session = connection.session()
    session.open()
    links = [session.sender(f"many-{number}") for number in range(2_100)]
    for number, link in enumerate(links):
        link.target.address = f"q{number}"
        link.open()
    clients.wait(lambda: all(link.credit for link in links), "all links have credit")
    found = scrape(port)
    assert found.value("quiver_server_queues") == 10_001
    labels = found.labels("quiver_server_queue_depth", "queue")
    assert len(labels) == LABELS + 1
    assert {"queue0", "q0", "q1", OTHERS} <= {*labels}
    assert (queue(found, "depth", "q1"), queue(found, "depth", OTHERS)) == (1, 2)
    assert queue(found, "bytes", OTHERS) == 2 * queue(found, "bytes", "q1")
    assert found.value("quiver_server_links") == 2_103
    assert found.value("quiver_server_scrape_visits") == VISITS
    assert found.value("quiver_server_scrape_complete") == 0
    assert VISITS - 10 < found.sum("quiver_server_links_read") < VISITS
    for _ in range(5):
        clients.pause()
        found = scrape(port)
    mean = found.sum("quiver_server_scrape_loop_seconds_total") / found.sum(
        "quiver_server_scrapes_total"
    )
    # Counted by the server itself; its thread may be preempted.
    judged(request, measures)("seconds of a reading", mean, at_most=0.001, unit="s")


def test_a_queue_that_goes_gives_its_name_to_another(connect: Connect, port: int) -> None:
    """Queues that clients make come and go; those with names of their own have no series."""
    _, clients = connect(metrics_port=port)
    connection = clients.connect()
    for number in range(3):
        producer = clients.producer(connection, f"made-{number}")
        assert f"made-{number}" in scrape(port).labels("quiver_server_queue_depth", "queue")
        producer.close()
        wait_until(
            lambda: scrape(port).labels("quiver_server_queue_depth", "queue") == ["queue0", OTHERS],
            "it is gone",
        )
    before = scrape(port)
    session = connection.session()
    session.open()
    receiver = session.receiver("dynamic")
    receiver.source.dynamic = True
    receiver.open()
    clients.wait(lambda: bool(receiver.remote_source.address), "the node is made")
    found = scrape(port)
    assert found.value("quiver_server_queues") == before.value("quiver_server_queues") + 1
    assert found.labels("quiver_server_queue_depth", "queue") == ["queue0", OTHERS]


def test_syncs(connect: Connect, port: int, tmp_path: Path) -> None:
    _, clients = connect(metrics_port=port, store=tmp_path / "store", durability="group")
    assert scrape(port).value("quiver_server_syncs_total") == 0
    clients.producer(clients.connect(), "queue0").publish("x", durable=True)
    found = scrape(port)
    assert found.value("quiver_server_syncs_total") >= 1
    assert found.value("quiver_server_synced_files_total") >= 1
    assert found.value("quiver_server_sync_seconds_total") > 0
    assert found.value("quiver_server_unsynced_deliveries") == 0


def test_remote_queues_alone(tmp_path: Path, port: int) -> None:
    with running_server(tmp_path, scheme="csp", path="", metrics_port=port) as server:
        assert scrape(port).value("quiver_server_remote_connections") == 0
        with socket.create_connection(("127.0.0.1", server.port)):
            wait_until(
                lambda: scrape(port).value("quiver_server_remote_connections") == 1,
                "the connection is counted",
            )


def test_the_document_has_every_metric(tmp_path: Path, port: int) -> None:
    """And none that is not there."""
    keys = {"store": tmp_path / "store", "csp_port": free_port()}
    with running_server(tmp_path, metrics_port=port, **keys):
        served = {*re.findall(r"^# TYPE (quiver_server_\w+)", scrape_text(port), re.MULTILINE)}
    text = (REPOSITORY / "docs" / "metrics.md").read_text()
    told = {*re.findall(r"`(quiver_server_\w+)", text)}
    assert served == told


def test_scrapes_beside_traffic(connect: Connect, port: int) -> None:
    """Many at once are answered one after the other, and the server ends in order meanwhile."""
    _, clients = connect(metrics_port=port)
    producer = clients.producer(clients.connect(), "queue0")
    failures: list[BaseException] = []

    def ask() -> None:
        try:
            for _ in range(20):
                scrape(port)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    producer.publish(*(f"{number}" for number in range(500)))
    for thread in threads:
        thread.join()
    assert failures == []
    assert scrape(port).value("quiver_server_scrapes_total") == 81


@pytest.mark.parametrize(
    ("method", "status"),
    [("HEAD", 200), *((method, 405) for method in ("OPTIONS", "POST", "PUT", "PATCH", "DELETE"))],
)
def test_other_methods(connect: Connect, port: int, method: str, status: int) -> None:
    """RFC 9110, 9.3.2 and 15.5.6."""
    connect(metrics_port=port)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=10)) as client:
        client.request("GET", "/metrics")
        size = len(client.getresponse().read())
        client.request(method, "/metrics")
        answer = client.getresponse()
        text = answer.read()
    assert answer.status == status
    if method == "HEAD":
        assert text == b""
        assert abs(int(answer.headers["Content-Length"]) - size) < 100
    else:
        assert (text, answer.headers["Allow"]) == (b"metrics are read with GET\n", "GET, HEAD")


def test_what_is_not_metrics(connect: Connect, port: int) -> None:
    connect(metrics_port=port)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/secrets")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (404, b"metrics are at /metrics\n")
    # A silent client does not delay others for long.
    with socket.create_connection(("127.0.0.1", port)):
        assert scrape(port).value("quiver_server_scrapes_total") == 1
    connection.request("GET", "/")
    text = connection.getresponse()
    assert text.getheader("Content-Type", "").startswith("text/plain; version=")
    assert b"quiver_server_connections 0.0" in text.read()


@pytest.mark.parametrize("wanted", ["application/openmetrics-text", "text/plain"])
def test_a_version_that_cannot_be_read(connect: Connect, port: int, wanted: str) -> None:
    """The library fails on it; the thread that answers goes on."""
    connect(metrics_port=port)
    for _ in range(2):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/metrics", headers={"Accept": f"{wanted};version=1.0.x"})
        answer = connection.getresponse()
        assert answer.status == 200
        assert b"quiver_server_connections 0.0" in answer.read()


# The connections that metrics/http.py serves at once.
SCRAPERS = 16


def test_slow_scrapers_keep_nobody_from_the_metrics(connect: Connect, port: int) -> None:
    """Some say nothing, some never read the answer, and one sends its request byte by byte."""
    connect(metrics_port=port)
    over = threading.Event()
    with ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            for _ in range(2 * SCRAPERS)
        ]
        for client in clients[::2]:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 100)

        def dribble() -> None:
            while not over.wait(0.3):
                clients[-1].sendall(b"x")

        thread = threading.Thread(target=dribble)
        thread.start()
        try:
            for _ in range(3):
                assert scrape(port).value("quiver_server_connections") == 0
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_a_scraper_has_one_deadline(connect: Connect, port: int, sent: bytes) -> None:
    """It covers the request and the answer: such a connection ends on its own."""
    connect(metrics_port=port)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as scraper:
        scraper.sendall(sent)
        while scraper.recv(65536):
            pass


def test_the_head_of_a_request_has_an_end(connect: Connect, port: int) -> None:
    connect(metrics_port=port)
    with socket.create_connection(("127.0.0.1", port), timeout=60) as scraper:
        scraper.sendall(b"GET /metrics HTTP/1.1\r\n")

        def send_for_ever() -> None:
            while True:
                scraper.sendall(b"Endless: header\r\n" * 1000)

        with pytest.raises(ConnectionError):
            send_for_ever()


def test_port_0_is_told(tmp_path: Path) -> None:
    says = "metrics at http://127.0.0.1:"
    with running_server(tmp_path, metrics_port=0, says=says) as server:
        ports = {
            one.laddr.port for one in server.process.net_connections() if one.status == "LISTEN"
        }
        [port] = ports - {server.port}
        assert scrape(port).value("quiver_server_connections") == 0


def failure(**keys: object) -> Finished:
    return run(command(free_port(), metrics_port=0, **keys))


def test_without_the_library(tmp_path: Path) -> None:
    end = run(command(free_port(), metrics_port=0), env=without_prometheus_client(tmp_path))
    assert (end.code, end.stderr) == (
        1,
        "quiver-server-pyfast: error: --metrics-port needs prometheus_client: "
        f"{how_to_install('metrics')}\n",
    )


def test_where_it_cannot_be_served() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        end = run(command(free_port(), metrics_port=port))
    assert (end.code, end.stderr) == (
        1,
        "quiver-server-pyfast: error: cannot serve metrics on "
        f"127.0.0.1:{port}: Address already in use\n",
    )
    end = failure(metrics_host="no.such.host.invalid")
    assert end.code == 1
    assert end.stderr.startswith(
        "quiver-server-pyfast: error: --metrics-host: cannot resolve host 'no.such.host"
    )
    end = run(command(free_port(), metrics_port=65536))
    assert end.code == 2
    assert "metrics-port" in end.stderr
