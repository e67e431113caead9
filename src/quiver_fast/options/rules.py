"""The rules of options: what each one needs, and what it does not go with.

A rule has names of options: the key, or the flag without dashes where no contract has the option.
``KEY=VALUE`` stands for an option with that value (``mix`` for several sizes), ``url`` for a URL,
which two peers do not have, ``ends`` for several senders or receivers, and ``fleet`` for a run on
several hosts. Contracts show these names as they are; a command shows the ones that its user typed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quiver_fast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from quiver_fast.options.option import Option

    # Each of the first options needs one of the second, or goes with none of them; and why.
    Rule = tuple[tuple[str, ...], str, tuple[str, ...], str]
    # Returns the caller's name for a name of a rule.
    Naming = Callable[[str], str]

NEEDS, EXCLUDES = "needs", "does not go with"

_SHAPES = ("receive-delay", "pause", "release", "reject", "modify")
_OUTCOMES = ("release", "reject", "modify")
_ENDS = ("connections", "links", "queues", "first-end")
_FILTERS = ("filter", "filter-properties", "stream-offset", "stream-filter")
_FATAL = ("fault=kill", "fault=term", "fault=cut", "fault=refuse", "fault=half")
_KINDS = ("queue-type", "queue-argument", "routing", "durable-queue")
_QUEUE = ("address", "declare", "purge", "delete", "unique-queue")
_CAMPAIGNS = ("find-rate", "sweep")
_PEERS = "no queue is between peers"
_TLS: Rule = (("cert", "key", "trust-store", "tls-verify"), NEEDS, ("scheme=amqps",), "")
_BODY: Rule = (("body-file",), EXCLUDES, ("body-size",), "")

ARROW_RULES: tuple[Rule, ...] = (
    (("rate",), EXCLUDES, ("rate-steps",), ""),
    (("reply-timeout",), NEEDS, ("request-reply",), ""),
    (("request-reply",), EXCLUDES, ("streaming", "transaction-size", "presettled", "purge"), ""),
    (("request-reply",), EXCLUDES, ("exit-when", "backlog", "reconnect", *_OUTCOMES), ""),
    (("request-reply",), NEEDS, ("record-format=v2",), "ids show which reply is of which request"),
    (("reconnect",), EXCLUDES, ("presettled",), "a presettled message has no outcome"),
    (("presettled",), EXCLUDES, ("settlement",), "no settlement is left to record"),
    (("presettled",), EXCLUDES, ("transaction-size",), ""),
    _BODY,
    (("streaming",), EXCLUDES, ("body-file",), "it checks bodies of x alone"),
    (("password",), NEEDS, ("username",), ""),
    _TLS,
    (
        ("purge", *_FILTERS[:-1], "exit-when", "tail-from"),
        NEEDS,
        ("operation=receive",),
        "",
    ),
    (("tail-from",), NEEDS, ("scheme=csp",), ""),
    ((*_FILTERS, "exit-when"), EXCLUDES, ("channel-mode=passive", "purge"), ""),
    (("stream-offset",), EXCLUDES, ("reconnect",), "the stream would begin there again"),
    (("exit-when",), NEEDS, ("connection-mode=client",), _PEERS),
    (_OUTCOMES, NEEDS, ("connection-mode=client",), "a sender cannot send again"),
    (_SHAPES, EXCLUDES, ("streaming", "transaction-size", "purge"), ""),
    (("exit-when",), EXCLUDES, (*_SHAPES, "streaming"), ""),
    (("subscription",), NEEDS, ("operation=receive",), ""),
    (("subscription",), NEEDS, ("connection-mode=client",), "an arrow has no topics"),
    (
        ("subscription",),
        EXCLUDES,
        (*_SHAPES, "streaming", "exit-when", "purge", "reconnect", "channel-mode=passive", *_ENDS),
        "",
    ),
    (("backlog",), EXCLUDES, ("count", "body-file"), ""),
    (_ENDS, EXCLUDES, ("transaction-size", "streaming", "purge", "exit-when", "backlog"), ""),
    (("reconnect-for", "reconnect-pause", "failover", "resend"), NEEDS, ("reconnect",), ""),
    (("reconnect",), NEEDS, ("connection-mode=client",), "a side that listens does not connect"),
    (("reconnect",), NEEDS, ("record-format=v2",), "ids show the fate of each message"),
    (("reconnect",), EXCLUDES, ("channel-mode=passive", "purge", "exit-when", "backlog"), ""),
    (("resend",), EXCLUDES, ("streaming",), "a broken stream is aborted"),
    (("resend",), EXCLUDES, ("body-size=mix",), "a copy has the size of its message"),
)
SENDER_RULES: tuple[Rule, ...] = (
    (("request-reply",), EXCLUDES, ("channel-mode=passive",), "a requester attaches its links"),
    (("settlement",), NEEDS, ("record-format=v2",), ""),
    (("backlog",), NEEDS, ("rate", "rate-steps"), "sending goes on at it"),
    (("arrivals",), NEEDS, ("rate", "rate-steps"), "it is the mean"),
)
LISTENER_RULES: tuple[Rule, ...] = (
    (("scheme=amqps",), NEEDS, ("cert",), "a side that listens shows its certificate"),
    (("username",), NEEDS, ("password",), "a side that listens checks it"),
)
METRICS_RULE: Rule = (("metrics-host",), NEEDS, ("metrics-port",), "")
SERVER_RULES: tuple[Rule, ...] = (
    (("scheme=amqps",), NEEDS, ("cert",), ""),
    (("cert", "key", "trust-store", "allow-old-tls"), NEEDS, ("scheme=amqps",), ""),
    (("allow-insecure-plain", "password"), NEEDS, ("user",), ""),
    (("user",), NEEDS, ("password",), ""),
    (("csp-port", "durability", "roll-size", "verify"), NEEDS, ("store",), ""),
    (("no-create", "roll"), NEEDS, ("csp-port", "scheme=csp"), ""),
    (("retain",), NEEDS, ("scheme=csp",), "it would delete messages nobody has accepted"),
    (
        ("csp-port",), EXCLUDES, ("user", "trust-store", "scheme=amqps"),
        "it has no users and no TLS, and would serve the queues to anybody",
    ),
    (("connect-count", "connect-user", "connect-password"), NEEDS, ("connect",), ""),
    (("connect-user",), NEEDS, ("connect-password",), ""),
    (("connect-password",), NEEDS, ("connect-user",), ""),
    (("connect-trust-store", "connect-tls-verify"), NEEDS, ("connect=amqps://HOST",), ""),
    METRICS_RULE,
)  # fmt: skip

CERTIFICATE_RULES: tuple[Rule, ...] = (
    (("cert",), NEEDS, ("key",), ""),
    (("key",), NEEDS, ("cert",), ""),
)
MEASURING_RULES: tuple[Rule, ...] = (
    *CERTIFICATE_RULES,
    _TLS,
    _BODY,
    (("transaction-size",), NEEDS, ("url",), "only servers coordinate transactions"),
    (
        (*_QUEUE, *_FILTERS, "exit-when", "backlog", "queues", "reconnect"), NEEDS, ("url",),
        _PEERS,
    ),
    (("presettled",), EXCLUDES, _OUTCOMES, "a presettled message has no outcome"),
    (("purge",), EXCLUDES, ("unique-queue",), "that queue is new"),
    (_KINDS, NEEDS, ("declare", "unique-queue"), ""),
    (("dead-letter-queue",), NEEDS, ("reject", "modify"), "it has the messages that these refuse"),
    (("dead-letter-queue",), EXCLUDES, ("scheme=csp",), ""),
    (_KINDS, EXCLUDES, ("scheme=csp",), ""),
    (("routing",), EXCLUDES, ("queue-type",), "no broker has both"),
    (
        ("routing=multicast",), EXCLUDES, ("queue-argument", "durable-queue"),
        "each receiver has a queue of its own there",
    ),
    (_QUEUE, EXCLUDES, ("connection-mode=server", "channel-mode=passive"), ""),
    (
        _QUEUE[:-1], EXCLUDES, ("scheme=csp",),
        "its queues are made when first named, and keep their entries",
    ),
    (("scheme=csp",), EXCLUDES, ("exit-when", "churn", "hold"), ""),
    (("scheme=csp",), EXCLUDES, ("ends",), "each receiver gets all messages"),
    (("warmup", "backlog"), EXCLUDES, ("ends",), ""),
    (("backlog",), EXCLUDES, ("warmup",), ""),
    (("fan-out",), NEEDS, ("url",), _PEERS),
    (("away",), NEEDS, ("fan-out",), "another receiver would take its messages"),
    (("away",), EXCLUDES, (*_SHAPES, "streaming", "exit-when"), ""),
    (("fan-out",), EXCLUDES, ("queues",), "each receiver gets all messages of one address"),
    (("fan-out",), EXCLUDES, ("record-format=v3",), "ids show which receiver lacks a message"),
    (
        ("fan-out",), EXCLUDES,
        ("reject", "modify", "reconnect", "request-reply", "filter", "filter-properties",
         "stream-filter"),
        "the account of each receiver does not have that",
    ),
    (("reconnect",), EXCLUDES, ("exit-when",), ""),
    (("fault", "server", "dead-letter-queue"), NEEDS, ("url",), _PEERS),
    (_FATAL, NEEDS, ("reconnect",), "it ends connections"),
    (("fault=kill", "fault=stop", "fault=term"), NEEDS, ("fault-pid", "server"), ""),
    (("fault=freeze", "fault=delay", "fault=throttle"), EXCLUDES, ("scheme=csp",), ""),
    (("fault-pid",), NEEDS, ("fault",), ""),
    (("fault-pid",), EXCLUDES, ("server",), ""),
    (("fault", "server"), EXCLUDES, ("find-rate",), ""),
)  # fmt: skip
"""The rules of a measurement by a command, besides those of its arrows."""

SEARCH_RULES: tuple[Rule, ...] = (
    (("count", "rate-steps"), EXCLUDES, ("find-rate",), ""),
    (("find-rate",), NEEDS, ("duration",), "it is how long a trial takes"),
)
SET_RULES: tuple[Rule, ...] = (
    (("churn", "hold"), NEEDS, ("url",), ""),
    (("churn", "hold"), NEEDS, ("duration",), ""),
    (("churn-of",), NEEDS, ("churn",), ""),
    (
        ("request-reply",), NEEDS, ("rate", "rate-steps", *_CAMPAIGNS),
        "requests are sent by a schedule",
    ),
    (("sessions",), NEEDS, ("hold",), ""),
    (("links",), NEEDS, ("sessions",), "a link is in a session"),
    (("warm-up",), NEEDS, ("find-rate",), "--warmup is of each run"),
    (("warm-up",), NEEDS, ("url",), _PEERS),
    (("within",), NEEDS, ("find-rate", "detect"), ""),
    (("resume",), NEEDS, ("runs", "detect", "sweep", "find-rate"), ""),
    (("sweep",), EXCLUDES, ("find-rate",), ""),
    (
        ("runs", "baseline", "detect", "relevant", "fail-if", "allow-incomplete"), EXCLUDES,
        _CAMPAIGNS, "",
    ),
    (("runs",), EXCLUDES, ("detect",), "it chooses their number"),
    (("detect", "relevant"), NEEDS, ("baseline",), ""),
    (("baseline", "allow-incomplete"), NEEDS, ("runs", "detect"), ""),
)  # fmt: skip
"""The rules of `quiver` for all of its measurements."""

FLEET_RULES: tuple[Rule, ...] = (
    (("processes",), EXCLUDES, ("fleet",), "each end is a process of its host"),
    (("fleet",), NEEDS, ("url", "peer-to-peer"), ""),
    (("peer-to-peer",), EXCLUDES, ("url",), "hosts connect to each other"),
    (("correct-clocks",), NEEDS, ("record-format=v2",), "it needs message ids"),
    (("fan-out", "fault", "server", "dead-letter-queue"), EXCLUDES, ("fleet",), ""),
)
BENCH_RULES: tuple[Rule, ...] = (
    *CERTIFICATE_RULES,
    (("client-server",), EXCLUDES, ("peer-to-peer",), ""),
    (("trust-store", "tls-verify"), NEEDS, ("cert",), ""),
    (
        ("cert", "transaction-size", "queues", "receivers", *_OUTCOMES, *_FILTERS), NEEDS,
        ("client-server",), "peers do not do that",
    ),
    (("within",), NEEDS, ("find-rate",), ""),
    (("warm-up",), EXCLUDES, ("peer-to-peer",), _PEERS),
    (("resume",), NEEDS, ("output",), ""),
)  # fmt: skip

SUITE_RULES: tuple[Rule, ...] = (
    (("url", "baseline"), NEEDS, ("suite",), ""),
    (("trust-order",), NEEDS, ("baseline",), ""),
)

ANALYSIS_RULES: tuple[Rule, ...] = (
    (("allow-incomplete",), NEEDS, ("fail-if",), ""),
    (("relevant", "trust-order"), NEEDS, ("compare",), ""),
    (("junit",), NEEDS, ("fail-if", "compare"), ""),
)


def csp_rule(options: Iterable[Option], *others: str) -> Rule:
    """Return the rule that remote queues have some of the options only."""
    keys = (option.key for option in options if option.key and not option.csp)
    return (("scheme=csp",), EXCLUDES, (*others, *keys), "")


def check(rules: Iterable[Rule], asked: Collection[str], name: Naming = str) -> None:
    """Check options against rules.

    Args:
        rules: the rules.
        asked: the names of all options that are not at their defaults.
        name: returns the caller's name for a name of a rule.

    Raises:
        UsageError: the options break a rule.
    """
    asked = frozenset(asked)
    for names, relation, others, why in rules:
        if asked.isdisjoint(names) or asked.isdisjoint(others) == (relation == EXCLUDES):
            continue
        first = next(one for one in names if one in asked)
        if relation == EXCLUDES:
            others = next(((one,) for one in others if one in asked), ())
        reason = f": {why}" if why else ""
        raise UsageError(f"{name(first)} {relation} {' or '.join(map(name, others))}{reason}")


# The names that the commands show, where these are no options of theirs.
_COMMAND_NAMES = {
    "scheme=amqps": "an amqps URL",
    "scheme=csp": "a csp URL",
    "url": "a URL",
    "body-size=mix": "bodies of several sizes",
    "ends": "several senders or receivers",
    "fleet": "a fleet",
    "connection-mode=server": "--server",
    "connection-mode=client": "a URL of a server",
    "channel-mode=passive": "--passive",
    "path": "the address",
    "user": "a user (--user)",
    "username": "a user (--username)",
    "password": "a password (--password-file)",
    "connect=amqps://HOST": "--connect amqps://HOST",
    "connect-password": "--connect-password-file",
}


def flags_of(options: Iterable[Option]) -> Naming:
    """Return the naming of a command with these options: their flags, and words for values."""
    flags = {option.key: option.flag for option in options if option.key and option.flag}
    flags.update(_COMMAND_NAMES)
    return lambda name: flags.get(name) or f"--{name.replace('=', ' ')}"
