"""`quiver --hold`: idle connections, and the cost of each."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from quiver_fast.analysis.read.answer_file import HOLD
from quiver_fast.arrow.amqp.hold import Hold
from quiver_fast.cli.pair.connecting import (
    ConnectingRun,
    Process,
    failures,
    latency_of,
    server_at,
)
from quiver_fast.cli.pair.figures_text import campaign_text
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
        return campaign_text(HOLD, document)


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
