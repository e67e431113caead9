"""`quiver --churn`: connections, sessions or links that come and go at a rate."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from quiver_fast.analysis.read.answer_file import CHURN
from quiver_fast.arrow.amqp.attempts import STEPS
from quiver_fast.arrow.amqp.churn import MOST_PENDING, Churn
from quiver_fast.arrow.main import address_at, make_template
from quiver_fast.cli.pair.connecting import (
    ConnectingRun,
    Process,
    failures,
    latency_of,
    server_at,
)
from quiver_fast.cli.pair.figures_text import campaign_text
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
        return campaign_text(CHURN, document)


def _cost(server: Process) -> dict[str, Any]:
    server.mark()
    return {
        "pid": server.pid,
        "memory_begin": server.memory[0],
        "memory_end": server.memory[-1],
        "cpu_seconds": sum(server.cpu_seconds),
    }
