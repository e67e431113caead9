"""Mistakes of a new user, and the one line with the right command."""

import argparse
import importlib
import re
import shlex
import socket
import threading
from contextlib import contextmanager

import pytest
from support.processes import REPOSITORY

from quiver_fast.cli.shared import quantities, url
from quiver_fast.errors import UsageError

# Command, its arguments, and its only line of output. All of them are usage errors.
USAGE = [
    ("pair", [""], "the URL is empty; write one such as //localhost/q0"),
    ("pair", ["localhost:5672/q0"], "begins with a host: write //localhost:5672/q0"),
    ("pair", ["10.0.0.1:5672/q0"], "begins with a host: write //10.0.0.1:5672/q0"),
    ("pair", ["amqp://localhost"], "has no address: write amqp://localhost/q0"),
    ("pair", ["http://localhost/q0"], "scheme must be amqp or amqps or csp, not 'http'"),
    ("pair", ["amqp://localhost:99999/q0"], "Port out of range 0-65535"),
    ("pair", ["amqp://[::1/q0"], "URL is malformed: Invalid IPv6 URL"),
    ("pair", ["--body-size", "1KB"], "(k, m): write 1k"),
    ("pair", ["--body-size", "100:80%,10k:19%"], "add up to 99 %, not to 100 %"),
    ("pair", ["--body-size", "10k:20"], "'10k:20' is not BYTES, LEAST..MOST"),
    ("pair", ["--body-file", "none"], "--body-file: none: No such file"),
    ("pair", ["--count", "1.5m"], "(k, m): write 1500k"),
    ("pair", ["--count", "1,000"], "(k, m): write 1k"),
    ("pair", ["--count", "1e6"], "(k, m): such as 500, 10k or 1m"),
    ("pair", ["--duration", "1.5m"], "(s, m, h): write 90s"),
    ("pair", ["--duration", "2min"], "(s, m, h): write 2m"),
    ("pair", ["--duration", "100ms"], "must be whole seconds, 1s at least, not 100ms"),
    ("pair", ["--backlog", "5"], "--backlog needs a URL: no queue is between peers"),
    ("pair", ["q", "--backlog", "5"], "--backlog needs --rate or --rate-steps"),
    ("pair", ["q", "--backlog", "5", "--rate", "1", "--count", "9"], "does not go with --count"),
    ("pair", ["q", "--backlog", "5", "--rate", "1", "--senders", "2"], "does not go with several"),
    ("pair", ["--release", "1%"], "--release needs a URL of a server"),
    ("pair", ["--reconnect"], "--reconnect needs a URL: no queue is between peers"),
    ("pair", ["q", "--resend"], "--resend needs --reconnect"),
    (
        "pair",
        ["q", "--reconnect", "--resend", "--body-size", "1..9"],
        "--resend does not go with bodies of several sizes: a copy has the size of its message",
    ),
    ("pair", ["csp://h/q", "--reconnect"], "a csp URL does not go with --reconnect"),
    ("pair", ["q", "--reconnect", "--presettled"], "a presettled message has no outcome"),
    ("pair", ["q", "--reconnect", "--record-format", "v3"], "needs --record-format v2"),
    ("pair", ["q", "--reconnect", "--exit-when", "empty"], "--reconnect does not go with"),
    ("pair", ["q", "--reconnect", "--reconnect-pause", "1s,10ms"], "is not FIRST,LONGEST"),
    ("pair", ["//h/q", "--reconnect", "--failover", "//u@h2"], "has a user: all places have the"),
    ("pair", ["//h/q", "--reconnect", "--failover", "//h2/r"], "in more than its host"),
    ("pair", ["//h/q", "--reconnect", "--failover", "h2"], "'h2' has no host: write one such as"),
    ("pair", ["q", "--server", "pyfast 'x"], "--server: 'pyfast 'x': no closing quotation"),
    ("pair", ["--fault", "1s run x"], "--fault needs a URL: no queue is between peers"),
    ("pair", ["q", "--fault", "1s cut"], "--fault cut needs --reconnect: it ends connections"),
    ("pair", ["q", "--fault", "1s stop 1s"], "--fault stop needs --fault-pid or --server"),
    ("pair", ["q", "--fault-pid", "1"], "--fault-pid needs --fault"),
    ("pair", ["q", "-d", "9", "--fault", "9s run x"], "--fault '9s run x': the run ends after 9 s"),
    (
        "pair",
        ["q", "-d", "9", "--fault", "5s run x", "--fault", "5s stop 65s"],
        "after the run, which",
    ),
    ("pair", ["q", "--fault", "999999999s run x"], "'999999999s run x': no time may be above 480h"),
    (
        "pair",
        ["q", "-d", "9", "--find-rate", "p99<1s", "--server", "pyfast"],
        "--server does not go with --find-rate",
    ),
    ("pair", ["q", "--fault", "9s stop"], "'9s stop' is not 'WHEN stop UNTIL'"),
    ("pair", ["csp://h/q", "--fault", "1s freeze 1s"], "--fault freeze does not go with a csp URL"),
    ("pair", ["q", "--server", "none"], "no implementation 'quiver-server-none' found"),
    ("pair", ["q", "--server", "pyfast --durability all"], "durability"),
    (
        "pair",
        ["q", "-d", "9", "--find-rate", "p99<1s", "--fault", "1s run x"],
        "--fault does not go with --find-rate",
    ),
    ("arrow", ["send", "q", "--reconnect", "--server"], "--reconnect needs a URL of a server"),
    ("arrow", ["send", "q", "--receive-delay", "5ms"], "--receive-delay is for receivers"),
    ("pair", ["--duration", "5x"], "(s, m, h): such as 30, 30s, 1m30s or 1h"),
    ("pair", ["--rate=-5"], "rate '-5' is no number of messages per second"),
    ("pair", ["--rate", "0.1"], "--timeout 10: at 0.1 messages/s the sender sends one each 10 s"),
    ("pair", ["--rate", "0.5", "--find-rate", "p99<1s"], "begins at a whole --rate"),
    ("pair", ["--ramp", "10k:5s"], "'10k:5s' is not RATE..RATE:DURATION"),
    ("pair", ["--ramp", "1..9:5s", "--rate-steps", "5:1s"], "--rate-steps does not go with --ramp"),
    ("pair", ["--rate-steps", "10k"], "'10k' is not RATE:DURATION"),
    ("pair", ["--arrivals", "poisson"], "--arrivals needs --rate or --rate-steps: it is the mean"),
    ("pair", ["--arrivals", "even", "--rate", "9"], "'even' is not poisson or poisson:SEED"),
    ("pair", ["--arrivals", "poisson", "--rate", "1"], "are as long; give 21 or more"),
    ("pair", ["--rate-steps", "10k:5s", "--rate", "5"], "--rate does not go with --rate-steps"),
    (
        "pair",
        ["--rate-steps", "9:5s", "--find-rate", "p99<1s"],
        "--rate-steps does not go with --find-rate",
    ),
    ("pair", ["--credit", "0"], "argument --credit: must be at least 1, not 0"),
    ("pair", ["--credit", "4294967296"], "must be at most 2,147,483,647, not 4294967296"),
    ("pair", ["--sender", "pyfst"], "did you mean pyfast?"),
    ("pair", ["--impl", "qpid-jms"], "no implementation 'quiver-arrow-qpid-jms' found"),
    ("pair", ["--cuont", "1"], "unrecognized arguments: --cuont; did you mean --count?"),
    ("pair", ["--dur", "1s"], "unrecognized arguments: --dur"),
    ("pair", ["q0", "q1"], "unrecognized arguments: q1"),
    ("pair", ["--transaction-size", "10"], "--transaction-size needs a URL"),
    ("pair", ["--declare"], "--declare needs a URL"),
    ("pair", ["q0", "--queue-type", "quorum"], "--queue-type needs --declare or --unique-queue"),
    (
        "pair",
        ["q0", "--declare", "--routing", "multicast", "--durable-queue"],
        "--routing multicast does not go with --durable-queue: each receiver has a queue",
    ),
    ("pair", ["--runs", "0"], "argument --runs: must be above 0"),
    ("pair", ["--baseline", "rhea"], "--baseline needs --runs or --detect"),
    ("pair", ["--fail-if", "p99<"], "'p99<' is not a condition such as p99>5ms"),
    ("pair", ["--fail-if", "latency>5ms"], "'latency' in 'latency>5ms' is not a figure: those are"),
    ("pair", ["--find-rate", "p98<5ms"], " p99.9, "),
    ("pair", ["--abort-if", "max>5s"], "is no figure of a period: those are p50, p99, mean, rate"),
    ("analyze", ["run1", "--fail-if", "losses>0"], ", unreceived, lost, "),
    (
        "pair",
        ["--fail-if", "a,b"],
        "such as p99>5ms: give the option once for each",
    ),
    ("pair", ["--fail-if", "p99>5ms and rate<1k"], "give the option once for each condition"),
    ("pair", ["--abort-if", "p99>5s || rate<1"], "give the option once for each condition"),
    ("analyze", ["run1", "--fail-if", "5s"], "write 'p99>5s'"),
    ("analyze", ["run1", "--trust-order"], "--trust-order needs --compare"),
    ("fleet", ["hosts", "--fail-if", "10ms"], "write 'p99>10ms'"),
    ("pair", ["--fail-if", "p99=5ms"], "write 'p99>5ms'"),
    ("pair", ["--fail-if", "5ms<p99"], "write 'p99>5ms'"),
    ("pair", ["--fail-if", "p99,9>5ms"], "write 'p99.9>5ms'"),
    ("pair", ["--fail-if", "rate<1,5k"], "write 'rate<1.5k'"),
    ("pair", ["--fail-if", "p99>5µs"], "write 'p99>5us'"),
    ("pair", ["--fail-if", "sender_rate<5"], "did you mean sender-rate?"),
    ("pair", ["--find-rate", "p99==5ms"], "write 'p99<5ms'"),
    ("pair", ["--find-rate", "p99<5,5ms"], "write 'p99<5.5ms'"),
    ("pair", ["--find-rate", "p99<1,000us,max<2,000us"], "write 'p99<1000us and max<2000us'"),
    ("pair", ["--find-rate", "10ms,20ms"], "is not a condition such as p99<5ms (see"),
    ("pair", ["--durable", "yes"], "'yes' looks like a value, and switches take none"),
    ("pair", ["LOCALHOST"], "'LOCALHOST' is a host: write //LOCALHOST/q0"),
    ("pair", ["dead::beef"], "write //[dead::beef]/q0, or //localhost/dead::beef for a queue"),
    ("pair", ["--find-rate", "<10ms"], "such as p99<5ms: write 'p99<10ms'"),
    ("pair", ["--find-rate", "p99<0"], "'p99<0' is no limit: each rate has it, or none"),
    ("pair", ["--find-rate", "complete>=1"], "'complete>=1' is no limit"),
    ("pair", ["--find-rate", "worse"], "--find-rate worse: nothing is compared in a search"),
    ("pair", ["--find-rate", "p99"], "'p99' is not a condition such as p99<5ms (see"),
    ("pair", ["--find-rate", "p99<5ms and lost>=1"], "write 'lost<=1'"),
    ("pair", ["--runs", "2", "--baseline", "credit=10 durable"], "'--credit 10 --durable'"),
    ("pair", ["--ramp", "1,000..20,000:30s"], "--ramp: numbers have no commas: write 1000..20000"),
    ("pair", ["--rate", "20K msgs/s"], "write 20k"),
    ("pair", ["--count", "10k messages"], "write 10k"),
    ("arrow", ["send", "q0", "--durable=1"], "--durable takes no value, such as '1': write"),
    ("server", ["q0", "--verify=false"], "--verify takes no value, such as 'false': leave it out"),
    ("server", ["broker1.example.com/q0"], "write //broker1.example.com/q0"),
    ("arrow", ["send", "bücher.test/q0"], "begins with a host: write //bücher.test/q0"),
    (
        "pair",
        ["--fail-if", "worse"],
        "nothing is compared without --baseline, and --runs or --detect",
    ),
    ("pair", ["--settlement", "--presettled"], "--presettled does not go with --settlement"),
    ("pair", ["//h/q", "--trust-store", "x"], "--trust-store needs an amqps URL"),
    ("pair", ["amqp:/h/q"], "after 'amqp:' there is one slash: write amqp://h/q"),
    ("pair", ["help"], "'help' looks like an option: write --help, or //localhost/help"),
    ("pair", ["localhost"], "'localhost' is a host: write //localhost/q0"),
    ("arrow", ["send", "10.0.0.1"], "'10.0.0.1' is a host: write //10.0.0.1/q0"),
    ("server", ["::1"], "'::1' is a host: write //[::1]/q0"),
    ("pair", ["//h/q", "--password-file", "none"], "--password-file: none: No such file"),
    ("pair", ["amqp://u@h/q", "--username", "v"], "--username and the URL both name a user"),
    ("pair", ["--time-unit", "s"], "invalid choice: 's' (choose from 'ms', 'us', 'ns')"),
    ("arrow", [], "the arguments must be 'send' or 'receive', and a URL"),
    ("arrow", ["sned", "q0"], "the arguments must be 'send' or 'receive', and a URL"),
    ("arrow", ["receive", "q0", "--settlement"], "--settlement is for senders"),
    ("arrow", ["send", "q0", "--filter", "a = 1"], "--filter is for receivers"),
    ("arrow", ["send", "q0", "--exit-when", "empty"], "--exit-when is for receivers"),
    ("arrow", ["receive", "q0", "--exit-when", "empty", "--server"], "no queue is between peers"),
    ("arrow", ["receive", "q0", "--exit-when", "full"], "choose from"),
    ("arrow", ["receive", "csp://h/q0", "--exit-when", "empty"], "a csp URL does not go with"),
    (
        "arrow",
        ["receive", "q0", "--exit-when", "empty", "--streaming"],
        "does not go with --streaming",
    ),
    ("pair", ["--exit-when", "empty"], "--exit-when needs a URL: no queue is between peers"),
    ("pair", ["csp://h/q0", "--exit-when", "empty"], "a csp URL does not go with --exit-when"),
    ("server", [], "URL is missing"),
    ("server", ["q0", "--durability", "always"], "durability must be none, interval:<ms> or group"),
    ("server", ["q0", "--durability", "group"], "--durability needs --store"),
    ("server", ["q0", "--trunks", "a,b"], "'a,b' has a comma; names are separated by ';'"),
    ("server", ["q0", "--allow-old-tls"], "--allow-old-tls needs an amqps URL"),
    ("server", ["q0", "--connect", "h", "--connect-tls-insecure"], "needs --connect amqps://HOST"),
    ("server", ["q0", "--metrics-host", "h"], "--metrics-host needs --metrics-port"),
    ("server", ["q0", "--impl", "artmis"], "did you mean artemis?"),
    ("server", ["amqps://h/q0"], "an amqps URL needs --cert"),
    ("server", ["q0", "--max-links", "0"], "--max-links: must be at least 1, not 0"),
    ("bench", ["--include-servers", "rabbit"], "did you mean rabbitmq?"),
    ("bench", ["--resume"], "--resume needs --output"),
    ("bench", ["--rate", "100", "--ramp", "1..9:2s"], "--rate does not go with --rate-steps"),
    ("bench", ["--presettled", "--settlement"], "--presettled does not go with --settlement"),
    ("bench", ["--streaming", "--pause-receivers", "1s:1s"], "does not go with --streaming"),
    ("bench", ["--release", "1%"], "--release needs --client-server: peers do not do that"),
    (
        "bench",
        ["--client-server", "--transaction-size", "5", "--presettled"],
        "--presettled does not go with --transaction-size",
    ),
    ("bench", ["--client-server", "--queues", "2"], "--queues 2 are more than --senders 1"),
    ("bench", ["--within", "1s"], "--within needs --find-rate"),
    ("bench", ["--warm-up", "1s", "--peer-to-peer"], "--warm-up does not go with --peer-to-peer"),
    ("bench", ["--html", "f", "--junit", "f"], "--html and --junit name one file, f: only one"),
    ("pair", ["--markdown", "f", "--junit", "./f"], "--markdown and --junit name one file, ./f"),
    ("analyze", ["run1", "--hgrm", "f", "--hlog", "f"], "--hgrm and --hlog name one file, f"),
    ("pair", ["--junit", "-"], "'-' is no file: write /dev/stdout"),
    ("pair", ["--within", "1s"], "--within needs --find-rate or --detect"),
    ("pair", ["--sweep", "rate=1,2", "--within", "1s"], "--within needs --find-rate or --detect"),
    ("pair", ["--find-rate", "p99<1s", "--warm-up", "1s"], "--warm-up needs a URL: no queue is"),
    ("pair", ["--metrics-host", "h"], "--metrics-host needs --metrics-port"),
    ("arrow", ["send", "q", "--metrics-host", "h"], "--metrics-host needs --metrics-port"),
    ("pair", ["//h/q", "--presettled", "--release", "9%"], "a presettled message has no outcome"),
    ("arrow", ["receive", "q", "--presettled", "--reject", "9%"], "--presettled is for senders"),
    ("analyze", ["none"], "'none': no such file, directory or match"),
    ("analyze", ["."], "no records (*transfers.csv, plain or with .zst, .xz, .gz, .bz2) in '.'"),
    ("queue", ["show", "q0"], "invalid choice: 'show'"),
    ("queue", ["dump"], "required: QUEUE (see"),
    ("queue", ["dump", "csp://h/q0", "5"], "dump takes no values"),
    ("queue", ["dump", "none"], "'none' is neither a directory nor a csp URL"),
    ("queue", ["dump", "."], "'.' is not a queue: it has neither metadata.cq4t nor a .cq4 file"),
    ("queue", ["tail", "/"], "'/' is not a queue"),
    ("queue", ["verify", "."], "'.' is not a queue"),
]


def main_of(command):
    return importlib.import_module(f"quiver_fast.cli.{command}.command").main


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """Run in an empty folder, with no implementations but our own."""
    monkeypatch.chdir(tmp_path)
    for name in ("QUIVER_IMPL_PATH", "QUIVER_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("rate", ["2e4", "fast", "20kk", "1,00"])
def test_no_proposal_without_a_number(rate, capfd):
    assert main_of("pair")(["--rate", rate]) == 2
    assert "; write" not in capfd.readouterr().err


@pytest.fixture
def addresses(monkeypatch):
    """The names that have an address: a list that a test fills, with "*" for all of them."""
    known = []

    def getaddrinfo(name, *_args, **_keywords):
        if name not in known and "*" not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    url._resolves.cache_clear()
    yield known
    url._resolves.cache_clear()


def test_a_name_that_resolves_is_taken_for_a_host(addresses):
    addresses.append("rabbitmq")
    with pytest.raises(UsageError, match=r"'rabbitmq/q0' begins with a host: write //rabbitmq/q0"):
        url.parse_url("rabbitmq/q0")
    assert url.parse_url("rabbitmq").path == "rabbitmq"
    addresses.append("orders.created")
    with pytest.raises(UsageError, match=r"'orders.created' is a host: write //orders.created/q0"):
        url.parse_url("orders.created")
    assert url.parse_url("topic/t").path == "topic/t"
    assert url.parse_url("//localhost/rabbitmq/q0").path == "rabbitmq/q0"
    assert url.parse_url("x", address="rabbitmq/q0").path == "rabbitmq/q0"


@pytest.mark.parametrize("name", ["1.2", "10.1", "1.2.3", "2024.06/q"])
def test_a_version_is_no_host(addresses, name):
    addresses.append("*")
    assert url.parse_url(name).path == name


def test_a_server_that_knows_every_name_tells_nothing(addresses):
    addresses.append("*")
    assert url.parse_url("topic/t").path == "topic/t"


def test_a_silent_name_server_keeps_no_command(addresses, monkeypatch):
    silent = threading.Event()

    def getaddrinfo(*_args, flags, **_keywords):
        if flags & socket.AI_NUMERICHOST or silent.wait():
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(url, "_RESOLVING_SECONDS", 0.01)
    try:
        assert url.parse_url("topic/t").path == "topic/t"
    finally:
        silent.set()


@pytest.mark.parametrize(("command", "words", "line"), USAGE)
def test_a_usage_error_says_what_to_type(command, words, line, capfd):
    assert main_of(command)(words) == 2
    output, errors = capfd.readouterr()
    assert output == ""
    assert line in errors
    assert errors.count("\n") == 1, errors


def rows_of_the_document(heading):
    """Return the rows of the table below a heading of docs/mistakes.md, as plain text."""
    text = (REPOSITORY / "docs" / "mistakes.md").read_text()
    part = text.split(f"# {heading}\n")[1].split("\n#")[0]
    rows = re.findall(r"^\| (.*) \|$", part, re.MULTILINE)[1:]
    return [re.sub(r"\\([|*<\[])", r"\1", row).split(" | ")[-2:] for row in rows]


TOLD = [
    *rows_of_the_document("Mistakes, and the lines that commands print"),
    *rows_of_the_document("Options of other tools"),
]


def test_the_document_has_sixty_mistakes_and_wishes():
    assert len(TOLD) >= 90
    assert len({typed for typed, _ in TOLD}) == len(TOLD)


@pytest.mark.parametrize(("typed", "says"), TOLD)
def test_the_document_says_what_is_printed(typed, says, capfd):
    name, *words = shlex.split(typed.strip("`"))
    command = "pair" if name == "quiver" else name.removeprefix("quiver-")
    assert main_of(command)(words) == 2
    assert capfd.readouterr().err == f"{name}: error: {says}\n"


def test_the_document_has_the_other_protocols():
    told = " ".join(says for _, says in rows_of_the_document("Correct commands that fail"))
    assert [line for _, _, line in PROTOCOLS if line not in told] == []


@contextmanager
def answering(reply):
    """A server of another protocol: it reads the request, answers ``reply`` and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(4096)
                    peer.sendall(reply)
                    peer.shutdown(socket.SHUT_WR)
                    while peer.recv(4096):
                        pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


AMQP_HEADER = b"AMQP\x03\x01\x00\x00"
# A fatal alert, unexpected_message: the answer of a TLS port to an AMQP header.
TLS_ALERT = b"\x15\x03\x01\x00\x02\x02\x0a"
# Scheme, the port's answer, and the line printed for it.
PROTOCOLS = [
    ("csp", AMQP_HEADER, "it speaks AMQP, not csp"),
    ("csp", b"HTTP/1.1 400 Bad Request\r\n\r\n", "it speaks HTTP, not csp"),
    ("amqps", AMQP_HEADER, "(if this port is not for TLS, use amqp)"),
    ("amqps", b"HTTP/1.1 400 Bad Request\r\n\r\n", "(if this port is not for TLS, use amqp)"),
    ("amqps", b"", "(if this port is not for TLS, use amqp)"),
    ("amqp", TLS_ALERT, "the peer speaks TLS: use amqps"),
    ("amqp", b"", "before it sent a byte (if this port is for TLS, use amqps)"),
]


@pytest.mark.parametrize(("scheme", "reply", "line"), PROTOCOLS)
def test_a_port_of_another_protocol(scheme, reply, line, capfd):
    with answering(reply) as port:
        assert main_of("pair")([f"{scheme}://127.0.0.1:{port}/q0", "-c", "1"]) == 1
    output, errors = capfd.readouterr()
    stays = "Messages sent to 'q0' stay there: csp only appends\n"
    assert output == (stays if scheme == "csp" else "")
    assert line in errors
    assert errors.count("\n") == 1, errors


@pytest.mark.parametrize("command", ["pair", "arrow"])
def test_no_server(command, capfd):
    """No table of zeros, and the reason once, where the user looks last."""
    words = ["send"] if command == "arrow" else []
    assert main_of(command)([*words, "amqp://[::1]:1/q0"]) == 1
    output, errors = capfd.readouterr()
    assert output == ""
    assert "cannot connect to [::1]:1: " in errors
    assert errors.count("\n") == 1, errors


@pytest.mark.parametrize(
    ("parse", "text", "guess"),
    [
        (quantities.count, "1KB", "1k"),
        (quantities.count, "1_000_000", "1m"),
        (quantities.count, "1.5k", "1500"),
        (quantities.count, "10 k", "10k"),
        (quantities.duration, "1.5h", "90m"),
        (quantities.duration, "90 seconds", "90s"),
    ],
)
def test_what_is_proposed_is_understood(parse, text, guess):
    with pytest.raises(argparse.ArgumentTypeError, match=f"write {guess}$"):
        parse(text)
    assert parse(guess) > 0
