"""Names, passwords and certificates: their sources, and how passwords stay hidden."""

from __future__ import annotations

from collections.abc import Mapping

from quiver_fast.cli.shared.implementations import Implementation
from quiver_fast.errors import UsageError


def only_one(sentence: str, sources: Mapping[str, str | None]) -> str | None:
    """Return the one value that is given, or None.

    Args:
        sentence: the error in words that follow the two names, such as "both name a user".
        sources: the values by the names of their sources.

    Raises:
        UsageError: two are given, or the value is empty.
    """
    given = [source for source, value in sources.items() if value is not None]
    if len(given) > 1:
        raise UsageError(f"{given[0]} and {given[1]} {sentence}")
    if given and not sources[given[0]]:
        raise UsageError(f"{given[0]}: empty, as of a variable that is not set")
    return sources[given[0]] if given else None


def read_password(
    file: str | None, sources: Mapping[str, str | None], flag: str = "--password-file"
) -> str | None:
    """Return the password: the first line of ``file``, which ``flag`` names, or another source's.

    Raises:
        UsageError: two sources have one, or the file cannot be read, or it has none.
    """
    password = only_one("both give a password", {flag: file, **sources})
    if file is None:
        return password
    try:
        # Editors of Windows begin a file with a byte-order mark.
        with open(file, encoding="utf-8-sig") as lines:
            first = lines.readline().rstrip("\r\n")
    except OSError as error:
        raise UsageError(f"{flag}: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{flag}: {file} is not UTF-8 text") from None
    if not first:
        raise UsageError(f"{flag}: the first line of {file} is empty")
    return first


def check_exposure(implementation: Implementation, password: str | None, expose: bool) -> None:
    """Check that a password does not show on a command line without the user's consent.

    Raises:
        UsageError: it would.
    """
    if password is not None and not implementation.extensions and not expose:
        raise UsageError(
            f"implementation '{implementation.name}' takes passwords only on its command line, "
            "where others can see them; --expose-password allows that"
        )
