"""The plan of one arrow: checked options, and what follows: its arguments, its configuration."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quiver_fast.arrow import contract
from quiver_fast.cli.arrow.meter import Meter
from quiver_fast.cli.arrow.options import OF_BOTH, ArrowOptions, flag_name
from quiver_fast.cli.shared.credentials import check_exposure
from quiver_fast.cli.shared.implementations import Implementation
from quiver_fast.cli.shared.url import AddressUrl
from quiver_fast.errors import UsageError
from quiver_fast.options.arrow import ARROW_OPTIONS, SUMMARY_OPTIONS
from quiver_fast.options.option import SWITCH, Option
from quiver_fast.property_mix import parse_properties
from quiver_fast.rate_steps import rate_text

_OF_LOAD = (
    "duration", "count", "rate", "body_size", "credit_window", "transaction_size", "durable",
    "set_message_id",
)  # fmt: skip
_JMS_PORTS = {"activemq-jms": 61616, "activemq-artemis-jms": 61616}


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
        subscription: "keep" or "end" the durable subscription of a receiver that has one.
        via: the hosts and ports to connect to in place of the URL's and failover's; None for these.

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
    exit_when: str | None = None
    subscription: str | None = None
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
    via: str | None = None
    workload: dict[str, Any] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.operation == "receive" and self.server and self.implementation.client_only:
            raise UsageError(f"implementation '{self.implementation.name}' has no server mode")
        if self.implementation.extensions:
            secret = self.options.password
            words = contract_arguments(self) + ([] if secret is None else [f"password={secret}"])
            config = contract.read(words, flag_name)
            contract.check_body(self.options.largest_body, config, flag_name)
        else:
            self._check_without_extensions()
        if self.operation == "send":
            self.options.check_patience(self.title)

    def _check_without_extensions(self) -> None:
        options, sends = self.options, self.operation == "send"
        extensions = {
            "csp URLs": self.url.scheme == "csp" or None,
            **{one.flag: self.given(one, value) for one, value in self.values if one.extension},
            "a mix of --body-size": (sends and isinstance(options.body_size, str)) or None,
            "a --rate that is not whole": (sends and isinstance(options.rate, float)) or None,
        }
        for extension, value in extensions.items():
            if value is not None:
                name = self.implementation.name
                raise UsageError(f"implementation '{name}' does not support {extension}")
        check_exposure(self.implementation, options.password, options.expose_password)

    def given(self, option: Option, value: Any) -> Any:
        """Return the value that the arrow is told; None if it is not told the option."""
        if option.side not in ("", self.operation):
            return None
        # A switch is passed on only if it is not at its default.
        return None if option.kind == SWITCH and value == option.default else value

    @property
    def values(self) -> Iterator[tuple[Option, Any]]:
        """The options that an arrow is told, with their values."""
        return ((one, self.value(one)) for one in ARROW_OPTIONS if one.key and one.flag)

    def value(self, option: Option) -> Any:
        """Return the value of an option that has a flag."""
        return getattr(self.options if option in OF_BOTH else self, option.name)

    @property
    def record_format(self) -> str | None:
        """The revision of the records that was asked for; with None the arrow decides."""
        implied = "v2" if self.options.settlement else None
        if self.controlled and self.options.is_filtered:
            # Ids tell which of the messages match.
            implied = implied or "v1"
        return self.options.record_format or (implied if self.implementation.extensions else None)

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
        part, number = self.part, self.number
        if part is not None and part.count > 1:
            return f"{self.role}s {part.first} to {part.first + part.count - 1}"
        number = number if part is None else part.first
        return self.role if number is None else f"{self.role} {number}"

    @property
    def file_name(self) -> str:
        """The beginning of the names of the arrow's files."""
        return self.role if self.number is None else f"{self.role}.{self.number}"

    @property
    def port(self) -> int:
        """The port to use: upstream's JMS arrows have a default of their own."""
        own = None if self.url.explicit_port else _JMS_PORTS.get(self.implementation.name)
        return own or self.url.port


def role_of(operation: str) -> str:
    """Return "sender" for "send" and "receiver" for "receive"."""
    return {"send": "sender", "receive": "receiver"}[operation]


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
    ours, receives = plan.implementation.extensions, plan.operation == "receive"
    arguments: dict[str, Any] = {
        "connection-mode": "server" if plan.server else "client",
        "channel-mode": "passive" if plan.passive else "active",
        "operation": plan.operation,
        "id": plan.id,
        "scheme": plan.url.scheme,
        "host": plan.url.host,
        # Peers have no port yet when their plans are checked.
        "port": plan.port or "-",
        "path": plan.url.path,
    }
    options, part = plan.options, plan.part
    values = {option.key: value for option, value in plan.values}
    values["password"] = None if ours else options.password
    values["pacing"] = options.pacing
    values["rate"] = rate_text(options.rate)
    if receives:
        # Wrappers pass them to both ends; they are the sender's.
        values |= {"rate": int(options.rate), "body-size": options.largest_body}
        if options.reconnect and plan.controlled:
            # Copies would be counted: the wrapper says when no more messages come.
            values["count"] = 0
    elif options.body_file is not None:
        values["body-size"] = None
    told = [option for option in ARROW_OPTIONS if option.key in values]
    arguments |= {one.key: values[one.key] for one in told if not (one.extension or one.side)}
    if ours:
        arguments |= {
            one.key: plan.given(one, values[one.key]) for one in told if one.extension or one.side
        }
        arguments |= {
            "record-format": plan.record_format,
            "tls-verify": options.tls_verify if plan.url.secure else None,
            "address": plan.url.path if plan.url.verbatim else None,
            "via": plan.via,
            "run-id": plan.run_id,
            "first-id": plan.first_id,
            "subscription": plan.subscription,
            "connections": part and part.count,
            "first-end": part and part.first,
            "queues": part.queues if part and part.queues > 1 else None,
            "clock-base": plan.clock_base,
            "run-start": plan.run_start if receives else None,
            "password-fd": password_fd,
            "report-file": report_file,
            "control-fd": control_fd,
        }
    elif options.settlement:
        # The second revision of the contract has the key, for senders and receivers.
        arguments["settlement"] = 1
    return [
        f"{key}={int(value) if isinstance(value, bool) else value}"
        for key, value in arguments.items()
        if value is not None
    ]


def summary_config(plan: ArrowPlan, output_dir: Path) -> dict[str, Any]:
    """Return the ``config`` of a summary: upstream's keys in order, then ours; no secrets."""
    options = plan.options
    upstream = {
        "impl": plan.implementation.name,
        "url": plan.url.shown,
        "output_dir": str(output_dir),
        "timeout": options.timeout,
        "connection_mode": "server" if plan.server else "client",
        "channel_mode": "passive" if plan.passive else "active",
        "operation": plan.operation,
        "id": plan.id,
        "host": plan.url.host,
        "port": str(plan.port),
        "path": plan.url.path,
        **{name: getattr(options, name) for name in _OF_LOAD},
        "scheme": plan.url.scheme,
    }
    told = {option.name: plan.value(option) for option in SUMMARY_OPTIONS}
    ours = {
        "tls_verify": options.tls_verify if plan.url.secure else None,
        "properties": parse_properties(options.properties or "").texts(),
        "record_format": plan.record_format,
        "prelude": list(plan.prelude),
        "run_id": plan.run_id,
        "run_start": plan.run_start,
    }
    ends = {} if plan.ends is None else {"ends": plan.ends}
    return upstream | told | ours | ends
