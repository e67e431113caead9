"""Address URLs: ``[SCHEME:][//SERVER/]ADDRESS``."""

from __future__ import annotations

import ipaddress
import os
import re
import shlex
import socket
from dataclasses import dataclass, field
from functools import cache

from quiver_fast.arguments import DEFAULT_PORTS
from quiver_fast.errors import PeerError, UsageError
from quiver_fast.resolving import resolve
from quiver_fast.urls import hide_user, split_url

_DEFAULT_HOST = "localhost"
# Commands of other programs, which people try here.
_COMMANDS = ("help", "version")
# Values that people give to switches.
_VALUES = ("yes", "no", "true", "false", "on", "off")
_BEGIN = re.compile(r"//|[A-Za-z][A-Za-z0-9+.-]*:")
_WITH_SCHEME = re.compile(r"([A-Za-z]+:(?!:))?(.*)", re.DOTALL)
_ONE_SLASH = re.compile(r"([A-Za-z]+:)/([^/].*)", re.DOTALL)
_LABEL = r"[^\W_](?:[\w-]*[^\W_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# Full names of hosts, by last parts that hardly any address has.
_DOMAIN = re.compile(
    rf"(?:{_LABEL}\.)+(?:com|net|org|edu|gov|io|cloud|example|test|local|localdomain|internal|lan|"
    r"intranet|corp|eu|de|uk|fr|nl|ch)",
    re.IGNORECASE,
)
_RESOLVING_SECONDS = 0.5
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:\d{1,5}(/|$)", re.ASCII)


@dataclass(frozen=True)
class AddressUrl:
    """Where a queue is.

    Attributes:
        shown: the URL as given, with ``***`` for any password: it may be shown and saved.
        scheme: "amqp" if none was given.
        host: name or address, without the brackets of IPv6.
        port: the port given, else the scheme's default, else 5672 as upstream.
        explicit_port: whether the port was given.
        path: the address, without its first "/".
        username: decoded, or None.
        password: decoded, or None; never shown.
        verbatim: whether the path is an address that no arrow may change.
    """

    shown: str
    scheme: str
    host: str
    port: int
    explicit_port: bool
    path: str
    username: str | None
    password: str | None = field(repr=False)
    verbatim: bool = False

    @property
    def secure(self) -> bool:
        """Whether the scheme demands TLS."""
        return self.scheme == "amqps"


def parse_url(text: str, address: str | None = None) -> AddressUrl:
    """Parse an address URL.

    Args:
        text: the URL.
        address: an address to use unchanged, in place of the URL's path.

    Raises:
        UsageError: the URL cannot be read (see :func:`.split_url`), or there is no address, or it
            is a host and a port without the slashes before them. The message has no password.
    """
    if not text:
        raise UsageError("the URL is empty; write one such as //localhost/q0")
    parts = split_url(text)
    if address is None:
        _check_meaning(text)
    # An address may have a "?": it begins no query here.
    path = parts.rest.removeprefix("/") if address is None else address
    if not path:
        raise UsageError(f"URL '{parts.shown}' has no address: write {_with_address(parts.shown)}")
    scheme = parts.scheme or "amqp"
    return AddressUrl(
        shown=parts.shown,
        scheme=scheme,
        host=parts.host or _DEFAULT_HOST,
        port=DEFAULT_PORTS.get(scheme, 5672) if parts.port is None else parts.port,
        explicit_port=parts.port is not None,
        path=path,
        username=parts.username,
        password=parts.password,
        verbatim=address is not None,
    )


def _check_meaning(text: str) -> None:
    """Refuse a text whose author probably meant something else.

    Raises:
        UsageError: it is a host, an option or a command, or a URL with one slash before its host.
    """
    if _HOST_AND_PORT.match(text):
        # Else "localhost" would be the scheme of "localhost:5672/q0".
        raise UsageError(f"'{text}' begins with a host: write //{text}")
    if found := _ONE_SLASH.match(text):
        scheme, rest = found.groups()
        raise UsageError(f"after '{scheme}' there is one slash: write {scheme}//{rest}")
    if parts := _WITH_SCHEME.fullmatch(text):
        _check_host(parts[1] or "", parts[2])
    if text.startswith("--"):
        # Argparse takes an unknown option with a blank in it for a positional argument.
        raise UsageError(f"'{text.partition('=')[0]}' is not an option")
    if text.lower() in _VALUES:
        raise UsageError(
            f"'{text}' looks like a value, and switches take none: leave it out, or write "
            f"//localhost/{text} for a queue"
        )
    if text in _COMMANDS:
        raise UsageError(f"'{text}' looks like an option: write --{text}, or //localhost/{text}")


def _check_host(scheme: str, text: str) -> None:
    """Refuse an address that is a host, or begins with one.

    Raises:
        UsageError: it does.
    """
    first, slash, rest = text.partition("/")
    ours = _is_host(first)
    # The name server is not asked for the name of each queue.
    asked = rest or "." in first
    if not (ours or _DOMAIN.fullmatch(first) or (asked and _resolves(first))):
        return
    named = first.lower() == _DEFAULT_HOST or re.fullmatch(r"[\d.]+", first, re.ASCII)
    queue = "" if named else f", or {scheme}//{_DEFAULT_HOST}/{text} for a queue"
    if rest:
        raise UsageError(f"'{text}' begins with a host: write {scheme}//{text}{queue}")
    if not slash:
        host = f"[{text}]" if ":" in text else text
        raise UsageError(f"'{text}' is a host: write {scheme}//{host}/q0{queue}")


def _is_host(text: str) -> bool:
    if text.lower() in (_DEFAULT_HOST, socket.gethostname().lower()):
        return True
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


@cache
def _resolves(name: str) -> bool:
    """Say whether a name has an address, as far as a name server tells it at once."""
    if re.fullmatch(r"[\d.]+", name, re.ASCII):
        # getaddrinfo takes 1.2 for an address, and people take it for a version.
        return False
    # Some name servers have an address for any name.
    other = f"{name}-{os.urandom(4).hex()}"
    return _NAME.fullmatch(name) is not None and _has_address(name) and not _has_address(other)


def _has_address(name: str) -> bool:
    try:
        return bool(resolve(name, 0, timeout=_RESOLVING_SECONDS))
    except PeerError:
        return False


def _with_address(shown: str) -> str:
    return f"{shown.rstrip('/')}/q0"


def begins_url(word: str) -> bool:
    """Say whether a word is a URL, and not another argument."""
    return _BEGIN.match(word) is not None


def shown_words(text: str) -> str:
    """Return a line of words, quoted for a shell, with ``***`` for the passwords of URLs."""
    try:
        return shlex.join(map(_shown, shlex.split(text)))
    except ValueError:
        return hide_user(text)


def _shown(word: str) -> str:
    if not begins_url(word):
        return word
    try:
        return parse_url(word, address="any").shown
    except UsageError:
        return "(a malformed URL)"
