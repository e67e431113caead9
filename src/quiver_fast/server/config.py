"""The server contract: arguments in, one checked configuration out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from quiver_fast import arguments
from quiver_fast.errors import UsageError
from quiver_fast.options import option
from quiver_fast.options.option import keys
from quiver_fast.options.server import SERVER_OPTIONS
from quiver_fast.queuefile.durability import parse_durability
from quiver_fast.queuefile.folders import folder_of, is_plain
from quiver_fast.urls import split_url

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671, "csp": 9876}
REQUIRED = ("host", "path")
# The open frame must not exceed 512 bytes (AMQP 1.0 part 2.4.1).
CONTAINER_ID_MAX = 128

_HEAD = """\
Usage: quiver-server-pyfast KEY=VALUE...

Serve AMQP 1.0 queues, remote queues (csp), or both. Without arguments, print what this server is;
with --version, its version. An optional key with an empty value counts as absent, but users,
passwords, trust stores and mechanisms may not be empty. An unknown key is named in a warning and
ignored.
"""

KNOWN = keys(SERVER_OPTIONS)
# An unset variable in one of these would serve everybody.
GUARDS = keys(one for one in SERVER_OPTIONS if one.guards)
# The settings that each mechanism of ours needs, by the keys.
MECHANISMS = {"SCRAM-SHA-256": "user", "PLAIN": "user", "EXTERNAL": "trust-store", "ANONYMOUS": ""}
# Options of the command that are no keys: ignored like unknown keys, they would guard nothing.
FLAGS_ALONE = {
    "password-file": "password-fd",
    "connect-password-file": "connect-password-fd",
    "username": "user",
}
# What each key needs to have an effect.
NEEDS = {
    "cert": "scheme=amqps",
    "key": "scheme=amqps",
    "trust-store": "scheme=amqps",
    "allow-old-tls": "scheme=amqps",
    "allow-insecure-plain": "user",
    "durability": "store",
    "roll-size": "store",
    "verify": "store",
    "no-create": "csp-port",
    "roll": "csp-port",
    "connect-count": "connect",
    "connect-user": "connect",
    "connect-trust-store": "connect=amqps://HOST",
    "connect-tls-verify": "connect=amqps://HOST",
    "metrics-host": "metrics-port",
}
DEFAULTS = {one.key: one.default for one in SERVER_OPTIONS}
# The keys that remote queues support: they have no users and no TLS.
CSP_KEYS = keys(one for one in SERVER_OPTIONS if one.csp)


def usage() -> str:
    """Return the text of ``--help``."""
    return option.usage(_HEAD, SERVER_OPTIONS)


@dataclass(frozen=True)
class Target:
    """Another server to connect to."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{arguments.endpoint(self.host, self.port)}"


Naming = Callable[[str], str]
"""Returns the caller's name for a key: a command returns the key's flag."""


def target(text: str, name: Naming = str) -> Target:
    """Return the server that a URL names.

    Raises:
        UsageError: the URL is malformed, or has more than scheme, host and port.
    """
    parts = split_url(text if "://" in text else f"amqp://{text}")
    if parts.scheme not in ("amqp", "amqps") or not parts.host or parts.rest not in ("", "/"):
        raise UsageError(f"{name('connect')}: '{text}' is not amqp[s]://HOST[:PORT]")
    return Target(parts.scheme, parts.host, parts.port or DEFAULT_PORTS[parts.scheme])


_URL_START = re.compile(r"(?:^|,)(?:amqps?:)?//")


def targets(text: str, name: Naming = str) -> list[Target]:
    """Return the servers of a list of URLs.

    Raises:
        UsageError: one is malformed, or names a user. The message does not show the user's name.
    """
    if "@" in text:
        # A comma ends a URL here, but it may also be part of a password.
        split_url(f"//{_URL_START.split(text)[-1]}")
        raise UsageError(
            f"{name('connect')}: name the user by {name('connect-user')}, not in the URL"
        )
    return [target(url, name) for url in text.split(",") if url]


def trunk_names(text: str, name: Naming = str) -> frozenset[str]:
    """Return the names of the servers that may be trunks.

    Raises:
        UsageError: a name has a comma and is no certificate's subject, such as ``CN=a,O=b``.
    """
    names = frozenset(text.split(";")) - {""}
    for one in names:
        if "," in one and "=" not in one:
            raise UsageError(f"{name('trunks')}: '{one}' has a comma; names are separated by ';'")
    return names


class ServerConfig:
    """One server's configuration; every value is checked and has its final type.

    Attributes have the contract's names with underscores. ``unknown`` has the keys that are
    unknown and were ignored.
    """

    unknown: tuple[str, ...]
    host: str
    path: str
    port: int
    scheme: str
    ready_file: str | None
    user: str | None
    password: str | None
    cert: str | None
    key: str | None
    trust_store: str | None
    sasl_mechanisms: list[str] | None
    allow_insecure_plain: bool
    allow_old_tls: bool
    quiet: bool
    verbose: bool
    addresses: list[str]
    pinned: bool
    priorities: frozenset[str]
    queue_limit: int
    memory_limit: int
    max_message_size: int
    credit: int
    max_connections: int
    max_sessions: int
    max_links: int
    max_transactions: int
    max_queues: int
    stream_sessions: str
    max_frame_size: int
    idle_timeout: int
    handshake_timeout: int
    csp_port: int
    store: str | None
    no_create: bool
    roll: str
    retain: int
    verify: bool
    durability: str
    roll_size: int
    metrics_port: int
    metrics_host: str
    container_id: str | None
    trunks: frozenset[str]
    connect: list[Target]
    connect_count: int
    connect_user: str | None
    connect_password: str | None
    connect_trust_store: str | None
    connect_tls_verify: bool

    def __init__(self, values: dict[str, object], unknown: tuple[str, ...]) -> None:
        self.unknown = unknown
        for key, value in values.items():
            setattr(self, key.replace("-", "_"), value)

    def has_priorities(self, address: bytes) -> bool:
        """Say whether an address delivers messages of a higher priority first."""
        return "*" in self.priorities or address.decode() in self.priorities

    @property
    def is_temporary(self) -> bool:
        """Whether remote queues are in a temporary directory, which is deleted with the server."""
        return self.scheme == "csp" and self.store is None


def _values(given: dict[str, str], name: Naming) -> dict[str, object]:
    values = option.values(SERVER_OPTIONS, given)
    values["host"] = arguments.host(given["host"])
    values["port"] = arguments.port(given.get("port", "-"), DEFAULT_PORTS[str(values["scheme"])])
    ready_file = given.get("ready-file", "-")
    values["ready-file"] = None if ready_file == "-" else ready_file
    values["password"] = arguments.password(given)
    values["connect"] = targets(given.get("connect", ""), name)
    values["trunks"] = trunk_names(given.get("trunks", ""), name)
    values["connect-password"] = arguments.password(given, "connect-password")
    mechanisms = given.get("sasl-mechanisms")
    values["sasl-mechanisms"] = mechanisms and mechanisms.upper().split()
    if values["sasl-mechanisms"] == []:
        raise UsageError(f"{name('sasl-mechanisms')} names none")
    listed = [address for address in given.get("addresses", "").split(",") if address]
    values["priorities"] = frozenset(given.get("priorities", "").split(",")) - {""}
    values["pinned"] = "addresses" in given
    values["addresses"] = [address for address in [given["path"], *listed] if address]
    return values


def _check(config: ServerConfig, name: Naming) -> None:
    """Refuse values that cannot work together, before anything starts."""
    if config.scheme == "amqps" and config.cert is None:
        raise UsageError(f"{name('scheme=amqps')} needs {name('cert')} (and {name('key')})")
    for address in config.addresses:
        folder_of(address)
    try:
        parse_durability(config.durability)
    except ValueError as error:
        raise UsageError(str(error).replace("durability", name("durability"), 1)) from None
    _check_needs(config, name)
    if config.scheme == "csp":
        config.csp_port = config.port
    else:
        _check_beside_amqp(config, name)
    _check_mechanisms(config, name)
    if len((config.container_id or "").encode()) > CONTAINER_ID_MAX:
        raise UsageError(f"{name('container-id')} has more than {CONTAINER_ID_MAX} bytes")
    _check_pair(name, {"user": config.user, "password": config.password})
    _check_pair(
        name, {"connect-user": config.connect_user, "connect-password": config.connect_password}
    )


def _check_needs(config: ServerConfig, name: Naming) -> None:
    """Refuse keys that would have no effect."""
    met = {
        "scheme=amqps": config.scheme == "amqps",
        "user": config.user is not None,
        "store": config.store is not None,
        "csp-port": config.scheme == "csp" or config.csp_port > 0,
        "connect": bool(config.connect),
        "connect=amqps://HOST": any(one.scheme == "amqps" for one in config.connect),
        "metrics-port": config.metrics_port >= 0,
    }
    for key, needed in NEEDS.items():
        if getattr(config, key.replace("-", "_")) != DEFAULTS[key] and not met[needed]:
            raise UsageError(f"{name(key)} needs {name(needed)}")


def _check_mechanisms(config: ServerConfig, name: Naming) -> None:
    """Refuse mechanisms that this server cannot offer: a list of them alone would offer none."""
    given = {"user": config.user, "trust-store": config.trust_store, "": "nothing is needed"}
    for mechanism in config.sasl_mechanisms or ():
        if mechanism not in MECHANISMS:
            raise UsageError(
                f"{name('sasl-mechanisms')}: '{mechanism}' is none of {', '.join(MECHANISMS)}"
            )
        if given[MECHANISMS[mechanism]] is None:
            raise UsageError(
                f"{name('sasl-mechanisms')}: {mechanism} needs {name(MECHANISMS[mechanism])}"
            )
        if mechanism == "ANONYMOUS" and config.user is not None:
            raise UsageError(f"{name('sasl-mechanisms')}: with {name('user')}, nobody is ANONYMOUS")


def _check_pair(name: Naming, values: dict[str, str | None]) -> None:
    """Refuse a user without a password, and a password without a user."""
    if len({value is None for value in values.values()}) > 1:
        raise UsageError(f"{' and '.join(map(name, values))} need each other")


def _check_beside_amqp(config: ServerConfig, name: Naming) -> None:
    """Refuse options of remote queues that would break promises to AMQP clients of the store."""
    if config.retain:
        raise UsageError(
            f"{name('retain')} needs {name('scheme=csp')}: it would delete messages nobody has "
            "accepted"
        )
    if not config.csp_port:
        return
    if config.store is None:
        raise UsageError(f"{name('csp-port')} needs {name('store')}")
    guards = {
        "user": config.user,
        "trust-store": config.trust_store,
        "scheme=amqps": config.scheme == "amqps",
    }
    for guard, value in guards.items():
        if value:
            raise UsageError(
                f"{name('csp-port')} has no users and no TLS, and would serve to anybody what "
                f"{name(guard)} guards"
            )


def _check_csp(given: dict[str, str]) -> None:
    """Refuse keys that remote queues do not support."""
    unfit = sorted(set(given) - CSP_KEYS)
    if unfit:
        raise UsageError(f"scheme=csp does not support {', '.join(unfit)}")
    if given["path"] and not is_plain(given["path"]):
        raise UsageError(f"'{given['path']}' cannot be the name of a queue")


# Values that become strings of AMQP, or parts of SASL.
_TEXTS = ("path", "container-id", "user", "password", "connect-user", "connect-password")


def parse(words: list[str], name: Naming = str) -> ServerConfig:
    """Turn the server's command line into its configuration.

    Args:
        words: the command line.
        name: returns the name of a key for messages.

    Raises:
        UsageError: an argument is missing, malformed or does not fit another.
    """
    given = arguments.split(words, KNOWN, REQUIRED, GUARDS | set(FLAGS_ALONE))
    for key in given.unknown:
        if key in FLAGS_ALONE:
            raise UsageError(f"{key} is an option of quiver-server; the key is {FLAGS_ALONE[key]}")
    arguments.check_texts(given.values, _TEXTS, name)
    if given.values.get("scheme") == "csp":
        _check_csp(given.values)
    config = ServerConfig(_values(given.values, name), given.unknown)
    _check(config, name)
    return config
