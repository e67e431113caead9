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
from typing import TYPE_CHECKING, Any

from quiver_fast import arguments
from quiver_fast.body_sizes import largest_body
from quiver_fast.errors import UsageError
from quiver_fast.options import option
from quiver_fast.options.arrow import ARROW_OPTIONS
from quiver_fast.options.option import keys
from quiver_fast.options.rules import (
    ARROW_RULES,
    LISTENER_RULES,
    SENDER_RULES,
    check,
    csp_rule,
)
from quiver_fast.rate_steps import Seed, parse_arrivals, parse_rate_steps
from quiver_fast.receiving import asked_silence, parse_pauses, parse_shares

if TYPE_CHECKING:
    from quiver_fast.body_sizes import BodySize
    from quiver_fast.options.rules import Naming
    from quiver_fast.property_filters import PropertyFilter, StreamOffset
    from quiver_fast.property_mix import PropertyMix
    from quiver_fast.receiving import Modify, Pauses
    from quiver_fast.reconnecting import Pause

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
# Options whose values rules name.
_NAMED_VALUES = ("scheme", "connection-mode", "channel-mode", "operation", "record-format")
_RULES = (
    csp_rule(ARROW_OPTIONS, "connection-mode=server", "channel-mode=passive"),
    *ARROW_RULES,
)


def usage() -> str:
    """Return the text of ``--help``."""
    return option.usage(_HEAD, ARROW_OPTIONS)


class ArrowConfig(option.Values):
    """One arrow's configuration; every value is checked and has its final type.

    ``revision`` is the revision of the arguments, and ``record_format`` that of the records.
    ``unknown`` has the keys that this arrow does not know and ignores. Only values that this class
    computes with are declared.
    """

    revision: str
    unknown: tuple[str, ...]
    connection_mode: str
    channel_mode: str
    operation: str
    path: str
    address: str | None
    password: str | None
    record_format: str
    run_id: str
    connections: int
    links: int
    queues: int
    first_end: int
    receive_delay: int
    pause: Pauses
    arrivals: Seed | None
    release: int
    reject: int
    modify: Modify
    request_reply: bool
    reconnect: bool
    reconnect_for: int
    reconnect_pause: Pause
    failover: tuple[tuple[str, int], ...]
    via: tuple[tuple[str, int], ...]
    body_size: int | tuple[BodySize, ...]
    body_file: bytes | None
    set_message_id: bool
    properties: PropertyMix | None
    filter: str | None
    filter_properties: tuple[PropertyFilter, ...]
    stream_offset: StreamOffset | None
    stream_filter: str

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
        """Whether the receiver does more than just accept messages, one after the other."""
        return self.request_reply or self.asked_silence > 0 or self.refuses

    @property
    def refuses(self) -> bool:
        """Whether the receiver releases, rejects or modifies messages."""
        return self.release + self.reject + self.modify.share > 0

    @property
    def filters(self) -> tuple[Any, ...]:
        """The filters of the receiver's source, each of which may be empty."""
        return self.filter, self.filter_properties, self.stream_offset, self.stream_filter

    @property
    def with_ids(self) -> bool:
        """Whether the records have ids."""
        return self.record_format != "v3"

    @property
    def sets_ids(self) -> bool:
        """Whether a sender gives each message an id."""
        return self.set_message_id or self.with_ids

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


def _values(given: dict[str, str], revision: str, name: Naming) -> dict[str, object]:
    """Return the value of each key, and check the ones given against the rules."""
    values = option.values(ARROW_OPTIONS, given)
    values["password"] = arguments.password(given)
    values["record-format"] = values["record-format"] or revision
    _check_rules(values, name)
    values["id"] = given.get("id", f"quiver-{given['operation']}-{os.getpid()}")
    values["host"] = arguments.host(given["host"])
    values["port"] = arguments.port(given)
    mechanisms = given.get("sasl-mechanisms")
    values["sasl-mechanisms"] = mechanisms.upper().split() if mechanisms else None
    values["rate-steps"] = parse_rate_steps(given.get("rate-steps", ""), name("rate-steps"))
    values["arrivals"] = parse_arrivals(given.get("arrivals", ""), name("arrivals"))
    values["pause"] = parse_pauses(given.get("pause", ""), name("pause"))
    shares = parse_shares(given, name)
    values["release"], values["reject"], values["modify"] = shares
    values["properties"] = _properties(given, name)
    if {"filter-properties", "stream-offset"} & given.keys():
        # Few arrows have properties or filters, and an arrow must start fast.
        from quiver_fast.property_filters import parse_property_filters, parse_stream_offset

        for key, parse_text in (
            ("filter-properties", parse_property_filters),
            ("stream-offset", parse_stream_offset),
        ):
            values[key] = parse_text(given.get(key, ""), name(key))
    if values["reconnect"] or values["via"]:
        # Few arrows go on after a failure, and an arrow must start fast.
        from quiver_fast.reconnecting import parse_pause, parse_places

        values["failover"] = others = parse_places(given.get("failover", ""))
        values["via"] = via = parse_places(given.get("via", ""))
        if via and len(via) != 1 + len(others):
            raise UsageError(f"{name('via')} has a place for each of host and {name('failover')}")
        pause = given.get("reconnect-pause", "")
        values["reconnect-pause"] = parse_pause(pause, name("reconnect-pause"))
    if given["operation"] == "receive":
        # Wrappers pass the rate to both ends; it is the sender's.
        values |= {"rate": 0, "rate-steps": ()}
    # Records in milliseconds do not show the delay of a sleep; finer ones do.
    values["pacing"] = values["pacing"] or ("sleep" if values["time-unit"] == "ms" else "exact")
    return values


def _check_rules(values: dict[str, object], name: Naming) -> None:
    asked = {key for key, value in values.items() if value != DEFAULTS[key]}
    asked.update(f"{key}={values[key]}" for key in _NAMED_VALUES)
    if isinstance(values["body-size"], tuple):
        asked.add("body-size=mix")
    check(_RULES, asked, name)
    if values["operation"] == "send":
        check(SENDER_RULES, asked, name)
    if values["connection-mode"] == "server":
        check(LISTENER_RULES, asked, name)


def _properties(given: dict[str, str], name: Naming) -> PropertyMix | None:
    text, value = given.get("properties", ""), given.get("stream-filter", "")
    mix = None
    if text:
        from quiver_fast.property_mix import parse_properties

        mix = parse_properties(text, name("properties"))
    if value and given["operation"] == "send" and not (mix and mix.name_of(value)):
        raise UsageError(
            f"{name('stream-filter')}: no property of {name('properties')} is '{value}'"
        )
    return mix


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
    "path", "address", "id", "subject", "group-id", "properties", "filter", "filter-properties",
    "stream-filter", "run-id", "username", "password", "sasl-mechanisms",
)  # fmt: skip


def check_body(largest: int, config: ArrowConfig, name: Naming = str) -> None:
    """Refuse bodies of a size that they cannot have.

    Raises:
        UsageError: ``largest`` is too much for a body.
    """
    if largest > LARGEST_SECTION and not config.streaming:
        raise UsageError(f"{name('body-size')} above {LARGEST_SECTION} needs {name('streaming')}")
    if largest > CSP_BODY_LIMIT and config.scheme == "csp":
        raise UsageError(
            f"with {name('scheme=csp')} {name('body-size')} is at most {CSP_BODY_LIMIT}"
        )


def _check_ends(config: ArrowConfig) -> None:
    """Refuse numbers that do not go with several links in a process."""
    if 0 < config.count < config.ends and (config.sends or not config.passive):
        raise UsageError(f"count={config.count} is less than 1 for each of {config.ends} links")
    if config.queues > 1 and "%d" not in (config.address or config.path):
        raise UsageError("queues needs a path with %d for their number")


def _revision(words: list[str]) -> str:
    """Tell the revision of named arguments by their keys, with a value or without."""
    keys = {word.partition("=")[0] for word in words}
    return "v2" if "settlement" in keys and not keys & {"set-message-id", "rate"} else "v3"


def parse(words: list[str]) -> ArrowConfig:
    """Turn an arrow's command line into its configuration.

    Raises:
        UsageError: an argument is missing, malformed or does not fit another.
    """
    config = read(words)
    if config.body_file is not None:
        config.body_file = _file_body(str(config.body_file), config.scheme == "csp")
        config.body_size = len(config.body_file)
    check_body(largest_body(config.body_size), config)
    return config


def read(words: list[str], name: Naming = str) -> ArrowConfig:
    """Return the configuration of a command line, without the file of a body and its size.

    Args:
        words: the command line.
        name: returns the caller's name for a key; see :mod:`quiver_fast.options.rules`.

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
    arguments.check_texts(given.values, TEXTS, name)
    config = ArrowConfig(_values(given.values, revision, name))
    config.revision, config.unknown = revision, given.unknown
    if config.has_many_ends:
        _check_ends(config)
    if not config.run_id.isascii() or len(config.run_id) > 64:
        raise UsageError("run-id must be ASCII text of at most 64 characters")
    if config.properties and config.properties.ids and not config.sets_ids:
        raise UsageError(f"{name('properties')}: %id needs {name('set-message-id')}")
    return config
