"""Metrics of running arrows for Prometheus: the sums of their snapshots."""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from quiver_fast.analysis.model.units import per_millisecond, seconds_text
from quiver_fast.cli.arrow.snapshots import Snapshot
from quiver_fast.cli.shared.quantities import count, within
from quiver_fast.errors import EXIT_SIGNAL
from quiver_fast.metrics.http import LOOPBACK, MetricsServer
from quiver_fast.options.rules import METRICS_RULE, check

BOUNDS = tuple(digit * 10.0**power for power in range(-5, 2) for digit in (1, 2, 5))
"""The upper bounds of the buckets of latencies, in seconds: 10 us to 50 s."""


@dataclass
class _End:
    """The work of one end since the command's start, in all runs."""

    messages: int = 0
    cpu_seconds: float = 0.0
    rss: int = 0
    counts: list[int] = field(default_factory=lambda: [0] * len(BOUNDS))
    count: int = 0
    sum: float = 0.0
    settlement: float | None = None

    def add(self, period: Snapshot) -> None:
        self.messages += period.period_count
        self.cpu_seconds += period.period_cpu_time / 1000
        self.rss = period.rss
        self.settlement = None if period.settlement_us is None else period.settlement_us / 1e6
        if period.latencies is None or period.latency_us is None:
            return
        self.count += period.latencies.count
        # Clocks that differ make latencies below 0; Prometheus takes a falling sum for a restart.
        self.sum += max(period.latency_us, 0) / 1e6 * period.latencies.count
        ticks = 1000 * per_millisecond(period.time_unit)
        found = period.latencies.counts_up_to([bound * ticks for bound in BOUNDS])
        self.counts = [before + new for before, new in zip(self.counts, found, strict=True)]

    @property
    def latencies(self) -> tuple[list[tuple[str, int]], float] | None:
        """The cumulative counts by upper bound, and the sum; None without any."""
        bounds = [f"{bound:g}" for bound in BOUNDS]
        buckets = [*zip(bounds, self.counts, strict=True), ("+Inf", self.count)]
        return (buckets, self.sum) if self.count else None


# The kind of each metric, its name and help, and its values of an end; an end may have none.
_METRICS: tuple[tuple[str, str, str, Callable[[_End], Any]], ...] = (
    ("Counter", "quiver_messages", "Messages transferred", lambda end: (end.messages,)),
    ("Counter", "quiver_cpu_seconds", "CPU time of the arrow", lambda end: (end.cpu_seconds,)),
    ("Gauge", "quiver_resident_bytes", "Memory of the arrow", lambda end: (end.rss,)),
    ("Histogram", "quiver_latency_seconds", "Latency of messages", lambda end: end.latencies),
    (
        "Gauge",
        "quiver_settlement_seconds",
        "Mean latency of the settlements between the last two snapshots",
        lambda end: None if end.settlement is None else (end.settlement,),
    ),
)


class Meter:
    """Adds up the periods of arrows, and makes metrics of them for another thread."""

    def __init__(self) -> None:
        self._ends: dict[tuple[str, str], _End] = {}
        self._lock = threading.Lock()

    def note(self, role: str, number: int | None, period: Snapshot) -> None:
        """Add a period of an arrow.

        Args:
            role: ``sender`` or ``receiver``.
            number: the arrow's, among several; None for the only one.
            period: its work.
        """
        with self._lock:
            self._ends.setdefault((role, str(number or 0)), _End()).add(period)

    def collect(self) -> Iterator[Any]:
        """Return the families of ``prometheus_client``."""
        from prometheus_client import core

        with self._lock:
            for kind, name, text, values_of in _METRICS:
                family = getattr(core, f"{kind}MetricFamily")(name, text, labels=["side", "end"])
                for labels, end in self._ends.items():
                    values = values_of(end)
                    if values is not None:
                        family.add_metric(labels, *values)
                yield family


def add_metrics_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that serve metrics."""
    group = parser.add_argument_group("metrics options")
    group.add_argument(
        "--metrics-port",
        metavar="PORT",
        type=within(count, 0, 65535),
        help="Serve metrics for Prometheus at http://HOST:PORT/metrics while it runs (0 means any "
        "free port, which is printed). Needs the extra 'metrics'",
    )
    group.add_argument(
        "--metrics-host",
        metavar="HOST",
        help=f"Serve them on HOST: there are no users and no TLS (default {LOOPBACK})",
    )


def metered(name: str, args: argparse.Namespace, work: Callable[[], int]) -> int:
    """Do work, and serve metrics meanwhile if ``args`` ask for it; ``args.meter`` adds up.

    Args:
        name: the command's.
        args: its options.
        work: returns the exit code, which is returned.

    Raises:
        QuiverError: ``prometheus_client`` is missing, or the address cannot be used.
    """
    names = ("metrics_host", "metrics_port")
    given = {name.replace("_", "-") for name in names if getattr(args, name) is not None}
    check((METRICS_RULE,), given, "--{}".format)
    args.meter = None
    if args.metrics_port is None or args.init_only:
        return work()
    args.meter = Meter()
    server = MetricsServer(args.metrics_host or LOOPBACK, args.metrics_port, args.meter)
    try:
        if not args.quiet or args.metrics_port == 0:
            print(f"{name}: metrics at {server.url}", file=sys.stderr, flush=True)
        code = work()
        if code < EXIT_SIGNAL:
            _stay(name, server, args.quiet)
        return code
    finally:
        server.close()


def _stay(name: str, server: MetricsServer, quiet: bool) -> None:
    """Leave the figures of the end for a client that comes at intervals; a signal ends that."""
    seconds = server.seconds_to_scrape
    if not seconds:
        return
    if not quiet:
        most = f"{seconds_text(seconds)} at most"
        print(f"{name}: the metrics stay for the next scrape, {most}", file=sys.stderr, flush=True)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with suppress(KeyboardInterrupt):
            server.wait_for_scrape(seconds)
    finally:
        signal.signal(signal.SIGTERM, before)
