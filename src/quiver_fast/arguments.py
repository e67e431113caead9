"""Arguments of arrows and servers, ``key=value``: splitting, checking, showing them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from quiver_fast.errors import UsageError

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671, "csp": 9876}


class Given(NamedTuple):
    """The arguments of a command line.

    Attributes:
        values: the values of the keys that are known.
        unknown: the other keys, in order. They are no error ("Implementations should avoid
            validating inputs"): a wrapper that is newer than this program may pass more keys.
    """

    values: dict[str, str]
    unknown: tuple[str, ...]


def split(
    arguments: list[str],
    known: Collection[str],
    required: Collection[str],
    filled: Collection[str] = (),
) -> Given:
    """Return the values by key; an optional key with an empty value counts as absent.

    Args:
        arguments: the words.
        known: all keys.
        required: the keys that must be there.
        filled: the optional keys whose value may not be empty.

    Raises:
        UsageError: a word has no ``=``, or a key is missing, empty or given twice; the message
            names it.
    """
    given: dict[str, str] = {}
    unknown: dict[str, None] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise UsageError(f"'{argument}' is not KEY=VALUE")
        if not value and key in filled:
            raise UsageError(f"{key}: empty, as of a variable that is not set")
        if not value and key not in required:
            # Wrappers pass every key that they know, with or without a value: upstream's wrapper
            # passes `scheme=` for a URL without a scheme.
            continue
        if key not in known:
            unknown[key] = None
        elif key in given:
            raise UsageError(f"{key} is given twice")
        else:
            given[key] = value
    missing = [key for key in required if key not in given]
    if missing:
        raise UsageError(f"missing argument{'s' * (len(missing) > 1)}: {', '.join(missing)}")
    return Given(given, tuple(unknown))


def check_texts(
    given: dict[str, str], keys: Collection[str], name: Callable[[str], str] = str
) -> None:
    """Refuse values that AMQP could not have as a string.

    Args:
        given: the values by key.
        keys: the keys to check.
        name: returns the name of a key for messages.

    Raises:
        UsageError: a value is not UTF-8.
    """
    for key in keys:
        check_text(name(key), given.get(key, ""), secret=key.endswith("password"))


def check_text(name: str, value: str, *, secret: bool = False) -> None:
    """Refuse a value that AMQP could not have as a string.

    Args:
        name: what the message calls it.
        value: the value.
        secret: the message does not show it.

    Raises:
        UsageError: the value is not UTF-8.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        shown = "the one given" if secret else repr(value)
        raise UsageError(f"{name} is UTF-8, and {shown} is not") from None


def number(key: str, text: str, least: int, most: int) -> int:
    """Return ``text`` as a whole number in a range.

    Raises:
        UsageError: the text is no such number.
    """
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise UsageError(f"{key} must be a whole number from {least} to {most}, not '{text}'")
    return int(text)


def switch(key: str, text: str) -> bool:
    """Return whether a switch is on.

    Raises:
        UsageError: it is neither 0 nor 1.
    """
    if text not in ("0", "1"):
        raise UsageError(f"{key} must be 0 or 1, not '{text}'")
    return text == "1"


def choice(key: str, text: str, choices: Collection[str]) -> str:
    """Return ``text`` if it is one of the choices.

    Raises:
        UsageError: it is not.
    """
    if text not in choices:
        raise UsageError(f"{key} must be {' or '.join(choices)}, not '{text}'")
    return text


def port(given: Mapping[str, str]) -> int:
    """Return the port of the arguments; ``-`` or none is the default of their scheme.

    Raises:
        UsageError: it is not a port.
    """
    text = given.get("port", "-")
    if text == "-":
        return DEFAULT_PORTS[given.get("scheme", "amqp")]
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 65535:
        raise UsageError(f"port must be 1 to 65535 or '-', not '{text}'")
    return int(text)


def host(text: str) -> str:
    """Return ``text`` if it may be a host.

    Raises:
        UsageError: it has a user before it; the message does not show the user.
    """
    if "@" in text:
        raise UsageError("host has an '@': it is a name or an address, without a user and a URL")
    return text


def endpoint(host: str, port: int) -> str:
    """Return a host and a port in the form of URLs: an IPv6 address is in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def password(given: dict[str, str], key: str = "password") -> str | None:
    """Return a password from ``key`` or from the descriptor of ``key`` with ``-fd``.

    Raises:
        UsageError: both are given, or the descriptor cannot be read, or has nothing.
    """
    by_descriptor = f"{key}-fd"
    if by_descriptor not in given:
        return given.get(key)
    if key in given:
        raise UsageError(f"{key} does not go with {by_descriptor}")
    try:
        with open(int(given[by_descriptor]), encoding="utf-8-sig") as stream:
            found = stream.read().rstrip("\n")
    except (OSError, ValueError):
        raise UsageError(
            f"cannot read a password from {by_descriptor}={given[by_descriptor]}"
        ) from None
    if not found:
        raise UsageError(f"{by_descriptor}: the password is empty")
    return found
