"""The job of one host of a fleet, as the command sends it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from quiver_fast.cli.arrow.plan import ArrowPlan
from quiver_fast.cli.pair.ends_plan import EndsPlans
from quiver_fast.errors import UsageError


@dataclass(frozen=True)
class HostJob:
    """The work of one host.

    Attributes:
        token: a secret that a host sends first, to show that it is one; its beginning is part of
            the name of the run's folder on every host.
        driver: the host and the port where the command listens.
        number: the host's number, from 0.
        plans: its arrows, receivers first.
        time_unit: the time unit of their records.
        peer_to_peer: whether its receivers listen.
        work_dir: the folder for records; None for the folder of temporary files.
    """

    token: str
    driver: tuple[str, int]
    number: int
    plans: Sequence[ArrowPlan]
    time_unit: str
    peer_to_peer: bool = False
    work_dir: str | None = None


def host_of(operation: str, number: int, hosts: int, *, peer_to_peer: bool) -> int:
    """Return the host of an end.

    Sender N and receiver N are on one host, so that they have one clock. Peer-to-peer they are on
    neighbours, to measure the network between hosts.
    """
    shift = 1 if peer_to_peer and operation == "send" else 0
    return (number + shift) % hosts


def check_hosts(plans: EndsPlans, hosts: int) -> None:
    """Check that each host has at least one end.

    Raises:
        UsageError: a host has none.
    """
    if max(plans.senders, plans.receivers) < hosts:
        raise UsageError(
            f"{hosts} hosts are more than --senders {plans.senders} and --receivers "
            f"{plans.receivers}: give --hosts, or an end for each host"
        )


def jobs_of(
    plans: EndsPlans, hosts: int, token: str, driver: tuple[str, int], work_dir: str | None
) -> list[HostJob]:
    """Return the work of each host.

    Args:
        plans: the plans of all ends.
        hosts: the number of hosts, checked by :func:`check_hosts`.
        token: see :class:`HostJob`, also for the next two.
        driver: where the command listens.
        work_dir: the folder for records.
    """
    of_host: list[list[ArrowPlan]] = [[] for _ in range(hosts)]
    for operation, count in (("receive", plans.receivers), ("send", plans.senders)):
        for number in range(count):
            host = host_of(operation, number, hosts, peer_to_peer=plans.peer_to_peer)
            of_host[host].append(replace(plans.end(operation, number), verbose=False))
    unit, direct = plans.time_unit, plans.peer_to_peer
    return [
        HostJob(token, driver, number, of_host[number], unit, direct, work_dir)
        for number in range(hosts)
    ]
