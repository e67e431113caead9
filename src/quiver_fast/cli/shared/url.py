"""Address URLs: ``[SCHEME:][//SERVER/]ADDRESS``."""

from __future__ import annotations

import ipaddress
import re
import shlex
import socket
from dataclasses import dataclass, field

from quiver_fast.errors import UsageError
from quiver_fast.urls import hide_user, split_url

_DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671, "csp": 9876}
_DEFAULT_HOST = "localhost"
# Words that people try, because other programs take them.
_COMMANDS = ("help", "version")
_BEGIN = re.compile(r"//|[A-Za-z][A-Za-z0-9+.-]*:")
_ONE_SLASH = re.compile(r"([A-Za-z]+:)/([^/].*)", re.DOTALL)
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*:\d{1,5}(/|$)", re.ASCII)


@dataclass(frozen=True)
class AddressUrl:
    """Where a queue is.

    Attributes:
        shown: the URL as given, with any password replaced by ``***``; fit to show and save.
        scheme: "amqp" where none was given.
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
        address: the address to use as it is, in place of the URL's path.

    Raises:
        UsageError: the URL cannot be read (see :func:`.split_url`), or there is no address, or it
            is a host and a port without the slashes before them. The message has no password.
    """
    if not text:
        raise UsageError("the URL is empty; write one such as //localhost/q0")
    parts = split_url(text)
    if address is None:
        _check_meaning(text)
    # A query is no part of AMQP addresses as URLs, but "jobs?a" may well be a queue's name.
    path = parts.rest.removeprefix("/") if address is None else address
    if not path:
        raise UsageError(f"URL '{parts.shown}' has no address: write {_with_address(parts.shown)}")
    scheme = parts.scheme or "amqp"
    return AddressUrl(
        shown=parts.shown,
        scheme=scheme,
        host=parts.host or _DEFAULT_HOST,
        port=_DEFAULT_PORTS.get(scheme, 5672) if parts.port is None else parts.port,
        explicit_port=parts.port is not None,
        path=path,
        username=parts.username,
        password=parts.password,
        verbatim=address is not None,
    )


def _check_meaning(text: str) -> None:
    """Refuse a text that would be read as something other than it says.

    Raises:
        UsageError: it is a host, a command, or a URL whose host would be taken for an address.
    """
    if _HOST_AND_PORT.match(text):
        # Of "localhost:5672/q0" a scheme would be "localhost"; "10.0.0.1:5672/q0" has none.
        raise UsageError(f"'{text}' begins with a host: write //{text}")
    if found := _ONE_SLASH.match(text):
        scheme, rest = found.groups()
        raise UsageError(f"after '{scheme}' there is one slash: write {scheme}//{rest}")
    if _is_host(text):
        host = f"[{text}]" if ":" in text else text
        raise UsageError(f"'{text}' is a host: write //{host}/q0")
    if text.startswith("--"):
        # The library takes an option that it does not know for a URL if there is a blank in it.
        raise UsageError(f"'{text.partition('=')[0]}' is no option")
    if text in _COMMANDS:
        raise UsageError(f"'{text}' is no queue, is it? write --{text}, or //localhost/{text}")


def _is_host(text: str) -> bool:
    if text in ("localhost", socket.gethostname()):
        return True
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _with_address(shown: str) -> str:
    return f"{shown.rstrip('/')}/q0"


def begins_url(word: str) -> bool:
    """Say whether a word of several is a URL."""
    return _BEGIN.match(word) is not None


def shown_words(text: str) -> str:
    """Return words, as a shell divides them, with ``***`` for passwords of the URLs among them."""
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
