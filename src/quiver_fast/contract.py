"""The arrow contract: arguments in, one checked configuration out.

Three revisions of the contract are in use. They differ in their arguments and
in their records, and are told apart by the arguments alone:

    v1  nine positional arguments            records with ids
    v2  named, with `settlement`             records with ids, and S and s lines
    v3  named, with `set-message-id`/`rate`  records of times only

`record-format` overrides the choice of records.
"""

from __future__ import annotations

import os

from quiver_fast.errors import UsageError

__all__ = ["DEFAULT_PORTS", "USAGE", "ArrowConfig", "parse"]

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671}

USAGE = """\
Usage: quiver-arrow-pyfast KEY=VALUE...
       quiver-arrow-pyfast OUTPUT-DIR MODE OPERATION HOST PORT PATH MESSAGES BYTES CREDIT

Send or receive AMQP 1.0 messages over one connection and print one record per
transfer to standard output. Without arguments, print what this arrow is.

Required:
  connection-mode=client|server   connect, or listen for one peer
  channel-mode=active|passive     open session and link, or wait for the peer to
  operation=send|receive
  id=TEXT                         container id and link name
  host=TEXT  port=NUMBER|-        '-' is the scheme's default port
  path=TEXT                       the address (often a queue)

Limits and load (default):
  duration=SECONDS (0: no limit)  count=MESSAGES (0: no limit)
  rate=PER-SECOND (0: no limit; open loop: latency counts from the intended time)
  body-size=BYTES (100)           credit-window=MESSAGES (1000)
  transaction-size=MESSAGES (0)   durable=0|1 (0)   presettled=0|1 (0)
  set-message-id=0|1 (0)          settlement=0|1 (0: v2 records only)

Security:
  scheme=amqp|amqps (amqp)        username=TEXT  password=TEXT | password-fd=NUMBER
  cert=FILE  key=FILE             this side's certificate (server: required for amqps)
  trust-store=FILE                authorities to trust (server: require a client's)
  tls-verify=0|1 (1)              sasl-mechanisms='NAME NAME' (strongest that fits)

Records and limits of the protocol:
  record-format=v1|v2|v3          (by the arguments' revision)
  time-unit=ms|us|ns (ms)         run-id=TEXT   report-file=FILE
  max-frame-size=BYTES (65536)    idle-timeout=SECONDS (60; 0: none)
"""

POSITIONAL = (
    "output-dir", "connection-mode", "operation", "host", "port", "path", "count", "body-size",
    "credit-window",
)  # fmt: skip
REQUIRED = ("connection-mode", "channel-mode", "operation", "id", "host", "port", "path")

CHOICES = {
    "connection-mode": ("client", "server"),
    "channel-mode": ("active", "passive"),
    "operation": ("send", "receive"),
    "scheme": ("amqp", "amqps"),
    "record-format": ("v1", "v2", "v3"),
    "time-unit": ("ms", "us", "ns"),
}
# key: (default, least, most)
NUMBERS = {
    "duration": (0, 0, 2**40),
    "count": (0, 0, 2**62),
    "rate": (0, 0, 1_000_000_000),
    "body-size": (100, 0, 2**32 - 1),
    "credit-window": (1000, 1, 2**31 - 1),
    "transaction-size": (0, 0, 2**31 - 1),
    "max-frame-size": (65536, 512, 2**31 - 1),
    "idle-timeout": (60, 0, 2**21),
}
SWITCHES = {
    "durable": False,
    "set-message-id": False,
    "settlement": False,
    "presettled": False,
    "tls-verify": True,
}
TEXTS = (
    "id", "host", "port", "path", "username", "password", "cert", "key", "trust-store",
    "sasl-mechanisms", "password-fd", "run-id", "report-file",
)  # fmt: skip


class ArrowConfig:
    """One arrow's configuration; every value is checked and has its final type.

    Attributes have the contract's names with underscores. ``revision`` is the
    revision of the arguments; ``record_format`` that of the records.
    """

    revision: str
    connection_mode: str
    channel_mode: str
    operation: str
    id: str
    scheme: str
    host: str
    port: int
    path: str
    duration: int
    count: int
    rate: int
    body_size: int
    credit_window: int
    transaction_size: int
    max_frame_size: int
    idle_timeout: int
    durable: bool
    set_message_id: bool
    settlement: bool
    presettled: bool
    tls_verify: bool
    username: str | None
    password: str | None
    cert: str | None
    key: str | None
    trust_store: str | None
    sasl_mechanisms: list[str] | None
    record_format: str
    time_unit: str
    run_id: str
    report_file: str | None

    def __init__(self, revision: str, values: dict[str, object]) -> None:
        self.revision = revision
        for key, value in values.items():
            setattr(self, key.replace("-", "_"), value)

    @property
    def server(self) -> bool:
        """Whether this side listens."""
        return self.connection_mode == "server"

    @property
    def passive(self) -> bool:
        """Whether the peer opens session and link."""
        return self.channel_mode == "passive"

    @property
    def sends(self) -> bool:
        """Whether this side sends."""
        return self.operation == "send"

    @property
    def with_ids(self) -> bool:
        """Whether the records have ids."""
        return self.record_format != "v3"

    @property
    def id_prefix(self) -> str:
        """What makes this run's message ids unlike another run's."""
        return f"{self.run_id}-" if self.run_id else ""


def _positional(arguments: list[str]) -> dict[str, str]:
    if len(arguments) != len(POSITIONAL):
        raise UsageError(
            f"expected KEY=VALUE arguments or the {len(POSITIONAL)} positional ones of the first "
            f"contract, not {len(arguments)} words"
        )
    given = dict(zip(POSITIONAL, arguments, strict=True))
    # Records go to standard output in every revision; the directory was for logs.
    del given["output-dir"]
    given["channel-mode"] = "passive" if given["connection-mode"] == "server" else "active"
    given["id"] = f"quiver-{given['operation']}-{os.getpid()}"
    return given


def _named(arguments: list[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    known = {*TEXTS, *NUMBERS, *SWITCHES, *CHOICES}
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
    missing = [key for key in REQUIRED if key not in given]
    if missing:
        raise UsageError(f"missing argument{'s' * (len(missing) > 1)}: {', '.join(missing)}")
    return given


def _number(key: str, text: str) -> int:
    _, least, most = NUMBERS[key]
    if not (text.isascii() and text.isdigit()) or not least <= int(text) <= most:
        raise UsageError(f"{key} must be a whole number from {least} to {most}, not '{text}'")
    return int(text)


def _switch(key: str, text: str) -> bool:
    if text not in ("0", "1"):
        raise UsageError(f"{key} must be 0 or 1, not '{text}'")
    return text == "1"


def _choice(key: str, text: str) -> str:
    if text not in CHOICES[key]:
        raise UsageError(f"{key} must be {' or '.join(CHOICES[key])}, not '{text}'")
    return text


def _port(text: str, scheme: str) -> int:
    if text == "-":
        return DEFAULT_PORTS[scheme]
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= 65535:
        raise UsageError(f"port must be 1 to 65535 or '-', not '{text}'")
    return int(text)


def _password(given: dict[str, str]) -> str | None:
    if "password-fd" not in given:
        return given.get("password")
    if "password" in given:
        raise UsageError("password and password-fd exclude each other")
    try:
        with open(int(given["password-fd"]), encoding="utf-8") as stream:
            return stream.read().rstrip("\n")
    except (OSError, ValueError):
        raise UsageError(
            f"cannot read a password from password-fd={given['password-fd']}"
        ) from None


def _values(given: dict[str, str], revision: str) -> dict[str, object]:
    scheme = _choice("scheme", given.get("scheme", "amqp"))
    values: dict[str, object] = {
        key: _number(key, given[key]) if key in given else default
        for key, (default, _, _) in NUMBERS.items()
    }
    for key, switch in SWITCHES.items():
        values[key] = _switch(key, given[key]) if key in given else switch
    for key in ("connection-mode", "channel-mode", "operation"):
        values[key] = _choice(key, given[key])
    for key in ("id", "host", "path"):
        values[key] = given[key]
    for key in ("username", "cert", "key", "trust-store", "report-file"):
        values[key] = given.get(key)
    values["scheme"] = scheme
    values["port"] = _port(given["port"], scheme)
    values["password"] = _password(given)
    mechanisms = given.get("sasl-mechanisms")
    values["sasl-mechanisms"] = mechanisms.upper().split() if mechanisms else None
    values["record-format"] = _choice("record-format", given.get("record-format", revision))
    values["time-unit"] = _choice("time-unit", given.get("time-unit", "ms"))
    values["run-id"] = given.get("run-id", "")
    return values


def _check(config: ArrowConfig) -> None:
    """Refuse what cannot work together, before anything starts."""
    if config.settlement and config.sends and not config.with_ids:
        raise UsageError("settlement=1 needs records with ids: record-format=v2")
    if config.presettled and config.settlement:
        raise UsageError("presettled=1 leaves no settlement to record")
    if config.presettled and config.transaction_size:
        raise UsageError("presettled=1 and transactions exclude each other")
    if config.rate and not config.sends:
        # Wrappers pass the rate to both ends; it is the sender's.
        config.rate = 0
    if config.server and config.scheme == "amqps" and config.cert is None:
        raise UsageError("scheme=amqps with connection-mode=server needs cert (and key)")
    if config.scheme != "amqps" and (config.cert or config.key or config.trust_store):
        raise UsageError("cert, key and trust-store need scheme=amqps")
    if config.password is not None and config.username is None:
        raise UsageError("a password needs a username")
    if not config.run_id.isascii() or len(config.run_id) > 64:
        raise UsageError("run-id must be ASCII text of at most 64 characters")


def parse(arguments: list[str]) -> ArrowConfig:
    """Turn an arrow's command line into its configuration.

    Raises:
        UsageError: an argument is unknown, missing, malformed or does not fit another.
    """
    # The first contract's words are positions: a path may hold an equals sign.
    if len(arguments) == len(POSITIONAL) and "=" not in arguments[1]:
        revision, given = "v1", _positional(arguments)
    elif "=" in arguments[0]:
        given = _named(arguments)
        third = "set-message-id" in given or "rate" in given or "settlement" not in given
        revision = "v3" if third else "v2"
    else:
        revision, given = "v1", _positional(arguments)
    config = ArrowConfig(revision, _values(given, revision))
    _check(config)
    return config
