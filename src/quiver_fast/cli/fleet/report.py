"""The report on a fleet's hosts: their names and ends, their start, and their clocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quiver_fast.analysis.sections.rows import Row, Section
from quiver_fast.cli.fleet.fleet import Host
from quiver_fast.cli.fleet.remote import RemoteEnd
from spark_analysis.host_clock import Offset

_US = 1000


def clocks_ahead(tasks: Sequence[dict[str, Any]]) -> dict[int, Offset] | None:
    """Return how far the clock of each host is ahead of host 0's during the run.

    Each offset is the mean of the offsets before and after the run, and its bound covers both: a
    clock that drifts evenly stays within it. None if a clock was not compared.
    """
    found = {}
    for task in tasks:
        before, after = task["offsets"]
        if before is None or after is None:
            return None
        first, last = -before["nanoseconds"], -after["nanoseconds"]
        bound = max(before["bound"], after["bound"]) + (abs(last - first) + 1) // 2
        found[task["number"]] = Offset((first + last) // 2, bound)
    return found or None


def clock_report(
    tasks: Sequence[dict[str, Any]], corrected: Sequence[RemoteEnd] | None = None
) -> dict[str, Any] | None:
    """Return how far the clocks of the hosts differ, in microseconds.

    Keys: ``hosts``, for each host: ``before`` and ``after``, each with ``offset_us`` (its clock
    less that of host 0) and ``bound_us`` (the largest error of the offset), None if host 0 was not
    reached; ``widest_us``: the largest possible difference of two hosts' clocks at either time
    (the difference of their offsets plus the sum of their bounds); ``corrected_within_us``: the
    largest error of a corrected latency, None if latencies were not corrected. None without tasks.

    Args:
        tasks: the reports of the tasks of all hosts.
        corrected: the ends of the run if their latencies were corrected, else None.
    """
    if not tasks:
        return None
    hosts = []
    reach: list[list[tuple[float, float]]] = [[], []]
    for task in tasks:
        row: dict[str, Any] = {"number": task["number"]}
        for place, name in enumerate(("before", "after")):
            found = task["offsets"][place]
            if found is None:
                row[name] = None
                continue
            # The task measured how far host 0 is ahead of its own host.
            offset = Offset(-found["nanoseconds"], found["bound"])
            row[name] = {"offset_us": offset.nanoseconds / _US, "bound_us": offset.bound / _US}
            reach[place].append(
                (offset.nanoseconds - offset.bound, offset.nanoseconds + offset.bound)
            )
        hosts.append(row)
    widths = [max(b for _, b in one) - min(a for a, _ in one) for one in reach if len(one) > 1]
    within = None if corrected is None else _corrected_within(tasks, corrected)
    return {
        "hosts": hosts,
        "corrected_within_us": within,
        "widest_us": max(widths, default=0) / _US,
    }


def _corrected_within(tasks: Sequence[dict[str, Any]], ends: Sequence[RemoteEnd]) -> float | None:
    """Return the largest bound of the offset between a sender's and a receiver's host."""
    ahead = clocks_ahead(tasks)
    if ahead is None:
        return None
    sides = [{end.host for end in ends if end.plan.role == role} for role in ("sender", "receiver")]
    bounds = [
        ahead[receiver].minus(ahead[sender]).bound
        for sender in sides[0]
        for receiver in sides[1]
        if sender != receiver
    ]
    return max(bounds, default=0) / _US


def start_report(hosts: Sequence[Host], tasks: Sequence[dict[str, Any]]) -> dict[str, float] | None:
    """Return how close together the hosts started their senders, by the clock of host 0.

    Keys: ``spread_us``: the last start less the first; ``bound_us``: the largest error of it.
    None if a host did not start, or a clock was not compared.
    """
    offsets = {task["number"]: task["offsets"][0] for task in tasks}
    found = []
    for host in hosts:
        offset = offsets.get(host.number)
        if host.started is None or offset is None:
            return None
        found.append((host.started + offset["nanoseconds"], offset["bound"]))
    if not found:
        return None
    first, last = min(found), max(found)
    return {"spread_us": (last[0] - first[0]) / _US, "bound_us": (last[1] + first[1]) / _US}


def fleet_section(fleet: dict[str, Any]) -> Section:
    """Return the section on the fleet of the printed summary."""
    rows = [_host_row(host) for host in fleet["hosts"]]
    if fleet["start"] is not None:
        start = fleet["start"]
        words = f"within {start['spread_us']:,.0f} us (+/- {start['bound_us']:,.0f} us)"
        rows.append(Row("Started", words))
    if fleet["clocks"] is not None and len(fleet["hosts"]) > 1:
        rows.append(Row("Clocks differ by", f"{fleet['clocks']['widest_us']:,.0f} us at most"))
        within = fleet["clocks"]["corrected_within_us"]
        if within is not None:
            rows.append(Row("Latencies corrected", f"to within {within:,.0f} us"))
    if fleet["unread"]:
        rows.append(Row("Records not read", ", ".join(fleet["unread"])))
    return Section("FLEET", rows)


def _host_row(host: dict[str, Any]) -> Row:
    counts = dict.fromkeys(("sender", "receiver"), 0)
    for title, count in host["ends"].items():
        counts[title.partition(" ")[0]] += count
    name = host["name"] or "did not come"
    lost = f", lost: {host['lost']}" if host["lost"] else ""
    words = f"{name}, sent {counts['sender']:,}, received {counts['receiver']:,}{lost}"
    return Row(f"Host {host['number']}", words)
