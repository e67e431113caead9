"""The queue of a run: its address, its preparation and its deletion."""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from quiver_fast.arguments import check_text
from quiver_fast.cli.arrow.plan import ArrowPlan, contract_arguments, new_id
from quiver_fast.cli.arrow.supervisor import SignalWatch
from quiver_fast.cli.shared.common import report_warning
from quiver_fast.cli.shared.console import Console
from quiver_fast.cli.shared.implementations import DEFAULT_IMPLEMENTATION, find_arrow
from quiver_fast.cli.shared.start import start_implementation
from quiver_fast.cli.shared.url import AddressUrl, parse_url
from quiver_fast.errors import QuiverError
from quiver_fast.management.addresses import QUEUES, exchange_of
from quiver_fast.management.queue_kinds import (
    ANY_KIND,
    ROUTINGS,
    TYPES,
    QueueKind,
    parse_arguments,
)
from quiver_fast.management.queues import QueueManager
from quiver_fast.process import exit_text
from quiver_fast.security.security import Security
from quiver_fast.words import counted

_TICK = 0.01
# This connection only asks the broker for its product: the arrows report errors.
_PROBE_SECONDS = 2.0
# How long a broker may take for a step of the queue's preparation or deletion.
_BROKER_SECONDS = 10.0


def add_queue_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options about the queue, and return their group."""
    group = parser.add_argument_group("queue options")
    add = group.add_argument
    add("--address", metavar="TEXT", help="Use TEXT as the AMQP address, in place of the URL's")
    add("--declare", action="store_true", help="Create the queue first, unless it is there")
    add("--purge", action="store_true", help="Receive and discard all messages of the queue first")
    add("--delete", action="store_true", help="Delete the queue afterwards")
    add(
        "--queue-type",
        choices=TYPES,
        help="Declare a queue of this type, and fail if it is there and has another one (RabbitMQ)",
    )
    add(
        "--queue-argument",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="Declare the queue with this argument, such as x-max-length=1000 (RabbitMQ) or "
        "ring-size=1000 (Artemis); may be repeated",
    )
    add(
        "--routing",
        choices=ROUTINGS,
        help="Declare an address that gives each message to one receiver, or to each (Artemis)",
    )
    add(
        "--durable-queue",
        action="store_true",
        help="Declare a queue that outlives the broker (RabbitMQ, Artemis)",
    )
    return group


@dataclass(frozen=True)
class QueueOptions:
    """The options of the queue; see :func:`add_queue_options`."""

    address: str | None = None
    declare: bool = False
    purge: bool = False
    delete: bool = False
    unique: bool = False
    kind: QueueKind = ANY_KIND

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> QueueOptions:
        """Take the options; :class:`ArrowOptions` checks them with the others.

        Raises:
            UsageError: a text is not UTF-8, or an argument of the queue is malformed.
        """
        check_text("--address", args.address or "")
        check_text("--queue-argument", "".join(args.queue_argument))
        unique = getattr(args, "unique_queue", False)
        kind = QueueKind(
            args.queue_type or "",
            parse_arguments(args.queue_argument),
            args.routing or "",
            args.durable_queue,
        )
        return cls(args.address, args.declare, args.purge, args.delete, unique, kind)

    def url(self, text: str, suffix: str = "") -> AddressUrl:
        """Return the parsed URL, with the address of the run.

        Args:
            text: the URL as given; it needs no path where ``--address`` was given.
            suffix: a text that makes the name of a unique queue unique.

        Raises:
            UsageError: the URL is malformed.
        """
        url = parse_url(text, self.address)
        return dataclasses.replace(url, path=f"{url.path}-{suffix}") if self.unique else url


class QueueSetup:
    """Prepares the queue of a run, and deletes it afterwards if an option says so.

    Call `prepare` before the run, and `close` after it, however it ended.
    """

    def __init__(
        self,
        command: str,
        options: QueueOptions,
        plan: ArrowPlan,
        console: Console,
        signals: SignalWatch,
    ) -> None:
        """Plan the preparation.

        Args:
            command: the command that warns.
            options: the options of the queue.
            plan: the plan of an arrow of the run, which has URL and security.
            console: where it reports its steps.
            signals: the watch on signals, entered.
        """
        self._command = command
        self._options = options
        self._plan = plan
        self._console = console
        self._signals = signals
        self._prepared = False
        self._bound: list[str] = []
        self.path = plan.url.path
        """The queue's address: the URL's, or the broker's once it was asked."""
        self.purged: int | None = None
        """How many messages were purged; None if none were to be."""

    def prepare(self) -> None:
        """Declare and purge the queue, if the options say so.

        Raises:
            QuiverError: the broker cannot be reached, or refuses.
        """
        options, ends_empty = self._options, self._plan.exit_when is not None
        if not (options.declare or options.purge or options.delete or options.unique or ends_empty):
            return
        if self._plan.url.scheme == "csp":
            self._prepared = True
            return
        with self._signals.raising():
            manager = self._manager()
        with manager:
            self._learn_address(manager)
            if options.declare or options.unique:
                manager.declare(self.path, options.kind)
                self._console.note(f"Declared '{self.path}' on {manager.broker}")
            self._prepared = True
            if options.purge or ends_empty:
                self._refuse_stream(manager)
        if options.purge and not self._signals.count:
            self.purged = self._purge()
            self._console.show(f"Purged {counted(self.purged, 'message')} from '{self.path}'")

    def _refuse_stream(self, manager: QueueManager) -> None:
        """Raise QuiverError if the queue is a stream, and the receiver begins at its end."""
        begins = self._plan.options.stream_offset not in (None, "next")
        if (begins and not self._options.purge) or not manager.is_stream(self.path):
            return
        if self._options.purge:
            words = "a stream cannot be purged; delete it, or use --unique-queue"
        else:
            words = (
                "a receiver of a stream begins at its end, so --exit-when would end at once: give "
                "--stream-offset"
            )
        raise QuiverError(f"'{self.path}' on {manager.broker}: {words}")

    def tell_messages_stay(self) -> None:
        """Warn, before messages are sent to a remote queue, that they stay there."""
        if self._plan.url.scheme == "csp":
            self._console.show(f"Messages sent to '{self.path}' stay there: csp only appends")

    def ask_address(self) -> None:
        """Ask the broker for the address of the URL's path, for an arrow that does not ask itself.

        If no broker can be reached the path stays as it is: the arrows report the error.
        """
        if self._prepared or self._plan.url.scheme not in ("amqp", "amqps"):
            return
        try:
            with self._signals.raising(), self._manager(_PROBE_SECONDS) as manager:
                self._learn_address(manager)
        except QuiverError as error:
            self._console.note(f"Did not learn which broker this is: {error}")

    def bind_receivers(self, count: int, suffix: str) -> str | None:
        """Make a queue for each of some receivers, and bind it to the exchange of the address.

        Args:
            count: how many receivers there are.
            suffix: a text that makes the names of the queues unique.

        Returns:
            The address of these queues, with %d for the number of a receiver; None where the
            address is no exchange's.

        Raises:
            QuiverError: the broker cannot be reached, or refuses.
        """
        exchange = exchange_of(self.path)
        if exchange is None or self._plan.url.scheme == "csp":
            return None
        with self._signals.raising():
            manager = self._manager()
        with manager:
            if not manager.binds:
                return None
            addresses = f"{QUEUES}quiver-{suffix}-%d"
            for number in range(count):
                self._bound.append(addresses % number)
                manager.bind(self._bound[-1], *exchange)
        self._console.note(f"Bound {counted(count, 'queue')} to '{self.path}'")
        return addresses

    def close(self) -> None:
        """Delete the queues of receivers, and the run's if the options say so; warn if refused."""
        if self._bound:
            self._unbind()
        if not self._prepared or not (self._options.delete or self._options.unique):
            return
        try:
            self._delete()
        except QuiverError as error:
            report_warning(self._command, f"'{self.path}' is not deleted: {error}")

    def _unbind(self) -> None:
        try:
            with self._manager() as manager:
                while self._bound:
                    manager.delete(self._bound[-1])
                    self._bound.pop()
        except QuiverError as error:
            report_warning(self._command, f"'{self._bound[-1]}' is not deleted: {error}")

    def _learn_address(self, manager: QueueManager) -> None:
        if self._options.address is None:
            self.path = manager.address(self.path)

    def _delete(self) -> None:
        if self._plan.url.scheme == "csp":
            self._warn_that_it_stays("csp has no way to delete a queue")
            return
        with self._manager() as manager:
            if manager.deletes:
                manager.delete(self.path)
                self._console.note(f"Deleted '{self.path}'")
                return
            why = f"{manager.broker} has no way to delete a queue over AMQP"
        # No other program knows the unique queue, so its messages are of no use.
        emptied = self._options.unique and self._purge() is not None
        self._warn_that_it_stays(why, ", empty" if emptied else "")

    def _warn_that_it_stays(self, why: str, how: str = "") -> None:
        report_warning(self._command, f"{why}: '{self.path}' stays{how}")

    def _manager(self, most: float = _BROKER_SECONDS) -> QueueManager:
        plan, options = self._plan, self._plan.options
        mechanisms = options.sasl_mechanisms
        security = Security(
            tls=plan.url.secure,
            username=options.username,
            password=options.password,
            certificate=options.cert,
            key=options.key,
            trust_store=options.trust_store,
            verify=options.tls_verify,
            mechanisms=mechanisms.upper().split() if mechanisms else None,
        )
        timeout = min(most, options.timeout or most)
        return QueueManager(plan.url.host, plan.port, security, timeout)

    def _purge(self) -> int:
        """Have an arrow of ours empty the queue; return how many messages it took.

        Raises:
            QuiverError: it failed.
        """
        plan = emptying_plan(self._plan, self.path)
        with tempfile.TemporaryDirectory(prefix="quiver-purge-") as name:
            report = empty(plan, Path(name), self._signals, self._console.errors, "purge=1")
        purged: int = report["purged"]
        return purged


def emptying_plan(plan: ArrowPlan, path: str, **changes: Any) -> ArrowPlan:
    """Return the plan of an arrow of ours that receives all of another queue at the same broker.

    Args:
        plan: of an arrow of the run; the URL and the options of security stay.
        path: the queue.
        changes: other options that it has.
    """
    options = plan.options.changed(**{
        **dict.fromkeys(("duration", "count", "rate", "transaction_size"), 0),
        **dict.fromkeys(("settlement", "streaming", "presettled", "reconnect"), False),
        "request_reply": False, "reply_timeout": None,
        **dict.fromkeys(("rate_steps", "arrivals", "record_format", "time_unit", "failover")),
        **dict.fromkeys(("receive_delay", "pause", "release", "reject", "modify")),
        **dict.fromkeys(("filter", "filter_properties", "stream_offset", "stream_filter")),
        **dict.fromkeys(("reconnect_for", "reconnect_pause")),
        **changes,
    })  # fmt: skip
    emptier = ArrowPlan(
        operation="receive",
        implementation=find_arrow(DEFAULT_IMPLEMENTATION),
        url=plan.url,
        options=options,
        id=new_id("receive"),
        verbose=plan.verbose,
    )
    return with_path(emptier, path)


def empty(
    plan: ArrowPlan, directory: Path, signals: SignalWatch, errors: TextIO | None, *words: str
) -> dict[str, Any]:
    """Have an arrow of ours empty a queue, and return its report.

    Args:
        plan: its plan.
        directory: where its files go: ``report.json`` and ``records``.
        signals: the watch on signals, entered.
        errors: where lines of its standard error go; None for our own.
        words: more arguments.

    Raises:
        QuiverError: it failed.
    """
    report = directory / "report.json"
    child = start_implementation(
        plan.implementation,
        lambda password_fd: [*contract_arguments(plan, password_fd, report), *words],
        password=plan.options.password,
        verbose=plan.verbose,
        output=directory / "records",
        errors=errors,
    )
    signals_before = signals.count
    try:
        while not child.poll():
            if signals.count > signals_before:
                child.stop()
            time.sleep(_TICK)
    finally:
        child.kill_and_wait()
    if child.returncode and not signals.count:
        why = f"{child.last_error_line} ({exit_text(child.returncode)})"
        raise QuiverError(f"cannot {'purge' if words else 'read'} '{plan.url.path}': {why}")
    try:
        told: dict[str, Any] = json.loads(report.read_bytes())
    except FileNotFoundError:
        raise QuiverError("the arrow that empties a queue left no report") from None
    return told


def with_path(plan: ArrowPlan, path: str) -> ArrowPlan:
    """Return the plan with another address."""
    return dataclasses.replace(plan, url=dataclasses.replace(plan.url, path=path))
