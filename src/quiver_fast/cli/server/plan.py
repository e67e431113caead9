"""The plan of one server: its checked options, and its arguments of the server contract."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

from quiver_fast.cli.shared.credentials import (
    check_certificate,
    check_exposure,
    only_one,
    read_password,
)
from quiver_fast.cli.shared.implementations import Implementation
from quiver_fast.cli.shared.start import prelude_words
from quiver_fast.cli.shared.url import AddressUrl
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.options.option import keys
from quiver_fast.options.server import SERVER_EXTENSIONS, SERVER_OPTIONS
from quiver_fast.server import config

_FLAGS = {option.key: option.flag for option in SERVER_OPTIONS if option.flag}
# The names of the contract's keys in messages of the command.
_NAMES = _FLAGS | {
    "scheme=amqps": "an amqps URL",
    "scheme=csp": "a csp URL",
    "connect=amqps://HOST": "--connect amqps://HOST",
    "password": "a password (--password-file)",
    "connect-password": "--connect-password-file",
}
_CSP_KEYS = keys(option for option in SERVER_OPTIONS if option.csp)


@dataclass(frozen=True)
class ServerPlan:
    """One server. Creating it checks that the implementation has the options.

    Attributes:
        implementation: the server's implementation.
        url: its address, and the queue that exists from the start.
        ready_file: the file that gets the line ``ready``, or None.
        user: the user that clients must authenticate as, or None.
        password: the user's password, or None.
        expose_password: whether the password may show on a command line.
        cert: the server's certificate file, or None.
        key: its key file, or None.
        trust_store: the authorities that vouch for clients, or None.
        extensions: keys of ``SERVER_EXTENSIONS`` with their values.
        connect_password: the password for other servers, or None.
        prelude: words before those of the implementation.
        quiet: the server prints nothing.
        verbose: the server prints details.

    Raises:
        UsageError: the implementation lacks an option, or would expose the password.
        QuiverError: the implementation cannot run here.
    """

    implementation: Implementation
    url: AddressUrl
    ready_file: str | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    expose_password: bool = False
    cert: str | None = None
    key: str | None = None
    trust_store: str | None = None
    extensions: dict[str, Any] = field(default_factory=dict)
    connect_password: str | None = field(default=None, repr=False)
    prelude: tuple[str, ...] = ()
    quiet: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        implementation = self.implementation
        check_exposure(implementation, self.password, self.expose_password)
        for key in self.extensions:
            if key not in implementation.keys:
                raise UsageError(
                    f"implementation '{implementation.name}' does not support {_FLAGS[key]}"
                )
        if self.connect_password is not None and "connect" not in implementation.keys:
            raise UsageError(
                f"implementation '{implementation.name}' does not support --connect-password-file"
            )
        if self.url.scheme == "csp":
            self._check_csp()
        if implementation.unavailable is not None:
            raise QuiverError(implementation.unavailable)

    @property
    def secrets(self) -> dict[str, str]:
        """The secrets that the server reads from descriptors, by the keys of the descriptors."""
        if self.connect_password is None:
            return {}
        return {"connect-password-fd": self.connect_password}

    def _check_csp(self) -> None:
        """Refuse options that mean nothing for remote queues."""
        if "csp-port" not in self.implementation.keys:
            raise UsageError(
                f"implementation '{self.implementation.name}' does not support csp URLs"
            )
        amqp_only: dict[str, Any] = {
            "a user": self.user,
            "a password": self.password,
            "--cert": self.cert,
            "--key": self.key,
            "--trust-store": self.trust_store,
            "--connect-password-file": self.connect_password is not None,
        }
        amqp_only |= {_FLAGS[key]: key not in _CSP_KEYS for key in self.extensions}
        for flag, value in amqp_only.items():
            if value:
                raise UsageError(f"a csp URL does not go with {flag}")


def server_plan(
    args: argparse.Namespace, implementation: Implementation, url: AddressUrl
) -> ServerPlan:
    """Return the plan for the arguments of `quiver-server`.

    Raises:
        UsageError: the arguments contradict each other, or the implementation lacks one of them.
        QuiverError: the implementation cannot run here.
    """
    check_certificate(args.cert, args.key)
    users = {"--user": args.user, "the URL": url.username}
    passwords = {"--password": args.password, "the URL": url.password}
    given = [
        (option, getattr(args, option.dest))
        for option in SERVER_OPTIONS
        if option.key in SERVER_EXTENSIONS
    ]
    return ServerPlan(
        implementation=implementation,
        url=url,
        ready_file=args.ready_file,
        user=only_one("both name a user", users),
        password=read_password(args.password_file, passwords),
        expose_password=args.expose_password,
        cert=args.cert,
        key=args.key,
        trust_store=args.trust_store,
        # 0 is a value: it means no limit.
        extensions={
            option.key: 0 if option.inverted else value
            for option, value in given
            if value is not None and value is not False
        },
        connect_password=read_password(args.connect_password_file, {}, "--connect-password-file"),
        prelude=prelude_words(args.prelude),
        quiet=args.quiet,
        verbose=args.verbose,
    )


def check_arguments(plan: ServerPlan) -> None:
    """Refuse arguments that our own server would refuse, before it is started.

    Raises:
        UsageError: the values do not fit each other; the message names the options.
    """
    secrets = {"password": plan.password, "connect-password": plan.connect_password}
    given = [f"{key}={secret}" for key, secret in secrets.items() if secret is not None]
    config.parse([*server_arguments(plan), *given], lambda key: _NAMES.get(key, key))


def server_arguments(plan: ServerPlan, password_fd: int | None = None) -> list[str]:
    """Return the ``key=value`` arguments of the server contract, in upstream's order, then ours.

    Args:
        plan: the plan of the server.
        password_fd: the descriptor of the password, for an implementation with extensions.
    """
    ours = plan.implementation.extensions
    arguments: dict[str, Any] = {
        "host": plan.url.host,
        "port": plan.url.port,
        "path": plan.url.path,
        "ready-file": plan.ready_file or "-",
        "user": plan.user,
        "password": None if ours else plan.password,
        "cert": plan.cert,
        "key": plan.key,
        "trust-store": plan.trust_store,
        "quiet": 1 if plan.quiet else None,
        "verbose": 1 if plan.verbose else None,
        "scheme": plan.url.scheme if ours else None,
        "password-fd": password_fd,
    }
    arguments |= {key: 1 if value is True else value for key, value in plan.extensions.items()}
    return [f"{key}={value}" for key, value in arguments.items() if value is not None]
