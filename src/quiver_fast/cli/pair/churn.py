"""`quiver --churn`: connections, sessions or links that come and go at a rate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from quiver_fast.arrow.amqp.attempts import STEPS
from quiver_fast.arrow.amqp.churn import MOST_PENDING, Churn
from quiver_fast.arrow.main import address_at, make_template
from quiver_fast.cli.arrow.summary_text import number_field, section, text_field
from quiver_fast.cli.pair.connecting import (
    ConnectingRun,
    Process,
    failures,
    failures_text,
    latency_of,
    latency_table,
    server_at,
)
from quiver_fast.cli.shared.progress import Progress


class ChurnRun(ConnectingRun):
    """Opens connections, sessions or links at a rate."""

    name = "churn"
    unfinished = "the churn was not over"

    def _connections(self) -> int:
        return MOST_PENDING

    def _measure(self) -> dict[str, Any]:
        target, args = self._target, self._args
        template = make_template(target.config)
        with Progress(f"churn {args.churn:,}/s", enabled=not args.quiet) as progress:

            def is_stopped() -> bool:
                progress.update(churn.due, args.churn * args.duration)
                return self._signals.count > 0

            with self._signals.raising():
                churn = Churn(
                    target.config.host,
                    target.config.port,
                    target.timeout,
                    target.connect,
                    is_stopped,
                    kind=args.churn_of,
                    rate=args.churn,
                    duration=args.duration,
                    address_at=lambda connection: address_at(target.config, connection),
                    make_message=lambda: template.encode(time.time_ns() // 1_000_000),
                    name=target.config.id,
                )
            server = server_at(*churn.peer_address)
            churn.run()
        return self._document(churn) | {"server": server and _cost(server)}

    def _document(self, churn: Churn) -> dict[str, Any]:
        """Return the counts of the engine; docs/limits.md has the keys."""
        seconds = churn.elapsed_ns / 1e9
        if not self._signals.count:
            seconds = max(seconds, self._args.duration)
        return {
            "of": self._args.churn_of,
            "rate": self._args.churn,
            "duration": self._args.duration,
            "elapsed_seconds": seconds,
            "attempts": {
                "due": churn.due,
                "begun": churn.begun,
                "succeeded": churn.succeeded,
                "failed": churn.failed,
            },
            "achieved_rate": churn.succeeded / seconds if seconds else 0.0,
            "latency": latency_of(churn.latency),
            "steps": [
                {"step": step, "latency": latency_of(found)}
                for step, found in zip(STEPS, churn.steps, strict=True)
                if found.total
            ],
            "failures": failures(churn.reasons),
        }

    def _problems(self, document: dict[str, Any]) -> Iterator[str]:
        due, failed = document["attempts"]["due"], document["attempts"]["failed"]
        if failed:
            most = document["failures"][0]
            yield (
                f"{failed:,} of {due:,} attempts failed, {most['count']:,} of them so: "
                f"{most['reason']}"
            )

    def _text(self, document: dict[str, Any]) -> str:
        return churn_text(document)


def churn_text(document: dict[str, Any]) -> str:
    """Return the report that `quiver --churn` prints, from its document."""
    attempts, unit = document["attempts"], f"{document['of']}s"
    fields = [
        text_field("Target", document["target"]),
        number_field("Target rate", document["rate"], f"{unit}/s"),
        number_field("Achieved rate", document["achieved_rate"], f"{unit}/s"),
        *(number_field(name.capitalize(), count, unit) for name, count in attempts.items()),
        *_server(document["server"]),
        text_field("Output files", document["output_dir"]),
    ]
    text = section("CHURN", fields)
    if document["latency"]:
        text += section("STEPS", _steps(document))
    if document["failures"]:
        text += section("FAILURES", failures_text(document["failures"]))
    return text


def _steps(document: dict[str, Any]) -> list[str]:
    """Return a line for each step, and one for all of them together."""
    rows = [(one["step"], one["latency"]) for one in document["steps"]]
    table = latency_table([*rows, ("all", document["latency"])])
    return [*table, "", "Of attempts that succeeded; 'all' from when each was due to its end"]


def _server(found: dict[str, Any] | None) -> list[str]:
    """Return lines of a server's memory and CPU time; none where its process is not known."""
    if found is None:
        return []
    return [
        number_field("Server memory before", found["memory_begin"] / 1e6, "MB", ",.1f"),
        number_field("Server memory after", found["memory_end"] / 1e6, "MB", ",.1f"),
        number_field("Server CPU time", found["cpu_seconds"], "seconds", ",.2f"),
    ]


def _cost(server: Process) -> dict[str, Any]:
    server.mark()
    return {
        "pid": server.pid,
        "memory_begin": server.memory[0],
        "memory_end": server.memory[-1],
        "cpu_seconds": sum(server.cpu_seconds),
    }
