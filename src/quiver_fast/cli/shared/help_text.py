"""The epilogs of ``--help``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quiver_fast.cli.shared.implementations import (
    ARROW_ALIASES,
    BROKERS,
    CLIENT_ONLY,
    DEFAULT_IMPLEMENTATION,
    SERVER_ALIASES,
    Implementation,
    all_arrows,
    all_servers,
)

OPERATIONS = """\
operations:
  send                  Send messages
  receive               Receive messages
"""

URLS = """\
URLs:
  [SCHEME:][//SERVER/]ADDRESS     The default server is 'localhost'
  queue0
  //localhost/queue0
  amqp://example.net:10000/jobs
  amqps://10.0.0.10/jobs/alpha
  amqps://username:password@10.0.0.10/jobs/alpha
  csp://example.net/jobs          A remote queue (pyfast)

  The default port is 5672 for amqp, 5671 for amqps and 9876 for csp.
  On RabbitMQ 4 'queues/q0' and 'q0' are the queue '/queues/q0'; see --address.
"""

FORMATS = """\
count format:                     duration format:
  1 (no unit)    1                  1 (no unit)    1 second
  1k             1,000              1s             1 second
  1m             1,000,000          1m             1 minute
                                    1h             1 hour
"""

_NOTES = {
    DEFAULT_IMPLEMENTATION: "The default",
    **dict.fromkeys(CLIENT_ONLY, "Client mode only"),
    **dict.fromkeys(BROKERS, "Started by our launcher"),
    "activemq-artemis-jms": "Client mode only; requires Artemis server",
    "activemq-jms": "Client mode only; ActiveMQ or Artemis server",
}
_SEARCH = """\
  * is installed here. Implementations of others are executables named
  quiver-{kind}-NAME in the directories of $QUIVER_IMPL_PATH or in
  $QUIVER_HOME/impls; those of Quiver are at https://github.com/ssorj/quiver.
"""
_LAUNCHERS = """\
  A launcher needs the broker itself: 'quiver-server --impl NAME --info' says
  where it is looked for.
"""


def arrow_implementations() -> str:
    """Return the epilog section that lists arrows with aliases, and marks the installed ones."""
    return _listing("arrow", ARROW_ALIASES, all_arrows())


def server_implementations() -> str:
    """Return the epilog section that lists servers in the same way."""
    return _listing("server", SERVER_ALIASES, all_servers()) + _LAUNCHERS


def _listing(
    kind: str, aliases: Mapping[str, tuple[str, ...]], found: Sequence[Implementation]
) -> str:
    here = [one.name for one in found if one.unavailable is None]
    names = dict.fromkeys((DEFAULT_IMPLEMENTATION, *aliases, *here))
    lines = [
        _entry(name, aliases.get(name, ()), _NOTES.get(name, ""), name in here) for name in names
    ]
    return "\n".join([f"{kind} implementations:", *lines]) + "\n\n" + _SEARCH.format(kind=kind)


def _entry(name: str, others: tuple[str, ...], note: str, here: bool) -> str:
    label = f"{name} ({', '.join(others)})" if others else name
    return f"  {'*' if here else ' '} {label:<43} {note}".rstrip()
