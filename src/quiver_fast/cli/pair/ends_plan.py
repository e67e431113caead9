"""The plans of the ends of `quiver --senders N --receivers M --queues Q`.

The ends are spread over processes: each process has a part of one side's ends.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from quiver_fast.cli.arrow.options import ArrowOptions
from quiver_fast.cli.arrow.plan import ArrowPlan, EndsPart, new_id
from quiver_fast.cli.arrow.queue_setup import QueueSetup
from quiver_fast.cli.pair.run import PairPlans
from quiver_fast.cli.shared.quantities import positive_count, within
from quiver_fast.cli.shared.url import AddressUrl
from quiver_fast.errors import UsageError
from quiver_fast.rate_steps import (
    Seed,
    billionths,
    exact_rate,
    parse_arrivals,
    parse_rate_steps,
    rate_text,
)
from quiver_fast.records.formats import IDS_OF_AN_END

FIRST_IDS = IDS_OF_AN_END

_MOST_ENDS = 100_000
_MOST_PROCESSES = 1000
_NUMBER = "%d"


def add_ends_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options of a run of many ends, and return their group."""
    group = parser.add_argument_group("options of many ends")
    number = within(positive_count, 1, _MOST_ENDS)
    processes = within(positive_count, 1, _MOST_PROCESSES)
    group.add_argument(
        "--senders",
        metavar="COUNT",
        type=number,
        help="Run COUNT senders at once, each with a connection; --rate, --rate-steps and --count "
        "are of all together (default 1)",
    )
    group.add_argument(
        "--receivers",
        metavar="COUNT",
        type=number,
        help="Run COUNT receivers at once, each with a --credit of its own (default 1; without "
        "a URL as many as senders)",
    )
    group.add_argument(
        "--queues",
        metavar="COUNT",
        type=number,
        help="Spread the ends over COUNT queues in turns: where the URL has %%d, that is their "
        "number from 0; else they are the URL's with -0, -1 and so on (default 1: the URL's)",
    )
    group.add_argument(
        "--processes",
        metavar="COUNT",
        type=processes,
        help="Spread the ends over COUNT processes, half of them for each side (default: one for "
        "each CPU, at least one for each side); an end of a foreign implementation, or one with "
        "transactions or --streaming, is a process of its own",
    )
    return group


def has_ends(args: argparse.Namespace) -> bool:
    """Say whether a run of many ends is asked for."""
    values = (getattr(args, name, None) for name in ("senders", "receivers", "queues", "processes"))
    return getattr(args, "fan_out", False) or any(value is not None for value in values)


def part_of(total: int, number: int, ends: int) -> int:
    """Return the part of one end: parts differ by one at most, and their sum is ``total``."""
    return total // ends + (number < total % ends)


def usable_cpus() -> int:
    """Return how many CPUs this process may use."""
    return len(os.sched_getaffinity(0))


def share_of(total: int, part: EndsPart, ends: int) -> int:
    """Return the share of ``total`` of a part of all ends; all shares add up to ``total``."""
    return total * (part.first + part.count) // ends - total * part.first // ends


def halves_of(processes: int, senders: int, receivers: int, *, alike: bool) -> tuple[int, int]:
    """Return how many processes senders and receivers get: half each, at least one.

    Args:
        processes: for both together.
        senders: how many there are; more processes than that are of no use.
        receivers: likewise.
        alike: each side gets as many as the other.
    """
    half = max(1, processes // 2)
    if alike:
        return half, half
    # One side gets the processes that the other side cannot use.
    for_senders = min(senders, half)
    for_receivers = min(receivers, max(1, processes - for_senders))
    return min(senders, max(1, processes - for_receivers)), for_receivers


def parts_of(ends: int, processes: int, queues: int) -> list[EndsPart]:
    """Spread ends over processes: neighbours stay together, and parts differ by one at most."""
    processes = min(ends, processes)
    firsts = [number * ends // processes for number in range(processes + 1)]
    return [EndsPart(first, following - first, queues) for first, following in pairwise(firsts)]


@dataclass(frozen=True)
class Processes:
    """The processes of both sides.

    Attributes:
        senders: each one's part of the senders; None where each sender is a process.
        receivers: likewise.
    """

    senders: Sequence[EndsPart] | None = None
    receivers: Sequence[EndsPart] | None = None

    def side(self, operation: str) -> Sequence[EndsPart] | None:
        """Return the parts of the senders, or of the receivers."""
        return self.senders if operation == "send" else self.receivers

    @property
    def any(self) -> bool:
        """Whether some process has several ends."""
        return self.senders is not None or self.receivers is not None


class EndsPlans(PairPlans):
    """The checked plans of all ends."""

    asked: tuple[str, ...] = ("ends",)

    def __init__(self, args: argparse.Namespace, *, share_processes: bool = True) -> None:
        """Check the options.

        Args:
            args: those of :class:`PairPlans`, and of :func:`add_ends_options`.
            share_processes: ends may share a process; else each is a process of its own.

        Raises:
            UsageError: it cannot be done.
        """
        self.senders: int = args.senders or (args.receivers if args.url is None else None) or 1
        self.receivers: int = args.receivers or (self.senders if args.url is None else 1)
        self.queues: int = self.senders if args.url is None else args.queues or 1
        self.fan_out: bool = vars(args).get("fan_out", False)
        self.away: float = vars(args).get("away") or 0
        if self.fan_out and args.record_format is None and not args.settlement:
            # Ids show which receiver lacks a message.
            args = argparse.Namespace(**vars(args) | {"record_format": "v1"})
        self.asked = (*self.asked, f"record-format={args.record_format}")
        self._paths: dict[int, str] = {}
        self._own_queues: str | None = None
        _check(args, self.senders, self.receivers, self.queues)
        super().__init__(args)
        self._base_path = "" if self.peer_to_peer else self._url(0).path
        self._check_foreign_receivers()
        self.processes = self._spread(args) if share_processes else Processes()
        for count in map(self.process_count, ("send", "receive")):
            if count > _MOST_PROCESSES:
                raise UsageError(f"{count} processes of one side are more than {_MOST_PROCESSES}")
        # An end checks that it can have its share.
        for number in range(self.process_count("send")):
            self.end("send", number)

    def _check_foreign_receivers(self) -> None:
        """Refuse receivers that cannot be told when a shared queue is empty, or leave a topic."""
        receiver = self.plan("receive").implementation
        if self.away and not receiver.extensions:
            raise UsageError(f"implementation '{receiver.name}' does not support --away")
        shares = self.receivers > self.queues and not self.fan_out
        if not receiver.extensions and self._args.count and shares:
            raise UsageError(
                f"implementation '{receiver.name}' cannot share a queue with --count: give "
                "--duration, or a queue for each receiver"
            )

    def _spread(self, args: argparse.Namespace) -> Processes:
        """Return which ends share a process.

        Raises:
            UsageError: they cannot, and that was asked for.
        """
        one_each = self._reason_for_one_each(args)
        if one_each and args.processes and args.processes < self.senders + self.receivers:
            raise UsageError(f"--processes does not go with {one_each}: each end is a process")
        if one_each:
            return Processes()
        counts = (self.senders, self.receivers)
        halves = halves_of(args.processes or usable_cpus(), *counts, alike=self.peer_to_peer)
        return Processes(
            self._parts("send", self.senders, halves[0]),
            self._parts("receive", self.receivers, halves[1]),
        )

    def _reason_for_one_each(self, args: argparse.Namespace) -> str:
        if self.away:
            return "--away"
        if args.transaction_size or args.streaming:
            return "--transaction-size" if args.transaction_size else "--streaming"
        foreign = [
            self.plan(side).implementation
            for side in ("send", "receive")
            if not self.plan(side).implementation.extensions
        ]
        # Between peers, both sides have the same number of processes.
        if foreign and (self.peer_to_peer or len(foreign) == 2):
            return f"implementation '{foreign[0].name}'"
        return ""

    def _parts(self, operation: str, ends: int, processes: int) -> list[EndsPart] | None:
        own = self.plan(operation).implementation.extensions
        queues = 1 if self.peer_to_peer else self.queues
        return parts_of(ends, processes, queues) if own and processes < ends else None

    def process_count(self, operation: str) -> int:
        """Return how many processes a side has."""
        parts = self.processes.side(operation)
        if parts is not None:
            return len(parts)
        return self.senders if operation == "send" else self.receivers

    def queue_of(self, number: int) -> int:
        """Return the queue of the end with this number, on either side."""
        return number % self.queues

    def prepare_queues(self, queues: Sequence[QueueSetup]) -> None:
        """See :meth:`.run.PairPlans.prepare_queues`; of an exchange, each receiver has a queue."""
        super().prepare_queues(queues)
        if self.fan_out:
            self._own_queues = queues[0].bind_receivers(self.receivers, self._suffix)

    def learn_path(self, queue: int, path: str) -> None:
        """Note the address that the broker has for a queue."""
        self._paths[queue] = path

    def queue_plans(self) -> list[ArrowPlan]:
        """Return a plan of an arrow at each queue, to get there as the arrows do."""
        plan = self.plan("receive")
        urls = (self._url_of(plan, queue) for queue in range(self.queues))
        return [dataclasses.replace(plan, url=url) for url in urls]

    def end(self, operation: str, number: int, port: int = 0) -> ArrowPlan:
        """Return the plan of one end, or of a process that has several of them.

        Args:
            operation: the side's, "send" or "receive".
            number: which end, or which process of the side.
            port: for peer-to-peer runs.
        """
        parts, plan = self.processes.side(operation), self.plan(operation, port)
        alone, sends = parts is None, operation == "send"
        part = EndsPart(number, 1, self.queues) if parts is None else parts[number]
        # Several ends have one queue, or all of them.
        queue = self.queue_of(number) if alone else 0 if self.queues == 1 else None
        ends, url = self._in_all(number, queue), self._url_of(plan, queue)
        if self._own_queues is not None and not sends:
            # The links of a process take turns at the queues: each receiver has its own.
            part = dataclasses.replace(part, queues=self.receivers)
            own = self._own_queues.replace(_NUMBER, str(number)) if alone else self._own_queues
            url = dataclasses.replace(url, path=own)
        return dataclasses.replace(
            plan,
            url=url,
            options=(self._sender_options if sends else self._receiver_options)(plan, part, alone),
            id=new_id(operation),
            number=number,
            ends=ends if alone else ends | {"first": part.first, "members": part.count},
            first_id=number * FIRST_IDS + 1 if alone and sends and self.both_extended else None,
            part=None if alone else part,
        )

    def _url_of(self, plan: ArrowPlan, queue: int | None) -> AddressUrl:
        """Return the URL of a queue; with None of all queues, in whose path %d is the number."""
        url = plan.url
        if self.peer_to_peer:
            return url
        if self.queues > 1 and _NUMBER not in url.path:
            url = dataclasses.replace(url, path=f"{url.path}-{_NUMBER}")
        if queue is None:
            return url
        path = self._paths.get(queue) or url.path.replace(_NUMBER, str(queue))
        return dataclasses.replace(url, path=path)

    def _sender_options(self, plan: ArrowPlan, part: EndsPart, alone: bool) -> ArrowOptions:
        def share(total: int) -> int:
            if alone:
                return part_of(total, part.first, self.senders)
            return share_of(total, part, self.senders)

        members = range(part.first, part.first + part.count)
        return plan.options.changed(
            count=self._count_of(members),
            arrivals=_arrivals_from(part.first, plan.options.arrivals),
            **self._rates(plan.options, share),
        )

    def _receiver_options(self, plan: ArrowPlan, part: EndsPart, alone: bool) -> ArrowOptions:
        """Return a receiver's options; without a count where its drain ends it."""
        senders = range(0)
        if self.peer_to_peer:
            senders = range(part.first, part.first + part.count)
        elif alone and not plan.implementation.extensions:
            first = 0 if self.fan_out else self.queue_of(part.first)
            senders = range(first, self.senders, self.queues)
        # Only senders have a rate.
        return plan.options.changed(
            count=self._count_of(senders), rate=0, rate_steps=None, arrivals=None
        )

    def _count_of(self, senders: Iterable[int]) -> int:
        """Return how many messages some of the senders have together."""
        return sum(part_of(self._args.count, number, self.senders) for number in senders)

    def _rates(self, options: ArrowOptions, share: Callable[[int], int]) -> dict[str, Any]:
        """Return the rates of one process: ``share`` of the run's.

        They are whole where each process gets one message per second of a whole rate.
        """

        def part(rate: int | Fraction) -> int | Fraction:
            if isinstance(rate, int) and rate >= self.process_count("send"):
                return share(rate)
            return exact_rate(share(billionths(rate)))

        steps = [
            f"{rate_text(part(step.first))}..{rate_text(part(step.last))}:{step.seconds}s"
            for step in parse_rate_steps(options.rate_steps or "")
        ]
        rate = part(exact_rate(billionths(options.rate)))
        return {
            "rate": rate if isinstance(rate, int) else float(rate),
            "rate_steps": ",".join(steps) or None,
        }

    def _in_all(self, number: int, queue: int | None) -> dict[str, Any]:
        args = self._args
        return {
            "number": number,
            "queue": queue,
            "senders": self.senders,
            "receivers": self.receivers,
            "queues": self.queues,
            **({"fan_out": True} if self.fan_out else {}),
            "url": self.shown_url,
            "path": self._base_path or None,
            "count": args.count,
            "rate": args.rate,
            "rate_steps": args.rate_steps,
            "arrivals": _arrivals_from(0, args.arrivals),
        }


def _arrivals_from(first: int, text: str | None) -> str | None:
    """Return the option for a process: no two ends of a run have the same stream."""
    seed = parse_arrivals(text or "")
    return seed and str(Seed(seed.number, first))


def _check(args: argparse.Namespace, senders: int, receivers: int, queues: int) -> None:
    """Refuse options that cannot be spread over ends.

    Raises:
        UsageError: it cannot.
    """
    if args.url is None and senders != receivers:
        raise UsageError("without a URL there are pairs: give as many --senders as --receivers")
    for flag, ends in (("--senders", senders), ("--receivers", receivers)):
        if ends < queues:
            raise UsageError(f"--queues {queues} are more than {flag} {ends}: a queue needs both")
    if 0 < args.count < senders:
        raise UsageError(f"--count {args.count} is less than 1 for each of {senders} senders")
