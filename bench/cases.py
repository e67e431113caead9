"""The workloads that the gates run; their limits are in floors.toml under the same names."""

from __future__ import annotations

from dataclasses import replace

from bench.runner import Case

# Counts are about a second of the reference; --bench-full takes three times as many.
# Large bodies have a small window: the reference holds all of it in memory.
THROUGHPUT = {
    "body-100": Case(2_000_000),
    "message-ids": Case(800_000, message_ids=True),
    "settlement": Case(600_000, settlement=True),
    "body-0": Case(1_000_000, body_size=0),
    "body-1": Case(1_000_000, body_size=1),
    "body-1k": Case(400_000, body_size=1_000),
    "body-10k": Case(60_000, body_size=10_000),
    "body-100k": Case(6_000, body_size=100_000, credit=100),
    "body-1m": Case(600, body_size=1_000_000, credit=10),
    "credit-1": Case(20_000, credit=1),
    "credit-10": Case(150_000, credit=10),
    "credit-100": Case(600_000, credit=100),
    "credit-10k": Case(800_000, credit=10_000),
    "credit-100k": Case(600_000, credit=100_000),
}
LATENCY = {
    "latency-10k": Case(20_000, rate=10_000, time_unit="us"),
    "latency-50k": Case(100_000, rate=50_000, time_unit="us"),
    "latency-100k": Case(200_000, rate=100_000, time_unit="us"),
}
# The delay of the sender, which stays awake, after its schedule; the reference sleeps.
SCHEDULE = {
    "schedule-1k": Case(2_000, rate=1_000, time_unit="us"),
    "schedule-10k": Case(20_000, rate=10_000, time_unit="us"),
}
# Through the server against the same pair without one.
STREAMS = {
    "stream-1m": Case(600, body_size=1_000_000, credit=10, streaming=True, time_unit="us"),
    "stream-100m": Case(12, body_size=100_000_000, credit=4, streaming=True, time_unit="us"),
    "stream-10g": Case(1, body_size=10_000_000_000, credit=1, streaming=True, time_unit="us"),
}
# Through a server: sender and receiver are its clients, three processes in all.
THROUGH_SERVER = {
    "server-100": Case(500_000),
    "server-1k": Case(200_000, body_size=1_000),
    "server-10k": Case(40_000, body_size=10_000),
    # Memory of the server with consumers that keep up.
    "server-paced": Case(100_000, rate=50_000, time_unit="us"),
}
TCP_SHARE = {"tcp-share-100k": THROUGHPUT["body-100k"], "tcp-share-1m": THROUGHPUT["body-1m"]}
# One message; its size with and without --bench-full.
STREAM = Case(1, body_size=2_000_000_000, credit=10, streaming=True, time_unit="us")
STREAM_FULL = replace(STREAM, body_size=10_000_000_000)

# Against the tree before the data plane. Counts are a second of the goal.
REACH = {
    "old-body-100": replace(THROUGHPUT["body-100"], count=4_000_000),
    "old-message-ids": replace(THROUGHPUT["message-ids"], count=3_000_000),
    "old-settlement": replace(THROUGHPUT["settlement"], count=2_000_000),
    "old-credit-1": THROUGHPUT["credit-1"],
    "old-credit-10": THROUGHPUT["credit-10"],
    "old-credit-100": replace(THROUGHPUT["credit-100"], count=1_000_000),
    "old-credit-10k": replace(THROUGHPUT["credit-10k"], count=4_000_000),
    "old-body-1k": replace(THROUGHPUT["body-1k"], count=1_000_000),
    "old-body-10k": replace(THROUGHPUT["body-10k"], count=150_000),
    "old-body-100k": replace(THROUGHPUT["body-100k"], count=20_000),
    "old-body-1m": replace(THROUGHPUT["body-1m"], count=2_000),
}
REACH_LATENCY = {f"old-{name}": case for name, case in LATENCY.items()}
REACH_SERVER = {"old-server-100": Case(1_000_000)}
REACH_STREAMS = {
    "old-stream-1m": replace(STREAMS["stream-1m"], count=2_000),
    "old-stream-100m": replace(STREAMS["stream-100m"], count=30),
}

# Cases above that the data plane's table has as well.
IN_REACH = {"body-100"}

# Cases that run without --bench-full.
QUICK = {
    "body-100",
    "message-ids",
    "settlement",
    "body-1k",
    "body-10k",
    "body-100k",
    "credit-1",
    "credit-100k",
    "latency-50k",
    "schedule-10k",
    "tcp-share-100k",
    "server-100",
    "server-paced",
}
