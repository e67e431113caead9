"""`quiver --hold`: idle connections, and what each of them costs."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from quiver_fast.analysis.figures.environment import environment
from quiver_fast.analysis.read.set_layout import HOLD_DOCUMENT
from quiver_fast.arrow.amqp.ends import allow_files
from quiver_fast.arrow.amqp.hold import Hold
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
from quiver_fast.errors import EXIT_FAILURE, EXIT_OK
from quiver_fast.schemas import marked


class HoldRun:
    """One run, from the first connection to the report."""

    def __init__(self, command: str, args: argparse.Namespace, console: Console) -> None:
        """Prepare a run; the arguments are those of :class:`ChurnRun`.

        Raises:
            UsageError: it cannot be done.
        """
        self._command, self._args, self._console = command, args, console
        self._target = Target(args, "--hold")
        self._signals = SignalWatch()

    def run(self) -> int:
        """Measure and report; return the exit code.

        Raises:
            QuiverError: the host does not resolve, or the system allows fewer connections.
        """
        directory = make_output_dir(self._args.output)
        self._console.note(f"Saving output files to '{directory}'")
        remove_set(directory)
        allow_files(self._args.hold)
        with self._signals:
            document = self._measure()
        document = marked("hold", {"output_dir": str(directory), **document})
        write_json(directory / HOLD_DOCUMENT, document)
        self._console.document(document)
        self._console.show(hold_text(document).rstrip("\n"))
        return self._verdict(document)

    def _measure(self) -> dict[str, Any]:
        target, args = self._target, self._args
        hold = Hold(
            target.config.host,
            target.config.port,
            target.timeout,
            target.connect,
            lambda: self._signals.count > 0,
            count=args.hold,
        )
        server, own = server_at(*hold.peer_address), Process(os.getpid())
        marked_ones = [one for one in (server, own) if one]
        times = [time.monotonic()]
        try:
            for step in (hold.open, lambda: hold.keep(args.duration)):
                step()
                times.append(time.monotonic())
                for one in marked_ones:
                    one.mark()
        finally:
            hold.close()
        return {
            "workload": args.workload,
            "target": target.plan.url.shown,
            "connections": args.hold,
            "duration": args.duration,
            "opening": {
                "seconds": times[1] - times[0],
                "opened": hold.opened,
                "failed": hold.failed,
                "latency": latency_of(hold.latency),
            },
            "holding": {"seconds": times[2] - times[1], "lost": hold.lost},
            "failures": failures(hold.reasons),
            "losses": failures(hold.losses),
            "server": server and cost_of(server, hold.opened),
            "own": cost_of(own, hold.opened),
            "reason": self._signals.reason,
            "environment": environment(),
        }

    def _verdict(self, document: dict[str, Any]) -> int:
        """Say what went wrong, and return the exit code."""
        failed, lost = document["opening"]["failed"], document["holding"]["lost"]
        for count, word, key in ((failed, "not opened", "failures"), (lost, "lost", "losses")):
            if count:
                most = document[key][0]
                report_error(
                    self._command,
                    f"{count:,} of {self._args.hold:,} connections were {word}, "
                    f"{most['count']:,} of them so: {most['reason']}",
                )
        if self._signals.exit_code is not None:
            report_error(self._command, f"{self._signals.reason}: the connections were not kept")
            return self._signals.exit_code
        return EXIT_FAILURE if failed or lost else EXIT_OK


def cost_of(process: Process, connections: int) -> dict[str, Any]:
    """Return what a process took before, after the opening, and after the holding."""
    begin, opened, end = process.memory
    return {
        "pid": process.pid,
        "memory_begin": begin,
        "memory_end": end,
        "memory_each": (opened - begin) / connections if connections else None,
        "cpu_opening": process.cpu_seconds[0],
        "cpu_holding": process.cpu_seconds[1],
    }


def hold_text(document: dict[str, Any]) -> str:
    """Return the report that `quiver --hold` prints, from its document."""
    opening, holding = document["opening"], document["holding"]
    fields = [
        text_field("Target", document["target"]),
        number_field("Opened", opening["opened"], "connections"),
        number_field("Not opened", opening["failed"], "connections"),
        number_field("Opening took", opening["seconds"], "seconds", ",.2f"),
        number_field("Held for", holding["seconds"], "seconds", ",.1f"),
        number_field("Lost", holding["lost"], "connections"),
        text_field("Output files", document["output_dir"]),
    ]
    text = section("HOLD", fields)
    if opening["latency"]:
        text += section("OPENING", latency_table([("open", opening["latency"])]))
    costs = [(name, document[name]) for name in ("server", "own") if document[name]]
    text += section("COST", _costs(costs, opening["opened"], holding["seconds"]))
    for heading, key in (("FAILURES", "failures"), ("LOSSES", "losses")):
        if document[key]:
            text += section(heading, failures_text(document[key]))
    return text


def _costs(costs: list[tuple[str, dict[str, Any]]], opened: int, seconds: float) -> list[str]:
    """Return a line for each process: its memory, and its CPU time for each connection."""
    lines = [f"{'':<8}{'before':>12}{'held':>12}{'each':>12}{'to open each':>15}{'to hold':>12}"]
    for name, cost in costs:
        each, opening = "-", "-"
        if opened:
            each = f"{cost['memory_each'] / 1e3:,.1f} kB"
            opening = f"{cost['cpu_opening'] / opened * 1e6:,.0f} us"
        share = f"{100 * cost['cpu_holding'] / seconds:.1f} %" if seconds else "-"
        memory = [f"{cost[key] / 1e6:,.1f} MB" for key in ("memory_begin", "memory_end")]
        values = "".join(f"{one:>12}" for one in (*memory, each))
        lines.append(f"{name:<8}{values}{opening:>15}{share:>12}")
    return [*lines, "", "Resident memory; CPU time to open a connection, CPU to hold them all"]
