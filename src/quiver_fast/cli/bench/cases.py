"""The cases of `quiver-bench --suite`: the options of `quiver`, and the figures that count."""

from __future__ import annotations

from dataclasses import dataclass

from quiver_fast.analysis.model.figures import FIGURES, SECONDS, Figure, Quantity

_RATE, _P50, _P99 = (FIGURES[name] for name in ("rate", "p50", "p99"))
_BYTES, _MICROSECONDS = Quantity("bytes", {}), Quantity("us", {})
_CHURNED = Figure("churn", Quantity("/s", {}), "achieved_rate", is_load=True)
_CHURN_P99 = Figure("p99 of all steps", _MICROSECONDS, "latency/p99_us")
_OPENING = Figure("p99 of opening", _MICROSECONDS, "opening/latency/p99_us")
_EACH = Figure("memory of each", _BYTES, "server/memory_each")
_ROUND_TRIPS = tuple(FIGURES[f"round_trip_{rank}"] for rank in ("p50", "p99"))
_DRAINED = Figure("backlog drained in", SECONDS, "backlog/seconds")
_RECOVERED = Figure("latency back after", SECONDS, "backlog/recovered_seconds")


@dataclass(frozen=True)
class Case:
    """One case.

    Attributes:
        name: of its row, its directory and its queue.
        options: those of `quiver`, besides URL, queue and duration.
        figures: those that are compared.
        runs: how many at each server: five are the fewest that have a verdict.
        product: the only broker that has it; empty for all.
        copies: its address copies messages: one of :data:`TOPICS`.
    """

    name: str
    options: str
    figures: tuple[Figure, ...] = (_RATE,)
    runs: int = 5
    product: str = ""
    copies: bool = False

    @property
    def connects(self) -> bool:
        """Whether it makes connections, and has no queue."""
        return self.options.startswith(("--churn", "--hold"))


SUITES = {
    "amqp-1": (
        # First and once: later a server has memory to spare, which connections take again.
        Case("hold", "--hold 1000", (_EACH, _OPENING), 1),
        Case("small", "--body-size 12 --credit 200"),
        Case("durable", "--body-size 12 --credit 200 --durable"),
        # The receiver is the slower end: without a count the queue would grow as long as it runs.
        Case("credit-1", "--body-size 12 --credit 1 --count 20k"),
        Case("credit-1000", "--body-size 12 --credit 1000"),
        # At full load latencies tell the length of the queue.
        Case("rate", "--rate 5k", (_P50, _P99)),
        Case("connections", "--senders 100 --receivers 100 --queues 10"),
        Case("backlog", "--backlog 100k --rate 1k", (_DRAINED, _RECOVERED)),
        Case(
            "quorum", "--declare --queue-type quorum --durable --body-size 12", product="RabbitMQ"
        ),
        Case(
            "stream", "--declare --queue-type stream --durable --body-size 12", product="RabbitMQ"
        ),
        Case("fan-out", "--fan-out --receivers 8 --rate 1k", (_P50, _P99), copies=True),
        Case("request-reply", "--request-reply --receivers 2 --rate 500", _ROUND_TRIPS),
        Case("churn", "--churn 100", (_CHURNED, _CHURN_P99)),
    ),
}
"""The cases of each suite, in the order of measuring."""

TOPICS = {
    "quiver-fast": ("topic-{}", ""),
    "RabbitMQ": ("exchanges/amq.fanout", ""),
    "apache-activemq-artemis": ("{}", "--declare --routing multicast --delete"),
    "ActiveMQ": ("topic://{}", ""),
    "Apache Qpid Broker-J Core": ("amq.topic/{}", ""),
}
"""By product, the path of a URL that copies a message to each receiver, and options for it."""
