"""How an arrow is asked to connect again: the options' texts, read into places and pauses."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from quiver_fast.arguments import DEFAULT_PORTS, endpoint
from quiver_fast.errors import UsageError
from quiver_fast.quantities import microseconds
from quiver_fast.urls import split_url

if TYPE_CHECKING:
    from collections.abc import Iterable


class Pause(NamedTuple):
    """The pauses between attempts to connect, in seconds: each is twice as long as the last."""

    first: float
    longest: float


def parse_pause(text: str, name: str = "reconnect-pause") -> Pause:
    """Return the pauses of a text such as ``10ms,1s``, which no text stands for.

    Raises:
        UsageError: the text has no pauses; the message calls the option ``name``.
    """
    first, _, longest = (text or "10ms,1s").partition(",")
    found = Pause(*((microseconds(one.strip()) or 0) / 10**6 for one in (first, longest)))
    if not 0 < found.first <= found.longest:
        raise UsageError(f"{name}: '{text}' is not FIRST,LONGEST, such as 10ms,1s")
    return found


def parse_places(text: str) -> tuple[tuple[str, int], ...]:
    """Return the hosts and ports of ``HOST:PORT,HOST:PORT``.

    Raises:
        UsageError: one has no port, or cannot be read.
    """
    found = [split_url(f"//{one}") for one in text.split(",") if one]
    if any(one.port is None or one.rest or one.username is not None for one in found):
        raise UsageError(f"'{text}' is not HOST:PORT, such as localhost:5672")
    return tuple((one.host, one.port or 0) for one in found)


def failover_text(urls: Iterable[str], url: str, scheme: str, name: str) -> str | None:
    """Return the hosts and ports of URLs as a contract has them; None for none.

    Args:
        urls: the URLs, which differ from that of the run in host and port alone.
        url: that of the run, without a password.
        scheme: its scheme.
        name: the name of the option in messages.

    Raises:
        UsageError: one differs in something else.
    """
    places = []
    for text in urls:
        one = split_url(text)
        if not one.host:
            raise UsageError(f"{name}: '{one.shown}' has no host: write one such as //other:5672")
        if one.username is not None:
            raise UsageError(f"{name}: '{one.shown}' has a user: all places have the URL's")
        if one.scheme not in ("", scheme) or one.rest not in ("", "/", split_url(url).rest):
            raise UsageError(f"{name}: '{one.shown}' differs from the URL in more than its host")
        places.append(endpoint(one.host, one.port or DEFAULT_PORTS[scheme]))
    return ",".join(places) or None
