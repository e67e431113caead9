"""The plan of one arrow: checked options, and the contract arguments that follow from them."""

from __future__ import annotations

import argparse
import os
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from quiver_fast.arguments import check_text
from quiver_fast.arrow.amqp.message_fields import parse_properties
from quiver_fast.arrow.contract import CSP_BODY_LIMIT, LARGEST_SECTION, TEXTS
from quiver_fast.body_sizes import largest_body, parse_body_size
from quiver_fast.cli.arrow.meter import Meter
from quiver_fast.cli.shared.credentials import (
    check_certificate,
    check_exposure,
    only_one,
    read_password,
)
from quiver_fast.cli.shared.implementations import Implementation
from quiver_fast.cli.shared.url import AddressUrl
from quiver_fast.errors import UsageError
from quiver_fast.options.arrow import ARROW_OPTIONS, LOAD, MESSAGE, RECEIVER, SECURITY
from quiver_fast.options.option import SWITCH, Option
from quiver_fast.rate_steps import parse_rate_steps, rate_text
from quiver_fast.receiving import asked_silence, parse_pauses, parse_shares

# Options that both arrows of a pair get; the others belong to one arrow's plan.
_OF_BOTH = tuple(
    option
    for option in ARROW_OPTIONS
    if option.flag and option.group in (LOAD, MESSAGE, RECEIVER, SECURITY)
)
DEFAULT_BODY_SIZE = next(one.initial for one in ARROW_OPTIONS if one.key == "body-size")
_EXTENSION_SCHEMES = ("amqp", "amqps", "csp")
# Figures begin with a whole second after the warm-up, and take some time.
_LEAST_MEASURED = 2
_JMS_PORT = 61616
_JMS_IMPLEMENTATIONS = ("activemq-jms", "activemq-artemis-jms")


class ArrowOptions(SimpleNamespace):
    """The values of the options that both arrows of a pair share, by the options' names.

    Durations are seconds, sizes bytes. The class has the types of values that code computes with.
    ``pacing`` is the way in which a sender waits for its schedule, "exact" or "sleep"; None lets
    the unit of its times decide.
    """

    rate: float
    rate_steps: str | None
    body_size: int | str
    receive_delay: int | None
    pause: str | None
    record_format: str | None
    timeout: float
    password: str | None

    @classmethod
    def from_arguments(cls, args: argparse.Namespace, url: AddressUrl) -> ArrowOptions:
        """Check the parsed arguments against each other and against the URL.

        Raises:
            UsageError: options that contradict each other or cannot have an effect.
        """
        if args.settlement and args.record_format not in (None, "v2"):
            raise UsageError("--settlement needs --record-format v2")
        if args.settlement and args.presettled:
            raise UsageError("--presettled leaves no settlement to record")
        if args.rate and args.rate_steps:
            raise UsageError("--rate and --rate-steps exclude each other")
        if args.body_file is not None and args.body_size != DEFAULT_BODY_SIZE:
            raise UsageError("--body-size and --body-file exclude each other")
        if args.body_file is not None and args.streaming:
            raise UsageError("--streaming checks bodies of x alone: it excludes --body-file")
        if args.warmup and args.duration and args.duration < args.warmup + _LEAST_MEASURED:
            raise UsageError(
                f"--duration is {args.duration} s: with --warmup {args.warmup} it takes "
                f"{args.warmup + _LEAST_MEASURED} s at least"
            )
        check_option_texts(args)
        parse_properties(args.properties or "")
        parse_pauses(args.pause_receivers or "")
        parse_shares(args.release or "", args.reject or "")
        check_certificate(args.cert, args.key)
        tls_only = {
            "--cert": args.cert,
            "--trust-store": args.trust_store,
            "--tls-insecure": args.tls_insecure,
        }
        for flag, value in tls_only.items():
            if value and not url.secure:
                raise UsageError(f"{flag} has no effect without an amqps URL")
        users = {"--username": args.username, "the URL": url.username}
        values: dict[str, Any] = {
            option.name: not getattr(args, option.dest)
            if option.inverted
            else getattr(args, option.dest)
            for option in _OF_BOTH
        }
        values["username"] = only_one("both name a user", users)
        if args.body_file is not None:
            values["body_size"] = _size_of(args.body_file)
        return cls(
            **values,
            password=read_password(args.password_file, {"the URL": url.password}),
            expose_password=args.expose_password,
            pacing=None,
        )

    def changed(self, **values: Any) -> ArrowOptions:
        """Return the options with other values."""
        return ArrowOptions(**vars(self) | values)

    @property
    def largest_body(self) -> int:
        """The size of the largest body."""
        return largest_body(parse_body_size(str(self.body_size)))

    @property
    def patience(self) -> float:
        """For how many seconds a run may be silent; 0 for ever.

        A receiver that delays or pauses is silent for longer than ``timeout``.
        """
        asked = asked_silence(self.receive_delay or 0, parse_pauses(self.pause or ""))
        return self.timeout + asked if self.timeout else 0

    def fractions_and_mixes(self) -> dict[str, Any]:
        """Return values that need extensions, of options that all implementations have."""
        return {
            "a mix of --body-size": self.body_size if isinstance(self.body_size, str) else None,
            "a --rate that is not whole": self.rate if isinstance(self.rate, float) else None,
        }

    @property
    def slowest(self) -> float:
        """The lowest rate, in messages/s; 0 for none."""
        steps = parse_rate_steps(self.rate_steps or "")
        return min((float(min(step.first, step.last)) for step in steps), default=self.rate)

    def in_fine_units(self) -> ArrowOptions:
        """Return the options with times in microseconds, unless a unit was given.

        A sender keeps a core awake for fine times only if its user asked for them.
        """
        if self.time_unit is not None:
            return self
        return self.changed(time_unit="us", pacing="sleep")


def check_option_texts(args: argparse.Namespace) -> None:
    """Refuse options that AMQP could not have as strings.

    Raises:
        UsageError: one is not UTF-8.
    """
    for option in _OF_BOTH:
        if option.key in TEXTS:
            check_text(option.flag, getattr(args, option.dest, None) or "")


@dataclass(frozen=True)
class EndsPart:
    """The ends of one process; each end has a connection.

    Attributes:
        first: the number of the first end, among all ends of the side.
        count: the number of ends in the process.
        queues: the number of queues at which the ends of the run take turns.
    """

    first: int
    count: int
    queues: int


@dataclass(frozen=True)
class ArrowPlan:
    """One arrow of a run. Creating it checks that the implementation supports the options.

    Attributes:
        run_id: the beginning of the ids of this run's messages; None where an end knows none.
        run_start: epoch milliseconds; messages that were sent before are of an earlier run. None
            where no queue can hold such messages, and for one arrow alone.
        clock_base: the wall clock (:mod:`quiver_fast.wall_clock`) by which the arrows of the run
            on this host take times; None for one arrow alone, which has its own.
        drain_timeout: seconds that a pair's receiver has after the end of the sender; None
            for one arrow alone.
        number: the number of the end on its side, in a run of many ends; else None.
        ends: the options of all ends of such a run, and the share of this one.
        first_id: the number in a sender's first message id.
        meter: the sums of snapshots, for metrics; None without metrics.
        part: the ends of a process that has several; then ``number`` is the process's.
        workload: the options of `quiver` that made the run; None for one arrow alone.
        backlog: the messages with which a pair's sender fills the queue first; None for none.

    Raises:
        UsageError: the implementation lacks an option, or would expose a password.
    """

    operation: str
    implementation: Implementation
    url: AddressUrl
    options: ArrowOptions
    id: str
    server: bool = False
    passive: bool = False
    tail_from: str | None = None
    filter: str | None = None
    exit_when: str | None = None
    prelude: tuple[str, ...] = ()
    run_id: str | None = None
    run_start: int | None = None
    clock_base: int | None = None
    drain_timeout: float | None = None
    verbose: bool = False
    number: int | None = None
    ends: dict[str, Any] | None = None
    first_id: int | None = None
    meter: Meter | None = field(default=None, repr=False, compare=False)
    part: EndsPart | None = None
    backlog: int | None = None
    workload: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.operation == "receive" and self.server and self.implementation.client_only:
            raise UsageError(f"implementation '{self.implementation.name}' has no server mode")
        if not self.implementation.extensions:
            self._check_without_extensions()
        elif self.url.scheme not in _EXTENSION_SCHEMES:
            raise UsageError(f"scheme '{self.url.scheme}' is not known; use amqp, amqps or csp")
        else:
            self._check_as_ours()
        if self.url.scheme == "csp":
            self._check_csp()
        if self.operation == "send":
            self._check_patience()
        if self.tail_from is not None:
            self._check_tail_from()
        if self.filter is not None and (self.operation == "send" or self.passive):
            raise UsageError("--filter is for receivers that are not passive")
        if self.exit_when is not None and (self.operation == "send" or self.server or self.passive):
            raise UsageError("--exit-when is for receivers of a server: no queue is between peers")
        self._check_receiving()

    def _check_receiving(self) -> None:
        """Refuse options that do not go together: each sets how a receiver takes messages."""
        others = {
            "--transaction-size": self.options.transaction_size,
            "--streaming": self.options.streaming,
        }
        if self.server and (self.options.release or self.options.reject):
            raise UsageError(
                "--release and --reject need a URL of a server: a sender cannot send again"
            )
        shaped = _flags_of(RECEIVER, self.options)
        for flag, value in shaped.items():
            for other, given in others.items():
                if value and given:
                    raise UsageError(f"{flag} does not go with {other}")
        for flag, value in (shaped | {"--streaming": self.options.streaming}).items():
            if value and self.exit_when:
                raise UsageError(f"--exit-when does not go with {flag}")

    def _check_patience(self) -> None:
        """Refuse a rate whose gaps between messages exceed the time-out."""
        timeout, rate = self.options.timeout, self.options.slowest
        if 0 < rate < 1 and 0 < timeout * rate <= 1:
            raise UsageError(
                f"--timeout {timeout}: at {rate_text(rate)} messages/s the {self.title} sends one "
                f"each {1 / rate:,.0f} s; give a longer one"
            )

    def _check_tail_from(self) -> None:
        """Refuse --tail-from where no queue keeps its entries, and for senders."""
        if self.url.scheme != "csp":
            raise UsageError("--tail-from has no effect without a csp URL")
        if self.operation == "send":
            raise UsageError("--tail-from is for receivers")

    def _check_csp(self) -> None:
        """Refuse options that the queue protocol cannot express."""
        amqp_only = {"--server": self.server, "--passive": self.passive} | {
            "a user" if option.key == "username" else option.flag: option.is_asked(value)
            for option, value in self.values
            if not option.csp
        }
        for flag, asked in amqp_only.items():
            if asked:
                raise UsageError(f"a csp URL does not go with {flag}")
        if self.options.largest_body > CSP_BODY_LIMIT:
            raise UsageError(f"with a csp URL --body-size is at most {CSP_BODY_LIMIT}")

    def _check_as_ours(self) -> None:
        """Refuse options that our own arrow refuses, but name the flags and not the keys."""
        options = self.options
        if self.operation == "send" and options.presettled and options.transaction_size:
            raise UsageError("--presettled and --transaction-size exclude each other")
        if options.largest_body > LARGEST_SECTION and not options.streaming:
            raise UsageError(f"--body-size above {LARGEST_SECTION} needs --streaming")
        if self.server and self.url.secure and options.cert is None:
            raise UsageError("an amqps URL with --server needs --cert and --key")
        if self.server and options.username is not None and options.password is None:
            raise UsageError("--username with --server needs a password (--password-file)")

    def _check_without_extensions(self) -> None:
        name = self.implementation.name
        if self.url.scheme == "csp":
            raise UsageError(f"implementation '{name}' does not support csp URLs")
        flags = {
            option.flag: _given(option, value, self.operation)
            for option, value in self.values
            if option.extension
        }
        if self.operation == "send":
            flags |= self.options.fractions_and_mixes()
        for flag, value in flags.items():
            if value is not None:
                raise UsageError(f"implementation '{name}' does not support {flag}")
        check_exposure(self.implementation, self.options.password, self.options.expose_password)

    @property
    def values(self) -> Iterator[tuple[Option, Any]]:
        """The options that an arrow is told, with their values."""
        return ((one, self.value(one)) for one in ARROW_OPTIONS if one.key and one.flag)

    def value(self, option: Option) -> Any:
        """Return the value of an option that has a flag."""
        return getattr(self.options if option in _OF_BOTH else self, option.name)

    @property
    def record_format(self) -> str | None:
        """The revision of the records that was asked for; with None the arrow decides."""
        if self.implementation.extensions and self.options.settlement:
            return "v2"
        return self.options.record_format

    @property
    def controlled(self) -> bool:
        """Whether the arrow has a control socket to its wrapper: in a pair, if it can."""
        return self.implementation.extensions and self.drain_timeout is not None

    @property
    def role(self) -> str:
        """Return "sender" or "receiver"."""
        return role_of(self.operation)

    @property
    def title(self) -> str:
        """The role, with the number of the end in a run of many ends."""
        if self.part is not None:
            return title_of_part(self.role, self.part.first, self.part.count)
        return self.role if self.number is None else f"{self.role} {self.number}"

    @property
    def file_name(self) -> str:
        """The beginning of the names of the arrow's files."""
        return self.role if self.number is None else f"{self.role}.{self.number}"

    @property
    def port(self) -> int:
        """The port to use: upstream's JMS arrows have a default of their own."""
        if self.implementation.name in _JMS_IMPLEMENTATIONS and not self.url.explicit_port:
            return _JMS_PORT
        return self.url.port


def role_of(operation: str) -> str:
    """Return "sender" for "send" and "receiver" for "receive"."""
    return {"send": "sender", "receive": "receiver"}[operation]


def title_of_part(role: str, first: int, count: int) -> str:
    """Return the title of some ends of one side, such as ``senders 0 to 9``."""
    return f"{role} {first}" if count == 1 else f"{role}s {first} to {first + count - 1}"


def _part_arguments(part: EndsPart | None) -> dict[str, Any]:
    if part is None:
        return {}
    queues = {"queues": part.queues} if part.queues > 1 else {}
    return {"connections": part.count, "first-end": part.first} | queues


def new_id(operation: str) -> str:
    """Return a fresh identity for an arrow, as upstream names them."""
    return f"quiver-{role_of(operation)}-{secrets.token_hex(4)}"


def contract_arguments(
    plan: ArrowPlan,
    password_fd: int | None = None,
    report_file: Path | None = None,
    control_fd: int | None = None,
) -> list[str]:
    """Return the ``key=value`` arguments of the arrow contract, in upstream's order, then ours.

    Args:
        plan: the plan of the arrow.
        password_fd: the descriptor from which an implementation with extensions reads the password.
        report_file: where an implementation with extensions writes its report.
        control_fd: the arrow's end of the control socket.
    """
    ours = plan.implementation.extensions
    arguments: dict[str, Any] = {
        "connection-mode": "server" if plan.server else "client",
        "channel-mode": "passive" if plan.passive else "active",
        "operation": plan.operation,
        "id": plan.id,
        "scheme": plan.url.scheme,
        "host": plan.url.host,
        "port": plan.port,
        "path": plan.url.path,
    }
    values = {option.name: value for option, value in plan.values}
    values |= {name: getattr(plan.options, name) for name in ("password", "pacing")}
    values["rate"] = rate_text(plan.options.rate)
    if plan.operation == "receive":
        # Wrappers pass them to both ends; they are the sender's.
        values["rate"] = int(plan.options.rate)
        values["body_size"] = plan.options.largest_body
    elif plan.options.body_file is not None:
        values["body_size"] = None
    if ours:
        values["password"] = None
    for option in ARROW_OPTIONS:
        if option.key and option.name in values and not (option.extension or option.side):
            value = values[option.name]
            arguments[option.key] = int(value) if option.kind == SWITCH else value
    if ours:
        arguments |= _extension_arguments(plan, values)
        arguments |= {
            "password-fd": password_fd,
            "report-file": report_file,
            "control-fd": control_fd,
        }
    elif plan.options.settlement:
        # The second revision of the contract has the key, for senders and receivers.
        arguments["settlement"] = 1
    return [f"{key}={value}" for key, value in arguments.items() if value is not None]


def _size_of(file: str) -> int:
    """Return the size of a file for a message body.

    Raises:
        UsageError: the file is empty, or cannot be found.
    """
    try:
        size = os.stat(file).st_size
    except OSError as error:
        raise UsageError(f"--body-file: {file}: {error.strerror}") from None
    if size == 0:
        raise UsageError(f"--body-file: {file} is empty")
    return size


def _flags_of(group: str, options: ArrowOptions) -> dict[str, Any]:
    """Return the flags under a heading, with their values."""
    return {
        option.flag: getattr(options, option.name) for option in _OF_BOTH if option.group == group
    }


def _given(option: Option, value: Any, operation: str) -> Any:
    """Return the value that the arrow is told; None if it is not told the option."""
    if option.side not in ("", operation):
        return None
    # A switch is passed on only if it is not at its default.
    return None if option.kind == SWITCH and value == option.default else value


def _extension_arguments(plan: ArrowPlan, values: Mapping[str, Any]) -> dict[str, Any]:
    arguments: dict[str, Any] = {}
    for option in ARROW_OPTIONS:
        if option.key and option.name in values and (option.extension or option.side):
            value = _given(option, values[option.name], plan.operation)
            arguments[option.key] = int(value) if isinstance(value, bool) else value
    arguments["record-format"] = plan.record_format
    arguments["tls-verify"] = int(plan.options.tls_verify) if plan.url.secure else None
    return arguments | {
        "address": plan.url.path if plan.url.verbatim else None,
        "run-id": plan.run_id,
        "first-id": plan.first_id,
        **_part_arguments(plan.part),
        "clock-base": plan.clock_base,
        "run-start": plan.run_start if plan.operation == "receive" else None,
    }
