"""`quiver --churn`: connections, sessions or links that come and go at a rate."""

from __future__ import annotations

import argparse
import time
from typing import Any

from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.read.set_layout import CHURN_DOCUMENT
from quiver_fast.arrow.amqp.attempts import STEPS
from quiver_fast.arrow.amqp.churn import MOST_FLYING, Churn
from quiver_fast.arrow.amqp.connection import Connection
from quiver_fast.arrow.amqp.ends import allow_files
from quiver_fast.arrow.main import address_at, make_template
from quiver_fast.cli.arrow.queue_setup import QueueSetup
from quiver_fast.cli.arrow.summary_text import number_field, section, text_field
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.pair.connecting import (
    Process,
    Target,
    failures,
    failures_text,
    latency_of,
    latency_table,
    server_at,
)
from quiver_fast.cli.pair.run_set import remove_set
from quiver_fast.cli.shared.common import report_error
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.output import make_output_dir, write_json
from quiver_fast.cli.shared.progress import Progress
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK
from quiver_fast.schemas import marked


class ChurnRun:
    """One run, from the queue's preparation to the report."""

    def __init__(self, command: str, args: argparse.Namespace, console: Console) -> None:
        """Prepare a run.

        Args:
            command: who speaks.
            args: the options of `quiver`, checked.
            console: where the report goes.

        Raises:
            UsageError: it cannot be done.
        """
        self._command, self._args, self._console = command, args, console
        self._target = Target(args, "--churn")
        self._template = make_template(self._target.config)
        self._signals = SignalWatch()
        queue, plan = self._target.queue, self._target.plan
        self._queue = QueueSetup(command, queue, plan, console, self._signals)

    def run(self) -> int:
        """Measure and report; return the exit code.

        Raises:
            QuiverError: the host does not resolve, or the queue cannot be prepared.
        """
        directory = make_output_dir(self._args.output)
        self._console.note(f"Saving output files to '{directory}'")
        remove_set(directory)
        allow_files(MOST_FLYING)
        with self._signals:
            self._queue.prepare()
            try:
                document = self._measure()
            finally:
                self._queue.close()
        document = marked("churn", {"output_dir": str(directory), **document})
        write_json(directory / CHURN_DOCUMENT, document)
        self._console.document(document)
        self._console.show(churn_text(document).rstrip("\n"))
        return self._verdict(document)

    def _measure(self) -> dict[str, Any]:
        target, args = self._target, self._args
        with Progress(f"churn {args.churn:,}/s", enabled=not args.quiet) as progress:

            def is_stopped() -> bool:
                progress.update(churn.due, args.churn * args.duration)
                return self._signals.count > 0

            churn = Churn(
                target.config.host,
                target.config.port,
                target.timeout,
                target.connect,
                is_stopped,
                kind=args.churn_of,
                rate=args.churn,
                duration=args.duration,
                address_at=self._address,
                make_message=self._message,
                name=target.config.id,
            )
            server = server_at(*churn.peer_address)
            churn.run()
        return self._document(churn) | {
            "server": server and _cost(server),
            "reason": self._signals.reason,
            "environment": environment(),
        }

    def _address(self, connection: Connection) -> str:
        return address_at(self._target.config, connection)

    def _message(self) -> bytes:
        return self._template.encode(time.time_ns() // 1_000_000)

    def _document(self, churn: Churn) -> dict[str, Any]:
        """Return what the engine counted; docs/limits.md has the keys."""
        seconds = churn.elapsed_ns / 1e9
        if not self._signals.count:
            seconds = max(seconds, self._args.duration)
        return {
            "workload": self._args.workload,
            "target": self._target.plan.url.shown,
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

    def _verdict(self, document: dict[str, Any]) -> int:
        """Say what went wrong, and return the exit code."""
        due, failed = document["attempts"]["due"], document["attempts"]["failed"]
        if failed:
            most = document["failures"][0]
            report_error(
                self._command,
                f"{failed:,} of {due:,} attempts failed, {most['count']:,} of them so: "
                f"{most['reason']}",
            )
        if self._signals.exit_code is not None:
            report_error(self._command, f"{self._signals.reason}: the churn was not over")
            return self._signals.exit_code
        return EXIT_FAILURE if failed else EXIT_OK


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
    """Return lines of what a server took; none where its process is not known."""
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
