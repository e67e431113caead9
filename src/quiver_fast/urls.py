"""The reader of all URLs of queues and servers. It hides names and passwords in messages."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import NoReturn
from urllib.parse import quote, unquote, urlsplit

from quiver_fast.arguments import check_text
from quiver_fast.errors import UsageError

_SCHEMES = ("amqp", "amqps", "csp")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_AUTHORITY_END = re.compile(r"[/?#]")
# Characters that must be percent-encoded in a user's name or password (RFC 3986, 3.2.1). Other
# forbidden characters have one possible meaning, and are accepted.
_UNFIT = re.compile(r"[/?#\[\]\s\x00-\x1f\x7f]|%(?![0-9A-Fa-f]{2})")
# RFC 6874, section 2, encodes the "%" before a zone as "%25". RFC 9844 allows a plain "%" too, so
# "%25" without more is zone 25.
_ZONE = re.compile(r"%25(?=.)")

_USER_OF_URL = re.compile(r"//.*@", re.DOTALL)
_USER_OF_HOST = re.compile(r"[^\s'\"=:/]+:(?!//)\S+@")


@dataclass(frozen=True)
class UrlParts:
    """The parts of ``[SCHEME:][//[USER[:PASSWORD]@]HOST[:PORT]]REST``.

    Attributes:
        scheme: in lower case; empty if none was given.
        shown: the URL with ``***`` for a password.
        username: decoded, or None.
        password: decoded, or None; never shown.
        host: in lower case and without the brackets of IPv6; empty if none was given.
        port: the port given, or None.
        rest: the text after the host and port, with its first slash.
    """

    scheme: str
    shown: str
    username: str | None
    password: str | None = field(repr=False)
    host: str
    port: int | None
    rest: str


def split_url(text: str) -> UrlParts:
    """Return the parts of a URL.

    Raises:
        UsageError: a user's name or password has a character that ends it early, or the host or
            port is invalid, or the text is not UTF-8. The message hides the text before an ``@``.
    """
    found = _SCHEME.match(text)
    scheme = found[1].lower() if found else ""
    behind = text[found.end() :] if found else text
    if not behind.startswith("//"):
        _check_user_without_slashes(behind if scheme in _SCHEMES else text)
        shown = f"{scheme}:{behind}" if found else text
        check_text("a URL", shown)
        return UrlParts(scheme, shown, None, None, "", None, behind)
    authority, rest = _authority(behind[2:])
    user, at, server = authority.rpartition("@")
    _check_user(user, server, rest)
    try:
        host, port = _host_and_port(server)
    except ValueError as error:
        reason = str(error)
        if at:
            reason = "the part behind '@' is no host and port"
        elif "could not be cast" in reason:
            # The library's message quotes the port, which may be the beginning of a password.
            reason = "the port is no number"
        raise UsageError(f"URL is malformed: {reason}") from None
    name, colon, password = user.partition(":")
    prefix = f"{scheme}://" if found else "//"
    parts = UrlParts(
        scheme=scheme,
        shown=f"{prefix}{name}{':***' if colon else ''}{at}{server}{rest}",
        username=_decoded(name) if at else None,
        password=_decoded(password) if colon else None,
        host=host,
        port=port,
        rest=rest,
    )
    check_text("a URL", parts.shown)
    return parts


def hide_user(text: str) -> str:
    """Return a message with ``***`` for the users of the URLs that it quotes.

    It may hide more: nobody knows where a password ends in a wrong URL.
    """
    return _USER_OF_HOST.sub("***@", _USER_OF_URL.sub("//***@", text))


def _authority(text: str) -> tuple[str, str]:
    end = _AUTHORITY_END.search(text)
    place = end.start() if end else len(text)
    return text[:place], text[place:]


def _check_user(user: str, server: str, rest: str) -> None:
    """Refuse a user's name or password that ends too early.

    Raises:
        UsageError: it has a character that must be percent-encoded. An ``@`` after the host may
            belong to the address. With a colon before it, it counts as the end of a password,
            unless the host cannot be a user.
    """
    if unfit := _UNFIT.search(user):
        _refuse(unfit[0])
    if "@" not in rest or _is_certain(server):
        return
    before = f"{user}@{server}{rest.rpartition('@')[0]}"
    if not rest.startswith("/") or ":" in before:
        _refuse(rest[0])


def _check_user_without_slashes(text: str) -> None:
    """Refuse a URL that names a user and lacks the slashes before it.

    Raises:
        UsageError: it lacks them, or the user's name has a character that must be encoded.
    """
    before = text.rpartition("@")[0].removeprefix("/")
    if ":" not in before:
        return
    if unfit := _UNFIT.search(before):
        _refuse(unfit[0])
    raise UsageError("the URL has an '@', and lacks the '//' before its user or host")


def _refuse(character: str) -> NoReturn:
    other = ", or give an address that has an '@' by --address" if character == "/" else ""
    raise UsageError(
        f"{character!r} stands before the '@' of the URL: percent-encode it in a user's name or "
        f"password, as {quote(character, safe='')}{other}"
    )


def _is_certain(server: str) -> bool:
    """Say whether ``server`` is certainly a host, and not a user and part of a password."""
    host = re.sub(r":\d*$", "", server, flags=re.ASCII)
    if host.startswith("["):
        return True
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return host == "localhost"
    return True


def _host_and_port(server: str) -> tuple[str, int | None]:
    parts = urlsplit(f"//{server}", allow_fragments=False)
    host, port = parts.hostname or "", parts.port
    return _ZONE.sub("%", host, count=1) if ":" in host else host, port


def _decoded(text: str) -> str:
    try:
        decoded = unquote(text, errors="strict")
        # Bytes of the command line that are not UTF-8 are lone surrogates (PEP 383).
        decoded.encode()
    except UnicodeError:
        raise UsageError(
            "the user's name or password in the URL is not percent-encoded UTF-8"
        ) from None
    return decoded
