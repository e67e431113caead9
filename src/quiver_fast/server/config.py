"""The server contract: arguments in, one checked configuration out."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from quiver_fast import arguments
from quiver_fast.errors import UsageError
from quiver_fast.queuefile.folders import folder_of, is_plain

__all__ = ["KNOWN", "REQUIRED", "USAGE", "ServerConfig", "Target", "parse"]

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671, "csp": 9876}
REQUIRED = ("host", "path")

USAGE = """\
Usage: quiver-server-pyfast KEY=VALUE...

Serve AMQP 1.0 queues, remote queues (csp), or both. Without arguments, print what this server is.
An optional key with an empty value is as absent; an unknown key is told in a warning and ignored.

Required:
  host=TEXT                       where to listen
  path=TEXT                       a queue (or topic...) that is there from the start

What wrappers pass besides (default):
  port=NUMBER|- (-)               '-' is the scheme's default port
  ready-file=FILE|- (-: none)     gets the line 'ready' when connections are accepted

Security:
  scheme=amqp|amqps|csp (amqp)    user=TEXT  password=TEXT | password-fd=NUMBER
  cert=FILE  key=FILE             the server's certificate (required for amqps)
  trust-store=FILE                require clients to have a certificate it vouches for
  sasl-mechanisms='NAME NAME'     the only mechanisms to offer
  allow-insecure-plain=0|1 (0)    offer PLAIN without TLS off the loopback as well

Addresses and messages:
  addresses=NAME,NAME...          the only addresses, besides path (default: any, on demand);
                                  ',' for none besides path
  queue-limit=BYTES (256 MiB)     a queue that holds so much stops its producers
  memory-limit=BYTES (a quarter of the machine's memory)
                                  what connections may hold besides what is in queues: messages
                                  that are not complete, open transactions, unread replies;
                                  beyond it the largest holder is not read, then closed
  max-message-size=BYTES (0: what the queue limit lets in; streams of any size)
  credit=MESSAGES (1000)          what a producer may send ahead
  store=DIRECTORY                 durable messages are kept in DIRECTORY/<queue>/
  durability=none|interval:MS|group (none)
                                  accept them when they are written, or synced to disk
  roll-size=BYTES (256 MiB)       end a queue's file that is so large and mostly removed;
                                  a file goes when everything in it is
  verify=0|1 (0)                  read every file of store wholly before serving it

Remote queues:
  csp-port=NUMBER                 serve the queues of store on this port besides, to anybody:
                                  not with user, trust-store or amqps; with
                                  scheme=csp they are all that is served (port 9876), without
                                  store from a temporary directory that goes with the server
  no-create=0|1 (0)               csp clients may not create queues
  roll=NAME (FAST_DAILY)          how often a new queue's csp writer begins a new file
  retain=CYCLES (0: all)          keep the files of so many cycles of each queue; scheme=csp

Other servers:
  connect=[amqp[s]://]HOST[:PORT],...
                                  route to this server's consumers what others take in, and
                                  the other way
  connect-count=N (1)             connections to each; streams share them
  connect-user=TEXT  connect-password=TEXT | connect-password-fd=NUMBER
  connect-trust-store=FILE        authorities to trust   connect-tls-verify=0|1 (1)

Limits of the protocol:
  max-connections=N (50000, and as many of csp)
  max-sessions=N (1024, per connection)
  max-links=N (4096, per connection; of csp, appenders and tailers)
  max-transactions=N (1000, open ones of a connection)
  max-queues=N (250000, those that clients make on demand are refused beyond)
  stream-sessions=own|shared (own)
                                  a session for each link that is attached for a stream, or
                                  one for those of a connection
  max-frame-size=BYTES (65536)    idle-timeout=SECONDS (30; 0: none)
  handshake-timeout=SECONDS (10)
  quiet=0|1 (0)  verbose=0|1 (0)
"""

MEBIBYTE = 1 << 20
# key: (default, least, most)
NUMBERS = {
    "queue-limit": (256 * MEBIBYTE, 65536, 2**50),
    "memory-limit": (0, 0, 2**50),
    "max-message-size": (0, 0, 2**50),
    "roll-size": (256 * MEBIBYTE, 65536, 2**50),
    "retain": (0, 0, 2**31 - 1),
    "credit": (1000, 1, 1_000_000),
    "max-connections": (50_000, 1, 1_000_000),
    "max-sessions": (1024, 1, 32768),
    "max-links": (4096, 1, 1_000_000),
    "max-transactions": (1000, 1, 1_000_000),
    "max-queues": (250_000, 1, 10_000_000),
    "max-frame-size": (65536, 512, 2**24),
    "idle-timeout": (30, 0, 2**21),
    "handshake-timeout": (10, 1, 3600),
    "csp-port": (0, 0, 65535),
    "connect-count": (1, 1, 64),
}
SWITCHES = {
    "allow-insecure-plain": "0",
    "connect-tls-verify": "1",
    "quiet": "0",
    "verbose": "0",
    "no-create": "0",
    "verify": "0",
}
TEXTS = (
    "host", "port", "path", "ready-file", "scheme", "user", "password", "password-fd", "cert",
    "key", "trust-store", "sasl-mechanisms", "addresses",
    "store", "durability", "roll", "connect", "connect-user", "connect-password",
    "connect-password-fd", "connect-trust-store", "stream-sessions",
)  # fmt: skip
KNOWN = {*TEXTS, *NUMBERS, *SWITCHES}

# What remote queues have of all this: no users, no TLS, and the limits of their protocol.
CSP_KEYS = frozenset(
    {
        *REQUIRED, "port", "ready-file", "scheme", "store", "durability", "roll", "retain",
        "verify", "no-create", "max-connections", "max-links", "max-queues", "memory-limit",
        "quiet", "verbose",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """Another server to connect to."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def target(text: str) -> Target:
    """Return the server that a URL names.

    Raises:
        UsageError: it is no URL of a server, or has more in it than scheme, host and port.
    """
    parts = urlsplit(text if "://" in text else f"amqp://{text}")
    try:
        port = parts.port
    except ValueError:
        raise UsageError(f"connect: '{text}' has no valid port") from None
    if "@" in parts.netloc:
        raise UsageError("connect: name the user by connect-user, not in the URL")
    if parts.scheme not in ("amqp", "amqps") or not parts.hostname or parts.path not in ("", "/"):
        raise UsageError(f"connect: '{text}' is not amqp[s]://HOST[:PORT]")
    return Target(parts.scheme, parts.hostname, port or DEFAULT_PORTS[parts.scheme])


class ServerConfig:
    """One server's configuration; every value is checked and has its final type.

    Attributes have the contract's names with underscores. ``unknown`` has the keys
    that are not understood, and were ignored.
    """

    unknown: tuple[str, ...]
    host: str
    port: int
    scheme: str
    ready_file: str | None
    user: str | None
    password: str | None
    cert: str | None
    key: str | None
    trust_store: str | None
    sasl_mechanisms: list[str] | None
    allow_insecure_plain: bool
    quiet: bool
    verbose: bool
    addresses: list[str]
    pinned: bool
    queue_limit: int
    memory_limit: int
    max_message_size: int
    credit: int
    max_connections: int
    max_sessions: int
    max_links: int
    max_transactions: int
    max_queues: int
    stream_sessions: str
    max_frame_size: int
    idle_timeout: int
    handshake_timeout: int
    csp_port: int
    store: str | None
    no_create: bool
    roll: str
    retain: int
    verify: bool
    durability: str
    roll_size: int
    connect: list[Target]
    connect_count: int
    connect_user: str | None
    connect_password: str | None
    connect_trust_store: str | None
    connect_tls_verify: bool

    def __init__(self, values: dict[str, object], unknown: tuple[str, ...]) -> None:
        self.unknown = unknown
        for key, value in values.items():
            setattr(self, key.replace("-", "_"), value)

    @property
    def is_temporary(self) -> bool:
        """Whether remote queues are served from a directory that goes with the server."""
        return self.scheme == "csp" and self.store is None


def _values(given: dict[str, str]) -> dict[str, object]:
    values: dict[str, object] = {
        key: arguments.number(key, given[key], least, most) if key in given else default
        for key, (default, least, most) in NUMBERS.items()
    }
    for key, default in SWITCHES.items():
        values[key] = arguments.switch(key, given.get(key, default))
    for key in (
        "host",
        "user",
        "cert",
        "key",
        "trust-store",
        "store",
        "connect-user",
        "connect-trust-store",
    ):
        values[key] = given.get(key)
    scheme = arguments.choice("scheme", given.get("scheme", "amqp"), tuple(DEFAULT_PORTS))
    values["scheme"] = scheme
    values["stream-sessions"] = arguments.choice(
        "stream-sessions", given.get("stream-sessions", "own"), ("own", "shared")
    )
    values["durability"] = given.get("durability", "none")
    values["port"] = arguments.port(given.get("port", "-"), DEFAULT_PORTS[scheme])
    ready_file = given.get("ready-file", "-")
    values["ready-file"] = None if ready_file == "-" else ready_file
    values["password"] = arguments.password(given)
    values["roll"] = given.get("roll", "FAST_DAILY")
    values["connect"] = [target(url) for url in given.get("connect", "").split(",") if url]
    values["connect-password"] = arguments.password(given, "connect-password")
    mechanisms = given.get("sasl-mechanisms")
    values["sasl-mechanisms"] = mechanisms.upper().split() if mechanisms else None
    listed = [name for name in given.get("addresses", "").split(",") if name]
    values["pinned"] = "addresses" in given
    values["addresses"] = [name for name in [given["path"], *listed] if name]
    return values


def _check(config: ServerConfig) -> None:
    """Refuse what cannot work together, before anything starts."""
    if config.scheme == "amqps" and config.cert is None:
        raise UsageError("scheme=amqps needs cert (and key)")
    if config.scheme != "amqps" and (config.cert or config.key or config.trust_store):
        raise UsageError("cert, key and trust-store need scheme=amqps")
    for address in config.addresses:
        folder_of(address)
    if config.durability != "none" and config.store is None:
        raise UsageError("durability needs store")
    if config.verify and config.store is None:
        raise UsageError("verify needs store")
    if config.scheme == "csp":
        config.csp_port = config.port
    else:
        _check_beside_amqp(config)
    if (config.user is None) != (config.password is None):
        raise UsageError("user and password need each other")
    if (config.connect_user is None) != (config.connect_password is None):
        raise UsageError("connect-user and connect-password need each other")


def _check_beside_amqp(config: ServerConfig) -> None:
    """Refuse remote queues that would undo what the AMQP side of the same store promises."""
    if config.retain:
        raise UsageError("retain needs scheme=csp: it would delete messages nobody has accepted")
    if not config.csp_port:
        return
    if config.store is None:
        raise UsageError("csp-port needs store")
    guards = {
        "user": config.user,
        "trust-store": config.trust_store,
        "scheme=amqps": config.scheme == "amqps",
    }
    for guard, value in guards.items():
        if value:
            raise UsageError(
                f"csp-port has no users and no TLS, and would serve to anybody what {guard} guards"
            )


def _check_csp(given: dict[str, str]) -> None:
    """Refuse what remote queues have no counterpart of, before anybody relies on it."""
    unfit = sorted(set(given) - CSP_KEYS)
    if unfit:
        raise UsageError(f"scheme=csp does not support {', '.join(unfit)}")
    if given["path"] and not is_plain(given["path"]):
        raise UsageError(f"'{given['path']}' cannot be the name of a queue")


def parse(words: list[str]) -> ServerConfig:
    """Turn the server's command line into its configuration.

    Raises:
        UsageError: an argument is missing, malformed or does not fit another.
    """
    given = arguments.split(words, KNOWN, REQUIRED)
    if given.values.get("scheme") == "csp":
        _check_csp(given.values)
    config = ServerConfig(_values(given.values), given.unknown)
    _check(config)
    return config
