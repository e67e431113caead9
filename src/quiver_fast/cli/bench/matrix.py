"""The matrix of `quiver-bench`: all combinations of installed implementations that can work."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from quiver_fast.cli.shared.implementations import (
    Implementation,
    all_arrows,
    all_servers,
    arrow_name,
    find_arrow,
    find_server,
    server_name,
)
from quiver_fast.errors import UsageError

_ALL, _NONE = "all", "none"
_NO_SERVER = "none"

_OWN_PROTOCOLS = {
    "activemq-artemis-jms": ("activemq-artemis",),
    "activemq-jms": ("activemq", "activemq-classic", "activemq-artemis"),
}
"""Arrows of other protocols, and the servers that understand them."""


@dataclass(frozen=True)
class Cell:
    """One combination.

    Attributes:
        sender: the implementation that sends.
        server: the server between them; None for peer-to-peer.
        receiver: the implementation that receives.
    """

    sender: Implementation
    server: Implementation | None
    receiver: Implementation

    @property
    def name(self) -> str:
        """Return its name, such as ``pyfast -> rabbitmq -> pyfast``."""
        between = [] if self.server is None else [self.server.name]
        return " -> ".join([self.sender.name, *between, self.receiver.name])

    @property
    def path(self) -> Path:
        """Return its directory in the output directory."""
        server = _NO_SERVER if self.server is None else self.server.name
        return Path(self.sender.name, server, self.receiver.name)


def bench_cells(args: argparse.Namespace) -> list[Cell]:
    """Return the combinations that the arguments of `quiver-bench` ask for, in upstream's order.

    Raises:
        UsageError: an included implementation is not installed, or no combination is left.
    """
    arrows = (all_arrows, find_arrow, arrow_name)
    senders = _chosen(args.include_senders, args.exclude_senders, *arrows)
    receivers = _chosen(args.include_receivers, args.exclude_receivers, *arrows)
    servers = _chosen(
        args.include_servers, args.exclude_servers, all_servers, find_server, server_name
    )
    pairs = [
        (sender, receiver)
        for sender in senders
        for receiver in receivers
        if sender == receiver or args.mixed_pairs
    ]
    cells: list[Cell] = []
    if not args.peer_to_peer:
        cells += [
            Cell(sender, server, receiver)
            for sender, receiver in pairs
            for server in servers
            if _understand(sender, server, receiver)
        ]
    if not args.client_server:
        cells += [
            Cell(sender, None, receiver)
            for sender, receiver in pairs
            if not receiver.client_only and sender.name not in _OWN_PROTOCOLS
        ]
    if not cells:
        raise UsageError("no combination of these implementations can be tested")
    return cells


def _understand(sender: Implementation, server: Implementation, receiver: Implementation) -> bool:
    ends = [_OWN_PROTOCOLS.get(end.name) for end in (sender, receiver)]
    if ends[0] != ends[1]:
        return False
    return ends[0] is None or server.name in ends[0]


def _chosen(
    include: str,
    exclude: str,
    everything: Callable[[], Sequence[Implementation]],
    find: Callable[[str], Implementation],
    full_name: Callable[[str], str],
) -> list[Implementation]:
    """Return the implementations that are included and not excluded, by name."""
    excluded = set() if exclude == _NONE else {full_name(name) for name in exclude.split(",")}
    if include == _ALL:
        found = [one for one in everything() if one.unavailable is None]
    else:
        found = [find(name) for name in sorted({full_name(name) for name in include.split(",")})]
    chosen = [one for one in found if one.name not in excluded]
    for one in chosen:
        if one.unavailable is not None:
            raise UsageError(f"{one.name}: {one.unavailable}")
    return chosen
