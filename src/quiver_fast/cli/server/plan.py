"""The plan of one server: its checked options, and its arguments of the server contract."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import Any

from quiver_fast.cli.shared.credentials import (
    check_exposure,
    only_one,
    read_password,
)
from quiver_fast.cli.shared.implementations import Implementation
from quiver_fast.cli.shared.start import prelude_words
from quiver_fast.cli.shared.url import AddressUrl
from quiver_fast.errors import QuiverError, UsageError
from quiver_fast.options.rules import CERTIFICATE_RULES, check, flags_of
from quiver_fast.options.server import SERVER_EXTENSIONS, SERVER_OPTIONS
from quiver_fast.server import config

flag_name = flags_of(SERVER_OPTIONS)


@dataclass(frozen=True)
class ServerPlan:
    """One server. Creating it checks that the implementation has the options.

    Attributes:
        implementation: the server's implementation.
        url: its address, and the queue that exists from the start.
        ready_file: the file that gets the line ``ready``, or None.
        options: the contract's keys that options set, with their values; none for a password.
        password: the password of clients, or None.
        expose_password: whether the password may show on a command line.
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
    options: dict[str, Any] = field(default_factory=dict)
    password: str | None = field(default=None, repr=False)
    expose_password: bool = False
    connect_password: str | None = field(default=None, repr=False)
    prelude: tuple[str, ...] = ()
    quiet: bool = False
    verbose: bool = False

    def __post_init__(self) -> None:
        implementation = self.implementation
        check_exposure(implementation, self.password, self.expose_password)
        asked = {key: flag_name(key) for key in self.options if key in SERVER_EXTENSIONS}
        if self.connect_password is not None:
            asked["connect"] = flag_name("connect-password")
        if self.url.scheme == "csp":
            asked = {"csp-port": "csp URLs"} | asked
        for key, flag in asked.items():
            if key not in implementation.keys:
                raise UsageError(f"implementation '{implementation.name}' does not support {flag}")
        if implementation.unavailable is not None:
            raise QuiverError(implementation.unavailable)

    @property
    def secrets(self) -> dict[str, str]:
        """The secrets that the server reads from descriptors, by the keys of the descriptors."""
        if self.connect_password is None:
            return {}
        return {"connect-password-fd": self.connect_password}


def server_plan(
    args: argparse.Namespace, implementation: Implementation, url: AddressUrl
) -> ServerPlan:
    """Return the plan for the arguments of `quiver-server`.

    Raises:
        UsageError: the arguments contradict each other, or the implementation lacks one of them.
        QuiverError: the implementation cannot run here.
    """
    passwords = {"--password": args.password, "the URL": url.password}
    values = {
        option.key: 0
        if option.inverted and getattr(args, option.dest)
        else getattr(args, option.dest)
        for option in SERVER_OPTIONS
        if option.flag and option.key not in ("", "password")
    }
    values["user"] = only_one("both name a user", {"--user": args.user, "the URL": url.username})
    # 0 is a value: it means no limit.
    options = {key: one for key, one in values.items() if one is not None and one is not False}
    check(CERTIFICATE_RULES, options, flag_name)
    return ServerPlan(
        implementation=implementation,
        url=url,
        ready_file=args.ready_file,
        options=options,
        password=read_password(args.password_file, passwords),
        expose_password=args.expose_password,
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
    config.parse([*server_arguments(plan), *given], flag_name)


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
        "user": None,
        "password": None if ours else plan.password,
        **plan.options,
        "quiet": plan.quiet or None,
        "verbose": plan.verbose or None,
        "scheme": plan.url.scheme if ours else None,
        "password-fd": password_fd,
    }
    return [
        f"{key}={1 if value is True else value}"
        for key, value in arguments.items()
        if value is not None
    ]
