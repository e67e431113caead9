"""Arguments of the form ``key=value``, as arrows and servers take them: split and checked."""

from __future__ import annotations

from collections.abc import Collection

from quiver_fast.errors import UsageError

__all__ = ["choice", "number", "password", "port", "split", "switch"]


def split(
    arguments: list[str], known: Collection[str], required: Collection[str]
) -> dict[str, str]:
    """Return the values by key.

    Raises:
        UsageError: a key is unknown, missing or given twice; the message names it.
    """
    given: dict[str, str] = {}
    unknown = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or key not in known:
            unknown.append(key)
        elif key in given:
            raise UsageError(f"{key} is given twice")
        given[key] = value
    if unknown:
        raise UsageError(f"unknown argument{'s' * (len(unknown) > 1)}: {', '.join(unknown)}")
    missing = [key for key in required if key not in given]
    if missing:
        raise UsageError(f"missing argument{'s' * (len(missing) > 1)}: {', '.join(missing)}")
    return given


def number(key: str, text: str, least: int, most: int) -> int:
    """Return ``text`` as a whole number in a range.

    Raises:
        UsageError: it is none.
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


def port(text: str, default: int) -> int:
    """Return a port number; ``-`` is the default.

    Raises:
        UsageError: it is not a port.
    """
    if text == "-":
        return default
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 65535:
        raise UsageError(f"port must be 1 to 65535 or '-', not '{text}'")
    return int(text)


def password(given: dict[str, str], key: str = "password") -> str | None:
    """Return a password, given as ``key`` or by the descriptor of ``key`` with ``-fd``.

    Raises:
        UsageError: both are given, or the descriptor cannot be read.
    """
    by_descriptor = f"{key}-fd"
    if by_descriptor not in given:
        return given.get(key)
    if key in given:
        raise UsageError(f"{key} and {by_descriptor} exclude each other")
    try:
        with open(int(given[by_descriptor]), encoding="utf-8") as stream:
            return stream.read().rstrip("\n")
    except (OSError, ValueError):
        raise UsageError(
            f"cannot read a password from {by_descriptor}={given[by_descriptor]}"
        ) from None
