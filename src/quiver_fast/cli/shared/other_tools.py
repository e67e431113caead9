"""Options of other tools, and the options of ours that do the same.

From k6, vegeta, wrk, hey, locust, RabbitMQ's perf-test, omq, Artemis' perf, Qpid's clients, Kafka's
perf tests, OpenMessaging Benchmark and iperf.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Sequence
from itertools import takewhile

_URL = "a URL, such as //localhost/q0"
_ENDS = "--senders and --receivers"
_PAGE = "--output DIR, and then quiver-analyze --html FILE DIR"

# Their options, then ours. A command that lacks the first of ours proposes the next one.
_ROWS: tuple[tuple[str, ...], ...] = (
    # Number of ends.
    ("-x --producers --publishers --pub --producer-count", "--senders"),
    ("-y --consumers --subscribers --sub --consumer-count", "--receivers"),
    ("--connections --vus --users --concurrency --clients --parallel --workers", _ENDS),
    ("--max-workers --max-vus --num-connections", _ENDS),
    ("--threads --cpus --num-threads --procs", "--processes"),
    ("--queue-pattern --num-destinations --num-queues --topics --num-topics", "--queues"),
    # Load.
    ("-n --messages --message-count --num-records --iterations --msgs --requests", "--count"),
    ("--cmessages --pmessages --num-messages --max-messages", "--count"),
    ("-z --time --run-time --test-duration --seconds --length", "--duration"),
    ("--qps --rps --throughput --producer-rate --publish-rate --send-rate --bandwidth --max-rate",
     "--rate"),
    ("--stages --stage --ramp-up --rampup --spawn-rate --variable-rate --slow-start",
     "--rate-steps"),
    ("--find-max --max-throughput --saturate --find-max-rate --search", "--find-rate"),
    ("--warmup-time --warmup-duration --warmup-records", "--warmup"),
    ("--receive-timeout --request-timeout --idle", "--timeout"),
    ("--shutdown-timeout --grace-period", "--drain-timeout"),
    ("--repeat --repetitions --trials --rounds", "--runs"),
    # Messages.
    ("-s --size --message-size --msg-size --record-size --payload-size --content-size "
     "--variable-size", "--body-size"),
    ("--body --payload --payload-file --content-file --message-file", "--body-file"),
    ("--flag --persistent --msg-durable --message-durability", "--durable"),
    ("--property --header --msg-property --app-property --message-properties", "--properties"),
    ("--message-ttl --msg-ttl --expiration", "--ttl"),
    ("--message-priority --msg-priority", "--priority"),
    ("--routing-key --msg-subject --label", "--subject"),
    ("--enable-msg-id --message-id --msg-id", "--set-message-id"),
    ("--tx --tx-size --ptxsize --ctxsize --commit-interval --transactional",
     "--transaction-size"),
    ("--autoack --auto-ack --at-most-once --link-at-most-once --fire-and-forget", "--presettled"),
    # Receiver.
    ("--prefetch --qos --capacity --window-size --consumer-credits --fetch-size", "--credit"),
    ("--consumer-latency --variable-latency --think-time --sleep --delay", "--receive-delay"),
    ("--selector --recv-selector --message-selector", "--filter"),
    ("--amqp-release-rate --requeue --nack", "--release"),
    ("--amqp-reject-rate", "--reject"),
    # Address.
    ("--host --port --url --uri --broker --broker-url --broker-list --bootstrap-server", _URL),
    ("--queue --topic --destination --target --endpoint --publish-to --consume-from --bind "
     "--listen", _URL),
    ("--predeclared --create --create-queue", "--declare"),
    ("--auto-delete --cleanup-queues --cleanup", "--delete"),
    ("--client --client-id --clientid", "--id"),
    # Users and trust.
    ("--login", "--username"),
    ("--tls --ssl", "amqps:// in the URL"),
    ("--insecure --insecure-skip-tls-verify --skip-verify", "--tls-insecure"),
    ("--ca --cacert --ca-cert --cafile --root-certs --truststore --ssl-truststore",
     "--trust-store"),
    ("--sasl-mechanism --mechanism --auth", "--sasl-mechanisms"),
    # Output.
    ("-o --out --output-file --out-dir --outdir --output-dir", "--output", "--html FILE", "--json"),
    ("--html --report --html-report --web", _PAGE, "--html FILE"),
    ("--format --type", "--html FILE or --json", "--json"),
    ("--format=html", _PAGE, "--html FILE"),
    ("--format=json --summary-export --json-output --report-format", "--json"),
    ("--plot --chart --graph --png --svg", "--png DIR", _PAGE),
    ("--hdr --histogram --hdr-histogram", "--hgrm FILE",
     "--output DIR, and then quiver-analyze --hgrm FILE DIR"),
    ("--prometheus --metrics-prometheus --metrics", "--metrics-port"),
    ("-v --log-level --debug --show-detailed-stats --http-debug", "--verbose"),
    ("-V", "--version"),
    ("--silent --no-progress --headless", "--quiet"),
    ("--list --list-impls --drivers --implementations", "--help, which lists what --impl takes",
     "--help, which lists what --include-servers takes"),
    ("--impls --implementation --driver --impl-name", "--impl"),
    ("--dry-run --check --validate", "--init-only"),
    # Thresholds and comparisons.
    ("--threshold --thresholds --slo --assert --max-latency --sla", "--fail-if"),
    ("--abort-on-fail --stop-on-error", "--abort-if"),
    ("--baseline --base --against --diff", "--compare"),
    ("--compare --versus", "--baseline"),
    # Servers.
    ("--data --data-dir --datadir --journal --persistence", "--store"),
    ("--fsync --sync --journal-sync", "--durability"),
    ("--config --scenario --script --workload-file", "--workload"),
)  # fmt: skip

_OTHER_WORDS = {word: ours for words, *ours in _ROWS for word in words.split()}
_OPERATIONS = {
    **dict.fromkeys(("sender", "producer", "produce", "publish", "pub", "put", "write"), "send"),
    **dict.fromkeys(("receiver", "recv", "consumer", "consume", "subscribe", "sub", "get", "read"),
                    "receive"),
}  # fmt: skip
_UNKNOWN = "unrecognized arguments: "
_WITH_VALUE = re.compile(r"argument (?:-\w/)?(--[a-z-]+): ignored explicit argument '(.*)'")
_NO = ("no", "false", "off", "0", "never")
_CHOICE = re.compile(r"argument (--[a-z-]+): invalid choice: '(\S*)'")
# So alike are words of eight letters with one letter changed, or with two letters exchanged.
_LIKENESS = 0.75


def proposal(message: str, flags: Collection[str], takes_url: bool) -> str:
    """Return the option or value to type in place of the one that argparse refuses, or "".

    Args:
        message: argparse's message.
        flags: the options of the command.
        takes_url: whether the command takes a URL.
    """
    if found := _CHOICE.match(message):
        return _ours("=".join(found.groups()), flags, takes_url) or ""
    word, _, rest = message.removeprefix(_UNKNOWN).partition(" ")
    if not message.startswith(_UNKNOWN) or not word.startswith("-"):
        return ""
    name, equals, value = word.partition("=")
    with_value = f"{name}={value if equals else rest.partition(' ')[0]}"
    if not name.startswith("--"):
        # One letter, maybe with its value, or a long option with one dash, as in Go's programs.
        name = f"-{name}" if f"-{name}" in {*flags, *_OTHER_WORDS} else name[:2]
    for one in (with_value, name):
        if (ours := _ours(one, flags, takes_url)) is not None:
            return ours
    return name if name in flags else _alike(name, flags)


def of_switch(message: str) -> str:
    """Return argparse's message; of an option that got a value and takes none, a plainer one."""
    found = _WITH_VALUE.fullmatch(message)
    if found is None:
        return message
    flag, value = found.groups()
    write = "leave it out" if value.lower() in _NO else f"write {flag}"
    return f"{flag} takes no value, such as '{value}': {write}"


def operation_like(word: str) -> str:
    """Return the operation that a word means; empty if it means none."""
    close = difflib.get_close_matches(word, ("send", "receive"), 1, _LIKENESS)
    return close[0] if close else _OPERATIONS.get(word, "")


def _ours(word: str, flags: Collection[str], takes_url: bool) -> str | None:
    """Return our option for another tool's: None if unknown, empty if this command has none."""
    found = _OTHER_WORDS.get(word)
    if found is None:
        return None
    return next((ours for ours in found if _is_known(ours, flags, takes_url)), "")


def _is_known(ours: str, flags: Collection[str], takes_url: bool) -> bool:
    if "URL" in ours and not takes_url:
        return False
    return all(flag in flags for flag in re.findall(r"--[a-z-]+", ours.partition(", and then")[0]))


def _alike(name: str, flags: Collection[str]) -> str:
    """Return the options that begin with ``name``, or the one that is spelled almost like it."""
    long = [flag for flag in flags if flag.startswith("--")]
    if not name.startswith("--"):
        return ""
    begun = [flag for flag in long if flag.startswith(name)]
    if begun:
        return " or ".join(begun)
    # With the dashes all options would look alike.
    close = difflib.get_close_matches(name[2:], [flag[2:] for flag in long], 1, _LIKENESS)
    return f"--{close[0]}" if close else ""


def with_advice(message: str, argv: Sequence[str]) -> str:
    """Return a usage error's message with advice drawn from the words that the user typed."""
    text, see, parser = message.rpartition(" (see ")
    if parser == "quiver --help)" and argv[:1] in (["send"], ["receive"]) and _UNKNOWN in text:
        return f"{text}; did you mean quiver-arrow {argv[0]}?{see}{parser}"
    return f"{text}{_advice(text, argv)}{see}{parser}" if see else message


def _advice(message: str, argv: Sequence[str]) -> str:
    if found := re.match(r"argument (?:-\w/)?(--[a-z-]+): expected one argument", message):
        flag = found[1]
        value = _dashed_value([*argv][argv.index(flag) + 1 :]) if flag in argv else ""
        return f"; if '{value}' is its value, write {flag}='{value}'" if value else ""
    found = re.match(r"argument (-\w)/-(-[a-z-]+): ", message)
    if found and any(typed.partition("=")[0] == found[2] for typed in argv):
        return f"; did you mean -{found[2]}?"
    return ""


def _dashed_value(words: Sequence[str]) -> str:
    if not words or not words[0].startswith("-"):
        return ""
    rest = takewhile(lambda word: not word.startswith("-"), words[1:])
    return " ".join([words[0], *rest])
