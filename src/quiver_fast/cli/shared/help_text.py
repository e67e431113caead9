"""The epilogs of ``--help``."""

from __future__ import annotations

from collections.abc import Mapping

from quiver_fast.cli.shared.implementations import (
    ARROW_ALIASES,
    BROKERS,
    DEFAULT_IMPLEMENTATION,
    SERVER_ALIASES,
)

__all__ = ["FORMATS", "OPERATIONS", "URLS", "arrow_implementations", "server_implementations"]

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
    "activemq-artemis-jms": "Client mode only; requires Artemis server",
    "activemq-jms": "Client mode only; ActiveMQ or Artemis server",
    "qpid-jms": "Client mode only",
    "qpid-protonj2": "Client mode only",
    "qpid-proton-dotnet": "Client mode only",
    "vertx-proton": "Client mode only",
    **dict.fromkeys(BROKERS, "Started by our launcher, where it is installed"),
}
_SEARCH = """\
  Implementations of others are executables named quiver-{kind}-NAME in the
  directories of $QUIVER_IMPL_PATH or in $QUIVER_HOME/impls.
"""


def arrow_implementations() -> str:
    """Return the epilog section that lists arrow implementations with aliases."""
    return _listing("arrow", ARROW_ALIASES)


def server_implementations() -> str:
    """Return the epilog section that lists server implementations with aliases."""
    return _listing("server", SERVER_ALIASES)


def _listing(kind: str, aliases: Mapping[str, tuple[str, ...]]) -> str:
    lines = [f"{kind} implementations:", _entry(DEFAULT_IMPLEMENTATION, (), "The default")]
    lines += [_entry(name, others, _NOTES.get(name, "")) for name, others in aliases.items()]
    return "\n".join(lines) + "\n\n" + _SEARCH.format(kind=kind)


def _entry(name: str, others: tuple[str, ...], note: str) -> str:
    label = f"{name} ({', '.join(others)})" if others else name
    return f"  {label:<45} {note}".rstrip()
