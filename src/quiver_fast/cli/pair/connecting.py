"""What `quiver --churn` and `--hold` share: whom they connect to, how, and what that costs."""

from __future__ import annotations

import argparse
import ipaddress
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psutil

from quiver_fast.arguments import endpoint
from quiver_fast.arrow import make_connection, security_of
from quiver_fast.cli.arrow.plan import ArrowOptions, ArrowPlan, contract_arguments, new_id
from quiver_fast.cli.arrow.queue_setup import QueueOptions
from quiver_fast.cli.arrow.summary_text import number_field
from quiver_fast.cli.shared.implementations import DEFAULT_IMPLEMENTATION, find_arrow
from quiver_fast.contract import parse
from quiver_fast.errors import UsageError
from quiver_fast.process import Usage
from quiver_fast.run.control import Control

if TYPE_CHECKING:
    import socket

    from quiver_fast.engine.connection import Connection

__all__ = ["Server", "Target", "failures", "failures_text", "server_lines"]

# --timeout 0 is for ever, which a clock does not have.
_FOR_EVER = 10**9


class Target:
    """A server, and connections to it as an arrow of ours makes them."""

    def __init__(self, args: argparse.Namespace, flag: str) -> None:
        """Check what is asked for.

        Args:
            args: the options of `quiver`.
            flag: what is asked for, for messages.

        Raises:
            UsageError: it cannot be done.
        """
        self.queue = QueueOptions.from_arguments(args)
        identity = new_id("send")
        url = self.queue.url(args.url, identity)
        if url.scheme == "csp":
            raise UsageError(f"{flag} needs an amqp or amqps URL")
        self.plan = ArrowPlan(
            operation="send",
            implementation=find_arrow(DEFAULT_IMPLEMENTATION),
            url=url,
            options=ArrowOptions.from_arguments(args, url),
            id=identity,
        )
        self.config = parse(contract_arguments(self.plan))
        self.config.password = self.plan.options.password
        self._security = security_of(self.config)
        self._place = endpoint(self.config.host, self.config.port)
        self._control = Control()
        self._made = 0

    @property
    def timeout(self) -> int:
        """Seconds that an attempt may take."""
        return self.plan.options.timeout or _FOR_EVER

    def connect(self, sock: socket.socket) -> Connection:
        """Return the connection of a connected socket."""
        self._made += 1
        name = f"{self.config.id}-{self._made}"
        return make_connection(self.config, sock, self._place, name, self._security, self._control)


@dataclass
class Server:
    """The process of a server on this machine, and what it took at the beginning."""

    pid: int
    usage: Usage
    memory: int
    cpu_ms: int

    @classmethod
    def at(cls, address: str, port: int) -> Server | None:
        """Return the process that listens there; None if it is not here, or not to be seen."""
        if not ipaddress.ip_address(address.partition("%")[0]).is_loopback:
            return None
        try:
            found = psutil.net_connections("tcp")
        except psutil.Error:
            return None
        listening = [one for one in found if one.status == psutil.CONN_LISTEN and one.laddr]
        pids = {one.pid for one in listening if one.laddr[1:] == (port,) and one.pid}
        if len(pids) != 1:
            return None
        usage = Usage(pid := pids.pop())
        usage.sample()
        return cls(pid, usage, usage.rss, usage.cpu_ms)

    def figures(self) -> dict[str, Any]:
        """Return what it takes now, beside what it took at the beginning."""
        self.usage.sample()
        return {
            "pid": self.pid,
            "memory_begin": self.memory,
            "memory_end": self.usage.rss,
            "cpu_seconds": (self.usage.cpu_ms - self.cpu_ms) / 1000,
        }


def failures(reasons: Mapping[str, int]) -> list[dict[str, Any]]:
    """Return the reasons of failures and their counts, the commonest first."""
    return [{"reason": one, "count": count} for one, count in Counter(reasons).most_common()]


def failures_text(found: list[dict[str, Any]]) -> list[str]:
    """Return a line for each reason of failures."""
    width = max((len(f"{one['count']:,}") for one in found), default=0)
    return [f"{one['count']:>{width},}  {one['reason']}" for one in found]


def server_lines(found: Mapping[str, Any] | None) -> list[str]:
    """Return lines of what a server took; none where its process is not known."""
    if found is None:
        return []
    return [
        number_field("Server memory before", found["memory_begin"] / 1e6, "MB", ",.1f"),
        number_field("Server memory after", found["memory_end"] / 1e6, "MB", ",.1f"),
        number_field("Server CPU time", found["cpu_seconds"], "seconds", ",.2f"),
    ]
