"""The server contract: arguments in, one checked configuration out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quiver_fast import arguments
from quiver_fast.errors import UsageError
from quiver_fast.options import option
from quiver_fast.options.option import keys
from quiver_fast.options.rules import SERVER_RULES, check, csp_rule
from quiver_fast.options.server import SERVER_OPTIONS
from quiver_fast.queuefile.durability import parse_durability
from quiver_fast.queuefile.folders import folder_of, is_plain
from quiver_fast.urls import split_url

if TYPE_CHECKING:
    from quiver_fast.options.rules import Naming

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
DEFAULTS = {one.key: one.default for one in SERVER_OPTIONS}
# The keys that remote queues do not have: they have no users and no TLS.
_CSP_RULE = csp_rule(SERVER_OPTIONS)


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


def target(text: str, name: Naming = str) -> Target:
    """Return the server that a URL names.

    Raises:
        UsageError: the URL is malformed, or has more than scheme, host and port.
    """
    parts = split_url(text if "://" in text else f"amqp://{text}")
    if parts.scheme not in ("amqp", "amqps") or not parts.host or parts.rest not in ("", "/"):
        raise UsageError(f"{name('connect')}: '{text}' is not amqp[s]://HOST[:PORT]")
    return Target(parts.scheme, parts.host, parts.port or arguments.DEFAULT_PORTS[parts.scheme])


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


class ServerConfig(option.Values):
    """One server's configuration; every value is checked and has its final type.

    Attributes have the contract's names with underscores. ``pinned`` says whether the addresses
    are the only ones, and ``unknown`` has the keys that are unknown and were ignored. Only values
    that this class computes with are declared.
    """

    unknown: tuple[str, ...]
    scheme: str
    store: str | None
    password: str | None
    priorities: frozenset[str]

    def has_priorities(self, address: bytes) -> bool:
        """Say whether an address delivers messages of a higher priority first."""
        return "*" in self.priorities or address.decode() in self.priorities

    @property
    def is_temporary(self) -> bool:
        """Whether remote queues are in a temporary directory, which is deleted with the server."""
        return self.scheme == "csp" and self.store is None


def _values(given: dict[str, str], name: Naming) -> dict[str, object]:
    values = option.values(SERVER_OPTIONS, given)
    values["password"] = arguments.password(given)
    values["connect-password"] = arguments.password(given, "connect-password")
    try:
        parse_durability(str(values["durability"]))
    except ValueError as error:
        raise UsageError(str(error).replace("durability", name("durability"), 1)) from None
    _check_rules(values, given, name)
    values["host"] = arguments.host(given["host"])
    values["port"] = arguments.port(given)
    if values["scheme"] == "csp":
        values["csp-port"] = values["port"]
    ready_file = given.get("ready-file", "-")
    values["ready-file"] = None if ready_file == "-" else ready_file
    values["connect"] = targets(given.get("connect", ""), name)
    values["trunks"] = trunk_names(given.get("trunks", ""), name)
    mechanisms = given.get("sasl-mechanisms")
    values["sasl-mechanisms"] = mechanisms and mechanisms.upper().split()
    if values["sasl-mechanisms"] == []:
        raise UsageError(f"{name('sasl-mechanisms')} names none")
    listed = [address for address in given.get("addresses", "").split(",") if address]
    values["priorities"] = frozenset(given.get("priorities", "").split(",")) - {""}
    values["pinned"] = "addresses" in given
    values["addresses"] = [address for address in [given["path"], *listed] if address]
    return values


def _check_rules(values: dict[str, object], given: dict[str, str], name: Naming) -> None:
    """Refuse options that cannot work together, or would have no effect."""
    asked = {key for key, value in values.items() if value != DEFAULTS[key]}
    asked.add(f"scheme={values['scheme']}")
    if "amqps://" in given.get("connect", ""):
        asked.add("connect=amqps://HOST")
    check(SERVER_RULES, asked, name)


def _check(config: ServerConfig, name: Naming) -> None:
    """Refuse values that cannot work, before anything starts."""
    if config.scheme == "csp" and config.path and not is_plain(config.path):
        raise UsageError(f"'{config.path}' cannot be the name of a queue")
    for address in config.addresses:
        folder_of(address)
    _check_mechanisms(config, name)
    if len((config.container_id or "").encode()) > CONTAINER_ID_MAX:
        raise UsageError(f"{name('container-id')} has more than {CONTAINER_ID_MAX} bytes")


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
            those = f"{name(key)} is an option of quiver-server"
            raise UsageError(f"{those}; the key is {name(FLAGS_ALONE[key])}")
    arguments.check_texts(given.values, _TEXTS, name)
    check([_CSP_RULE], {*given.values, f"scheme={given.values.get('scheme')}"}, name)
    config = ServerConfig(_values(given.values, name))
    config.unknown = given.unknown
    _check(config, name)
    return config
