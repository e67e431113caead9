"""`quiver --hold`: idle connections, and the cost of each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from quiver_fast.arrow.amqp.hold import Hold
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
from quiver_fast.words import counted


class HoldRun(ConnectingRun):
    """Opens connections, and keeps them."""

    name = "hold"
    unfinished = "the connections were not kept"

    def _connections(self) -> int:
        return int(self._args.hold)

    def _measure(self) -> dict[str, Any]:
        target, args = self._target, self._args
        with self._signals.raising():
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
        }

    def _problems(self, document: dict[str, Any]) -> Iterator[str]:
        failed, lost = document["opening"]["failed"], document["holding"]["lost"]
        for count, word, key in ((failed, "not opened", "failures"), (lost, "lost", "losses")):
            if count:
                most = document[key][0]
                asked = counted(self._args.hold, "connection", ("was", "were"))
                yield (
                    f"{count:,} of {asked} {word}, {most['count']:,} of them so: {most['reason']}"
                )

    def _text(self, document: dict[str, Any]) -> str:
        return hold_text(document)


def cost_of(process: Process, connections: int) -> dict[str, Any]:
    """Return the memory and the CPU time of a process, while opening and while holding."""
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
