"""The arrow contract: arguments in, one checked configuration out.

Three revisions of the contract are in use. They differ in their arguments and
in their records; the arguments alone tell them apart:

    v1  nine positional arguments            records with ids
    v2  named, with `settlement`             records with ids, and S and s lines
    v3  named, with `set-message-id`/`rate`  records of times only

`record-format` overrides the choice of records.
"""

from __future__ import annotations

import os

from quiver_fast import arguments
from quiver_fast.arrow.amqp.message_fields import parse_properties
from quiver_fast.body_sizes import largest_body
from quiver_fast.errors import UsageError
from quiver_fast.options import option
from quiver_fast.options.arrow import ARROW_OPTIONS, ArrowValues
from quiver_fast.options.option import keys
from quiver_fast.rate_steps import parse_rate_steps
from quiver_fast.receiving import asked_silence, parse_pauses, parse_shares

DEFAULT_PORTS = {"amqp": 5672, "amqps": 5671, "csp": 9876}

# An entry has at most 16 MiB, with the frame of the body.
CSP_BODY_LIMIT = (16 << 20) - 512

# One Data section's limit (part 1.6.19); only streaming bodies have several.
LARGEST_SECTION = 2**32 - 1

_HEAD = """\
Usage: quiver-arrow-pyfast KEY=VALUE...
       quiver-arrow-pyfast OUTPUT-DIR MODE OPERATION HOST PORT PATH MESSAGES BYTES CREDIT

Send or receive AMQP 1.0 messages, or values of a remote queue (scheme=csp), over
one connection and print one record per transfer to standard output. Without
arguments, print a description; with --version, the version. An optional key with
an empty value counts as absent. An unknown key is named in a warning and ignored.
"""

POSITIONAL = (
    "output-dir", "connection-mode", "operation", "host", "port", "path", "count", "body-size",
    "credit-window",
)  # fmt: skip
REQUIRED = ("connection-mode", "channel-mode", "operation", "host", "path")
KNOWN = keys(ARROW_OPTIONS)
DEFAULTS = {one.key: one.default for one in ARROW_OPTIONS}
_AMQP_ONLY = tuple(one for one in ARROW_OPTIONS if not one.csp)


def usage() -> str:
    """Return the text of ``--help``."""
    return option.usage(_HEAD, ARROW_OPTIONS)


class ArrowConfig(ArrowValues):
    """One arrow's configuration; every value is checked and has its final type.

    ``revision`` is the revision of the arguments, and ``record_format`` that of the records.
    ``unknown`` has the keys that this arrow does not know and ignores.
    """

    revision: str
    unknown: tuple[str, ...]

    def __init__(self, revision: str, values: dict[str, object], unknown: tuple[str, ...]) -> None:
        self.revision = revision
        self.unknown = unknown
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
    def ends(self) -> int:
        """How many links the process has."""
        return self.connections * self.links

    @property
    def has_many_ends(self) -> bool:
        """Whether links have numbers."""
        return self.ends > 1 or self.queues > 1 or self.first_end > 0

    @property
    def sends(self) -> bool:
        """Whether this side sends."""
        return self.operation == "send"

    @property
    def asked_silence(self) -> float:
        """For how many seconds the options keep the receiver from moving anything."""
        return asked_silence(self.receive_delay, self.pause)

    @property
    def is_shaped(self) -> bool:
        """Whether the receiver delays, pauses, releases or rejects: it does not just accept."""
        return self.asked_silence + self.release + self.reject > 0

    @property
    def with_ids(self) -> bool:
        """Whether the records have ids."""
        return self.record_format != "v3"

    @property
    def id_prefix(self) -> str:
        """The part of this run's message ids that no other run has."""
        return f"{self.run_id}-" if self.run_id else ""


def _positional(words: list[str]) -> arguments.Given:
    if len(words) != len(POSITIONAL):
        raise UsageError(
            f"expected KEY=VALUE arguments or the {len(POSITIONAL)} positional ones of the first "
            f"contract, not {len(words)} words"
        )
    # Records go to standard output in every revision; the directory was for logs.
    named = [f"{key}={word}" for key, word in zip(POSITIONAL[1:], words[1:], strict=True)]
    mode = "passive" if words[1] == "server" else "active"
    return arguments.split([*named, f"channel-mode={mode}"], KNOWN, REQUIRED)


def _values(given: dict[str, str], revision: str) -> dict[str, object]:
    values = option.values(ARROW_OPTIONS, given)
    values["id"] = given.get("id", f"quiver-{given['operation']}-{os.getpid()}")
    values["host"] = arguments.host(given["host"])
    values["port"] = arguments.port(given.get("port", "-"), DEFAULT_PORTS[str(values["scheme"])])
    values["password"] = arguments.password(given)
    mechanisms = given.get("sasl-mechanisms")
    values["sasl-mechanisms"] = mechanisms.upper().split() if mechanisms else None
    if values["body-file"] is not None:
        if "body-size" in given:
            raise UsageError("body-size and body-file exclude each other")
        body = _file_body(str(values["body-file"]), given.get("scheme") == "csp")
        values |= {"body-file": body, "body-size": len(body)}
    values["rate-steps"] = parse_rate_steps(given.get("rate-steps", ""))
    values["pause"] = parse_pauses(given.get("pause", ""))
    shares = parse_shares(given.get("release", ""), given.get("reject", ""))
    values["release"], values["reject"] = shares
    values["properties"] = parse_properties(given.get("properties", ""))
    values["record-format"] = values["record-format"] or revision
    # Records in milliseconds do not show the delay of a sleep; finer ones do.
    values["pacing"] = values["pacing"] or ("sleep" if values["time-unit"] == "ms" else "exact")
    return values


def _file_body(file: str, as_text: bool) -> bytes:
    """Return the body in a file; with ``as_text`` encoded for the queue protocol."""
    try:
        with open(file, "rb") as stream:
            body = stream.read(LARGEST_SECTION + 1)
        if as_text:
            from quiver_fast.remote.client import quote

            body = quote(body.decode())[1:-1].encode()
    except OSError as error:
        raise UsageError(f"body-file: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"body-file: {file}: over csp a body is text in UTF-8") from None
    if not 0 < len(body) <= LARGEST_SECTION:
        raise UsageError(f"body-file: {file}: a body has 1 to {LARGEST_SECTION} bytes")
    return body


# Values that become strings of AMQP.
TEXTS = (
    "path", "address", "id", "subject", "group-id", "properties", "filter", "run-id", "username",
    "password", "sasl-mechanisms",
)  # fmt: skip


def _check(config: ArrowConfig, given: dict[str, str]) -> None:
    """Refuse values that cannot work, or not together, before anything starts."""
    arguments.check_texts(given, TEXTS)
    if config.settlement and config.sends and not config.with_ids:
        raise UsageError("settlement=1 needs records with ids: record-format=v2")
    if largest_body(config.body_size) > LARGEST_SECTION and not config.streaming:
        raise UsageError(f"a body-size above {LARGEST_SECTION} needs streaming=1")
    if config.body_file is not None and config.streaming:
        raise UsageError("streaming=1 checks bodies of x alone: it excludes body-file")
    if config.presettled and config.settlement:
        raise UsageError("presettled=1 leaves no settlement to record")
    if config.presettled and config.transaction_size:
        raise UsageError("presettled=1 and transactions exclude each other")
    if config.rate and config.rate_steps:
        raise UsageError("rate and rate-steps exclude each other")
    if not config.sends:
        # Wrappers pass the rate to both ends; it is the sender's.
        config.rate, config.rate_steps = 0, ()
    if config.server and config.scheme == "amqps" and config.cert is None:
        raise UsageError("scheme=amqps with connection-mode=server needs cert (and key)")
    if config.scheme != "amqps" and (config.cert or config.key or config.trust_store):
        raise UsageError("cert, key and trust-store need scheme=amqps")
    if config.password is not None and config.username is None:
        raise UsageError("a password needs a username")
    if config.server and config.username is not None and config.password is None:
        raise UsageError("a server's username needs a password (--password-file)")
    if config.purge and config.sends:
        raise UsageError("purge is the receiver's")
    if config.filter and (config.sends or config.passive or config.purge):
        raise UsageError("filter is for a receiver that attaches by itself, and does not purge")
    if config.exit_when and (config.sends or config.server or config.passive or config.purge):
        raise UsageError("exit-when is for a receiver of a server, and one that does not purge")
    if config.exit_when and (config.is_shaped or config.streaming):
        raise UsageError("exit-when excludes receive-delay, pause, release, reject and streaming")
    if config.backlog and (config.count or config.has_many_ends or config.body_file):
        raise UsageError("backlog excludes count, body-file and many ends")
    if config.backlog and config.sends and not (config.rate or config.rate_steps):
        raise UsageError("backlog needs a rate, which begins after it")
    if config.is_shaped and (config.streaming or config.transaction_size or config.purge):
        raise UsageError(
            "receive-delay, pause, release and reject exclude streaming, transactions and purge"
        )
    if config.server and (config.release or config.reject):
        raise UsageError("release and reject need a server between: a sender cannot send again")
    if config.has_many_ends:
        _check_many_ends(config)
    if config.scheme == "csp":
        _check_csp(config, given)
    elif config.tail_from != "start":
        raise UsageError("tail-from needs scheme=csp")
    if not config.run_id.isascii() or len(config.run_id) > 64:
        raise UsageError("run-id must be ASCII text of at most 64 characters")


def _check_many_ends(config: ArrowConfig) -> None:
    """Refuse options that do not go with several links in a process."""
    one_only = {
        "scheme=csp": config.scheme == "csp",
        "transaction-size": config.transaction_size,
        "streaming": config.streaming,
        "purge": config.purge,
        "exit-when": config.exit_when,
    }
    unfit = [key for key, given in one_only.items() if given]
    if unfit:
        raise UsageError(f"connections, links and queues do not go with {', '.join(unfit)}")
    if 0 < config.count < config.ends and (config.sends or not config.passive):
        raise UsageError(f"count={config.count} is less than 1 for each of {config.ends} links")
    if config.queues > 1 and "%d" not in (config.address or config.path):
        raise UsageError("queues needs a path with %d for their number")


def _check_csp(config: ArrowConfig, given: dict[str, str]) -> None:
    """Refuse options that the queue protocol does not have."""
    unfit = [
        *(["connection-mode=server"] if config.server else []),
        *(["channel-mode=passive"] if config.passive else []),
        *(key for key, value in option.values(_AMQP_ONLY, given).items() if value != DEFAULTS[key]),
    ]
    if unfit:
        raise UsageError(f"scheme=csp does not support {', '.join(unfit)}")
    if largest_body(config.body_size) > CSP_BODY_LIMIT:
        raise UsageError(f"with scheme=csp body-size is at most {CSP_BODY_LIMIT}")
    if config.tail_from == "end" and config.sends:
        raise UsageError("tail-from is the receiver's")


def _revision(words: list[str]) -> str:
    """Tell the revision of named arguments by their keys, with a value or without."""
    keys = {word.partition("=")[0] for word in words}
    return "v2" if "settlement" in keys and not keys & {"set-message-id", "rate"} else "v3"


def parse(words: list[str]) -> ArrowConfig:
    """Turn an arrow's command line into its configuration.

    Raises:
        UsageError: an argument is missing, malformed or does not fit another.
    """
    # The first contract's words are positions: a path may hold an equals sign.
    if len(words) == len(POSITIONAL) and "=" not in words[1]:
        revision, given = "v1", _positional(words)
    elif "=" in words[0]:
        revision, given = _revision(words), arguments.split(words, KNOWN, REQUIRED)
    else:
        revision, given = "v1", _positional(words)
    config = ArrowConfig(revision, _values(given.values, revision), given.unknown)
    _check(config, given.values)
    return config
