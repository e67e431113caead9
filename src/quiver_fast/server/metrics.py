"""The server's metrics: a reading of the loop as metric families of Prometheus."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any, Protocol

from quiver_fast.metrics.http import MetricsServer
from quiver_fast.server.server import Figures, QueueFigures, Readings

OTHERS = "(others)"
"""The label for all queues without a label of their own."""


class Remote(Protocol):
    """The server of remote queues."""

    @property
    def count(self) -> int:
        """The number of connections."""


class ServerMetrics:
    """Serves the metrics of one server until it is closed.

    Attributes:
        url: the URL of the metrics.
    """

    def __init__(
        self, host: str, port: int, readings: Readings, remote: Remote | None = None
    ) -> None:
        """Begin to serve. The loop need not run yet.

        Args:
            host: the host to listen on.
            port: the port to listen on; 0 for any.
            readings: asks the loop for readings.
            remote: the server of remote queues, if there is one.

        Raises:
            QuiverError: ``prometheus_client`` is missing, or the address cannot be used.
        """
        self._readings = readings
        self._remote = remote
        self._server = MetricsServer(host, port, self)
        self.url = self._server.url
        # The present objects stay for good. Without them this thread's garbage collections are
        # short, and the loop waits less for the interpreter.
        gc.freeze()

    def close(self) -> None:
        """Stop serving. Call it after the end of the loop."""
        self._server.close()
        self._readings.close()

    def collect(self) -> Iterator[Any]:
        """Return the families, from a new reading.

        Raises:
            QuiverError: the loop does not answer.
        """
        figures = self._readings.take()
        if figures.amqp is not None:
            yield from _amqp(figures.amqp)
            # A name may occur twice if it was cut or if its queue is being deleted.
            named = {one.name: one for one in figures.queues if one.name != OTHERS}
            yield from _queues(list(named.values()), figures.amqp)
        if figures.syncs is not None:
            yield from _syncs(figures.syncs)
        if self._remote is not None:
            yield _gauge("remote_connections", "Connections over csp", self._remote.count)
        yield from _memory(figures)
        yield from _readings_cost(figures)


def _gauge(name: str, about: str, value: float) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    return GaugeMetricFamily(f"quiver_server_{name}", about, value)


def _counter(name: str, about: str, value: float) -> Any:
    from prometheus_client.core import CounterMetricFamily

    return CounterMetricFamily(f"quiver_server_{name}", about, value)


def _by_direction(kind: Any, name: str, about: str, values: dict[str, int]) -> Any:
    family = kind(f"quiver_server_{name}", about, labels=["direction"])
    for direction, value in values.items():
        family.add_metric([direction], value)
    return family


def _amqp(amqp: dict[str, Any]) -> Iterator[Any]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    yield _gauge("connections", "AMQP connections", amqp["connections"])
    yield _counter("connections_accepted", "AMQP connections since the start", amqp["accepted"])
    yield _gauge("links", "Links of all connections", amqp["links"])
    yield _by_direction(
        CounterMetricFamily, "messages", "Complete messages from and to clients", amqp["messages"]
    )
    yield _by_direction(CounterMetricFamily, "message_bytes", "Their bytes", amqp["message_bytes"])
    yield _by_direction(
        GaugeMetricFamily, "links_read", "Links that credit was added up of", amqp["links_read"]
    )
    yield _by_direction(
        GaugeMetricFamily,
        "credit",
        "Credit of the links read: given to producers (in), given by consumers (out)",
        amqp["credit"],
    )
    yield _by_direction(
        GaugeMetricFamily,
        "unsettled_deliveries",
        "Deliveries that are not settled, of the connections read",
        amqp["unsettled"],
    )
    yield _gauge(
        "unsynced_deliveries",
        "Deliveries whose answer waits for the disk",
        amqp["waiting_for_sync"],
    )


def _queues(queues: list[QueueFigures], amqp: dict[str, Any]) -> Iterator[Any]:
    yield _gauge("queues", "Queues, topics and subscriptions", amqp["queues"])
    rest = {
        "depth": max(amqp["depth"] - sum(one.depth for one in queues), 0),
        "bytes": max(amqp["bytes"] - sum(one.bytes for one in queues), 0),
    }
    yield _by_queue("queue_depth", "Messages in the queue", queues, "depth", rest["depth"])
    yield _by_queue("queue_bytes", "Memory of its messages", queues, "bytes", rest["bytes"])
    yield _by_queue("queue_unsettled", "Messages of it that consumers have", queues, "unsettled")
    yield _by_queue("queue_consumers", "Consumers", queues, "consumers")
    yield _by_queue("queue_producers", "Producers, of the links read", queues, "producers")
    yield _by_queue(
        "queue_head_age_seconds",
        "How long its first available message has been in it; 0 without one",
        queues,
        "age",
    )
    yield _moved(queues)


def _by_queue(
    name: str, about: str, queues: list[QueueFigures], key: str, rest: int | None = None
) -> Any:
    from prometheus_client.core import GaugeMetricFamily

    family = GaugeMetricFamily(f"quiver_server_{name}", about, labels=["queue"])
    for one in queues:
        family.add_metric([one.name], getattr(one, key) or 0)
    if rest is not None:
        family.add_metric([OTHERS], rest)
    return family


def _moved(queues: list[QueueFigures]) -> Any:
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily(
        "quiver_server_queue_messages",
        "Messages that came into the queue, and that left it, for whatever reason",
        labels=["queue", "direction"],
    )
    for one in queues:
        # A topic's sums leave out deleted subscriptions: they may shrink, so they are no counters.
        if not one.topic:
            family.add_metric([one.name, "in"], one.came)
            family.add_metric([one.name, "out"], one.came - one.depth)
    return family


def _syncs(syncs: dict[str, Any]) -> Iterator[Any]:
    yield _counter("syncs", "Batches of files that were synced to disk", syncs["batches"])
    yield _counter("synced_files", "Files in these batches", syncs["files"])
    yield _counter("sync_seconds", "Time that they took", syncs["seconds"])


def _memory(figures: Figures) -> Iterator[Any]:
    yield _gauge(
        "held_bytes", "Memory that connections hold besides what is in queues", figures.held
    )
    yield _gauge("held_bytes_limit", "How much of it they may hold", figures.held_limit)


def _readings_cost(figures: Figures) -> Iterator[Any]:
    yield _counter("scrapes", "Readings that the loop took", figures.readings)
    yield _counter("scrape_loop_seconds", "Time of the loop that they took", figures.spent)
    yield _gauge("scrape_visits", "Things that the last reading looked at", figures.visits)
    yield _gauge(
        "scrape_complete",
        "1 if the last reading looked at all connections and links, else 0",
        int(figures.all_visited),
    )
