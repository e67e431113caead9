"""The commands of README.md and docs/, run as they stand there, and what is said beside them.

Each runs in a namespace with the default ports to itself, where `broker.example` is this
host. One thing is changed: a measurement takes a second (`--duration`), not half a minute.
Commands that build or install (`make`, `pip`) have tests of their own in tests/packaging; here
their targets must exist.
"""

from __future__ import annotations

import re
import shlex
import signal
import sys
from collections.abc import Container, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from support.arrows import COMMANDS
from support.documents import parsed
from support.namespace import Namespace, namespace
from support.processes import REPOSITORY, Finished, wait_until

DOCUMENTS = (
    "README.md", "docs/analysis.md", "docs/arrows.md", "docs/bench.md", "docs/comparing.md",
    "docs/conform.md", "docs/failures.md",
    "docs/install.md", "docs/limits.md", "docs/load.md", "docs/options.md", "docs/output.md",
    "docs/patterns.md", "docs/queues.md",
)  # fmt: skip
PROGRAMS = ("quiver", "quiver-arrow", "quiver-server", "quiver-bench", "quiver-queue",
            "quiver-conform", "quiver-analyze", "make", "pip")  # fmt: skip
MEASURING = ("quiver", "quiver-arrow", "quiver-bench")
RUN_SECONDS = 90

BROKER = "quiver-server //localhost/q0"
QUEUES = "quiver-server csp://localhost/orders --store /var/lib/queues"
TLS_BROKER = "quiver-server amqps://broker.example/q0 --cert broker.pem --key broker.key"
PORTS = {"amqp": 5672, "amqps": 5671, "csp": 9876}


def blocks(document: str) -> list[list[str]]:
    """Return the indented blocks of a document, without their indentation."""
    text = (REPOSITORY / document).read_text()
    found = re.findall(r"(?:^ {4}.*\n(?:\n(?= {4}))?)+", text, re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE).splitlines() for block in found]


def commands(document: str) -> list[str]:
    """Return the commands of a document, with what is said beside them."""
    lines = [line for block in blocks(document) for line in block]
    # In a table, a number stands behind the name of a process.
    named = [line for line in lines if line.split(" ")[0] in PROGRAMS]
    return [line for line in named if not re.match(r"\w+ +\d", line)]


def bare(line: str) -> str:
    """Return a command without the comment beside it, and with single spaces."""
    return shlex.join(shlex.split(line, comments=True))


EVERYTHING = dict.fromkeys(bare(line) for each in DOCUMENTS for line in commands(each))


def shortened(command: str) -> str:
    """Return a command that measures for a second."""
    words = shlex.split(command)
    if words[0] not in MEASURING or "--count" in words or "--info" in words:
        return command
    if "--duration" in words:
        at = words.index("--duration")
        del words[at : at + 2]
    if "--find-rate" in words:
        words += ["--within", "30s"]
    # The warm-up is a part of it.
    return shlex.join([*words, "--duration", "7s" if "--warmup" in words else "1s"])


@dataclass(frozen=True)
class Example:
    """Needs of a command, and its expected output.

    Attributes:
        beside: the servers that run meanwhile.
        says: patterns that its output must have, in any order.
        codes: the exit codes that the document allows.
    """

    beside: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    codes: tuple[int, ...] = (0,)


DELIVERED = (r"Count \.+ [1-9][\d,]* messages", r"Lost \.+ 0 messages")

# Credit of 10 is worlds apart from 1,000: the rate's verdict is certain on any machine.
VERDICT = (
    r"Runs \.+ 10 of 10 complete",
    r"^message rate .* better$",
    r"Verdict \.+ (better|mixed)",
)

# Half a minute may be too short to confirm the rate.
FOUND = Example((BROKER,), (r"Sustained \.+ [1-9][\d,]*/s",), (0, 1))

CHURNED = Example((BROKER,), (r"Succeeded \.+ [1-9]", r"^message .* [mu]s"))
HELD_PARTS = Example((BROKER,), (r"^link +[1-9]", r"Lost \.+ 0 "))
HELD = Example((BROKER,), (r"Opened \.+ 10,000", r"Lost \.+ 0 "))

# Ours does not keep a few clauses, on purpose (buildtools/not_kept.py).
CONFORMS = Example((BROKER,), (r"^[1-9]\d* clauses: [1-9]\d* kept, ",), (0, 1))

SWEPT = Example((BROKER,), (r"^ *1000 .*/s", r"^ *100000 .*/s"))
SWEEP = (
    "quiver //localhost/q0 --sweep rate=1k..100k:6 --duration 10s --unique-queue --output sweep1"
)
RESUME = "quiver --resume --output sweep1"
DRAWN = "quiver-analyze sweep1 sweep2 --svg pictures"
STEPPED = "quiver //localhost/q0 --rate-steps 10k:30s,50k:10s,10k:30s --output burst"
WINDOWS = "quiver-analyze burst --window 5s"

# A run of a pair, or through the broker, which delivers all that it sends.
PLAIN = {
    command: Example((BROKER,) if "//localhost" in command else (), DELIVERED)
    for command in map(
        bare,
        (
            "quiver --rate-steps 1k:5s,1k..20k:5s,20k:5s",
            "quiver //localhost/q0 --rate 1k --arrivals poisson",
            "quiver //localhost/q0 --rate-steps 1k:10s,1k..5k:30s --arrivals poisson:7",
            "quiver //localhost/q0 --receive-delay 20ms --rate 35",
            "quiver //localhost/q0 --receive-delay 20ms --rate 35 --arrivals poisson",
            "quiver --rate 0.5 --duration 6s",
            "quiver --body-size 100:80%,10k:20% --rate 10k --duration 5s",
            "quiver //localhost/q-%d --senders 8 --receivers 8 --queues 4 --rate 20k "
            "--record-format v2",
            "quiver //localhost/q0 --rate 10k --duration 65s --warmup 5s",
            "quiver //localhost/q0 --rate 1k --duration 12s --pause-receivers 3s:500ms",
            "quiver //localhost/q0 --body-file order.json --duration 3s",
            "quiver //localhost/q0 --rate 50k --duration 1h --abort-if 'p99>1s' "
            "--abort-if 'rate<40k'",
        ),
    )
}

EXAMPLES = PLAIN | {
    bare(
        "quiver-arrow send //localhost/q0 --count 1000 --set-message-id "
        "--properties 'color=red:20%,green:80%,n=%n,key=%id'"
    ): Example((BROKER,)),
    bare(
        "quiver //localhost/q0 --count 1000 --properties color=red:20%,green:80% "
        "--filter \"color = 'red'\" --record-format v2"
    ): Example((BROKER,), (r"Received \.+ 200 messages", r"Filtered \.+ 800 messages")),
    "quiver //localhost/topic-prices --fan-out --receivers 8 --rate 2k --duration 5s": Example(
        (BROKER,), (*DELIVERED, r"Copies due \.+ [1-9]", r"Receivers that lack one \.+ 0")
    ),
    "quiver //localhost/topic-prices --fan-out --receivers 3 --rate 2k --duration 5s --away 3s": (
        Example((BROKER,), (*DELIVERED, r"Receivers that lack one \.+ 0"))
    ),
    "quiver //localhost/topic-prices --fan-out --rate 2k --duration 5s --sweep receivers=1,2,4,8": (
        Example((BROKER,), (r"^run-01 +1 ", r"^run-04 +8 "))
    ),
    bare(
        "quiver //localhost/q-%d --senders 4 --receivers 4 --queues 2 --rate 10k --duration 10s "
        "--release 1% --reject 0.1% --record-format v2"
    ): Example((BROKER,), (r"Rejected \.+ [1-9]",)),
    "quiver //localhost/q0 --backlog 500k --rate 10k --duration 15s": Example(
        (BROKER,), (r"Backlog \.+ 500,000 messages",)
    ),
    "quiver-arrow receive //localhost/q0 --exit-when empty": Example((BROKER,)),
    bare(
        "quiver //localhost/q0 --request-reply --rate 1k --duration 5s --work 200us --receivers 2"
    ): Example((BROKER,), (r"Requests \.+ [1-9]", r"Round trip 50% \.+ [1-9]")),
    "quiver": Example(says=(r"URL \.+ amqp://localhost:\d+/quiver", *DELIVERED)),
    "quiver //localhost/q0": Example((BROKER,), DELIVERED),
    "quiver amqps://broker.example/q0 --duration 5m --trust-store ca.pem": Example(
        (TLS_BROKER,), DELIVERED
    ),
    "quiver q0 --sender qpid-proton-c --receiver pyfast": Example(
        (BROKER,), (r"Sender \.+ qpid-proton-c", r"Receiver \.+ pyfast", DELIVERED[0])
    ),
    # Not "0 ms": three significant digits of the unit that shows them.
    "quiver --rate 50k --time-unit us": Example(says=(r"50% \.+ [1-9][\d.]* (us|ms)", *DELIVERED)),
    "quiver-arrow send //localhost/q0 --count 100k": Example((BROKER,)),
    "quiver csp://localhost/bench": Example((QUEUES,), DELIVERED),
    "quiver-queue append csp://localhost/orders '{ item: nails, count: 100 }'": Example(
        (QUEUES,), (r"^\d+$",)
    ),
    "quiver-queue dump csp://localhost/orders": Example((QUEUES,)),
    "quiver-conform //localhost": CONFORMS,
    "quiver-conform //localhost --only 2.6 --verbose": Example((BROKER,), (r"<- detach",)),
    "quiver-conform //localhost --junit verdicts.xml --markdown verdicts.md --html page.html": (
        CONFORMS
    ),
    "quiver-conform --arrow pyfast": Example(says=(r"^[1-9]\d* clauses: ",), codes=(0, 1)),
    bare("quiver-conform --client -- quiver-arrow send '{url}' --count 3"): Example(
        says=(r"^[1-9]\d* clauses: ",), codes=(0, 1)
    ),
    "quiver-conform --list": Example(says=(r"^2\.6\.6/1 +MUST ",)),
    bare("quiver --runs 5 --baseline='--credit 10'"): Example(says=VERDICT),
    bare("quiver --runs 5 --duration 2s --baseline='--credit 10'"): Example(says=VERDICT),
    "quiver-bench --duration 5s": Example(says=("pyfast -> pyfast -> pyfast", "Test failures: 0")),
    bare("quiver //localhost/q0 --find-rate 'p99<10ms'"): FOUND,
    "quiver //localhost/q0 --rate 50k --duration 10s --output run1": Example((BROKER,), DELIVERED),
    "quiver //localhost/q0 --output run1": Example((BROKER,), DELIVERED),
    "quiver //localhost/q0 --reconnect --rate 1k --duration 6s": Example((BROKER,), DELIVERED),
    "quiver //localhost/q0 --rate 1k --html page.html": Example((BROKER,), DELIVERED),
    bare("quiver //localhost/q0 --rate 50k --fail-if 'p99>5ms'"): Example((BROKER,), codes=(0, 99)),
    # The host is the same one under another name: a difference is by chance.
    "quiver //localhost/q0 --runs 5 --baseline //broker.example/q0 --fail-if worse": Example(
        (BROKER,), (r"Verdict \.+ ",), (0, 99)
    ),
    "quiver //localhost/q0 --sweep rate=1k..100k:6": SWEPT,
    "quiver //localhost/q0 --churn 1k": CHURNED,
    "quiver //localhost/q0 --hold 10k": HELD,
    "quiver //localhost/q0 --hold 2k --sessions 2 --links 3": HELD_PARTS,
    "quiver //localhost/q0 --hold 500 --sessions 2 --links 3 --duration 3s": HELD_PARTS,
    "quiver //localhost/q0 --hold 10k --duration 10s": HELD,
    "quiver //localhost/q0 --churn 1k --duration 10s": CHURNED,
    "quiver //localhost/q0 --priority 7 --ttl 60000 --properties color=blue,size=3": Example(
        (BROKER,), DELIVERED
    ),
    "quiver --output base": Example(),
    "quiver --output next": Example(),
    "quiver-server --impl rabbitmq --info": Example(says=("Starts: RabbitMQ",)),
}
ANALYSES = {
    f"quiver-analyze {run} {options}".rstrip(): Example(codes=codes)
    for run in ("next", "DIR", "run1")
    for options, codes in (
        ("", (0,)),
        ("--compare base --html report.html", (0,)),
        ("--compare BASE --html r.html", (0,)),
        ("--html report.html", (0,)),
        ("--fail-if 'p99>5ms'", (0, 99)),
    )
} | {
    "quiver-analyze new-runs/ --compare old-runs/": Example(says=(r"Verdict \.+ too few runs",)),
    # Too few runs for a verdict.
    bare(
        "quiver-analyze new --compare old --fail-if worse --markdown verdicts.md "
        "--junit verdicts.xml"
    ): Example(codes=(99,)),
    bare(
        "quiver-analyze new --compare old --fail-if 'rate-change<-5%' --fail-if 'p99-change>10%'"
    ): Example(codes=(99,)),
}
MATRIX = (
    "quiver-conform //localhost --output first",
    "quiver-conform //localhost --address q0 --output second",
    "quiver-conform --matrix first second --html matrix.html --markdown matrix.md",
)
PRINTED = "nightly.toml"
WORKLOADS = tuple(
    bare(line)
    for line in (
        "quiver //localhost/q0 --rate 10k --duration 5m --durable --print-workload > nightly.toml",
        "quiver --workload nightly.toml",
        "quiver --workload nightly.toml --rate 20k",
    )
)
RESULT = "result.json"
AGAIN = tuple(
    bare(line)
    for line in (
        "quiver //localhost/q0 --rate 10k --json > result.json",
        "quiver --workload result.json",
        "quiver --workload result.json --rate 20k",
    )
)
SERVERS = {
    BROKER: "amqp",
    "quiver-server amqp://localhost/q0 --impl builtin": "amqp",
    QUEUES: "csp",
}
# Each ends with a signal, after the test saw what it is for.
ENDLESS = {"quiver-queue tail csp://localhost/orders"}
# They need brokers, arrows or versions that other tests have, and take minutes.
ELSEWHERE = (
    "quiver --runs 10 --baseline /opt/old/bin/quiver",
    bare("quiver --duration 5s --baseline='--credit 10' --detect 5% --within 10m"),
    "quiver-analyze .",
    "quiver //broker/q0 --duration 30s --fail-if",
    "quiver-bench --client-server",
    "quiver-bench --mixed-pairs",
    "quiver-bench --suite",
    "quiver-server --impl rabbitmq //localhost/q0",
    # Queue types of RabbitMQ 4, and dead letters of Artemis: tests/interop has both.
    "quiver //localhost/q0 --declare --queue-type quorum",
    "quiver //localhost/q0 --rate 10k --duration 10s --reject 1% --modify 2%:failed",
)


def present(table: Container[str]) -> list[str]:
    return [command for command in EVERYTHING if command in table]


def test_every_command_has_its_test() -> None:
    tested = {
        *EXAMPLES,
        *ANALYSES,
        *SERVERS,
        *ENDLESS,
        *WORKLOADS,
        *AGAIN,
        *MATRIX,
        SWEEP,
        RESUME,
        DRAWN,
        STEPPED,
        WINDOWS,
    }
    others = ("make ", "pip ", *ELSEWHERE)
    assert [x for x in EVERYTHING if x not in tested and not x.startswith(others)] == []
    assert tested - {*EVERYTHING} <= {*ANALYSES}, "the documents have them no more"


@pytest.fixture(name="place")
def place_of_examples(tmp_path: Path) -> Iterator[Namespace]:
    """A namespace with a certificate for broker.example, and stand-ins for other projects'."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    leaf = authority.issue_cert("broker.example")
    leaf.cert_chain_pems[0].write_to_path(tmp_path / "broker.pem")
    leaf.private_key_pem.write_to_path(tmp_path / "broker.key")
    (tmp_path / "order.json").write_text('{ "item": "nails" }')
    impls = tmp_path / "impls"
    impls.mkdir()
    server = shlex.join([sys.executable, "-m", "quiver_fast.server.main"])
    stand_ins = {
        "quiver-arrow-qpid-proton-c": shlex.join(COMMANDS["proton"]),
        "quiver-server-builtin": server,
    }
    for name, program in stand_ins.items():
        (impls / name).write_text(f'#!/bin/sh\nexec {program} "$@"\n')
        (impls / name).chmod(0o755)
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(tmp_path),
        "TMPDIR": str(tmp_path),
        "QUIVER_IMPL_PATH": str(impls),
        # Only our broker is here: the tests of the others are in tests/interop.
        "RABBITMQ_HOME": str(tmp_path / "none"),
        "ARTEMIS_HOME": str(tmp_path / "none"),
    }
    with namespace(tmp_path, environment) as found:
        yield found


def finish(place: Namespace, command: str) -> Finished:
    with place.start(shortened(command)) as running:
        return running.wait(RUN_SECONDS)


def serve(stack: ExitStack, place: Namespace, command: str) -> None:
    scheme = next((scheme for scheme in PORTS if f"{scheme}:" in command), "amqp")
    stack.enter_context(place.serving(command, PORTS[scheme]))


@pytest.mark.slow
@pytest.mark.parametrize("command", present(EXAMPLES))
def test_example(command: str, place: Namespace) -> None:
    example = EXAMPLES[command]
    with ExitStack() as stack:
        for server in example.beside:
            serve(stack, place, server)
        end = finish(place, command)
    assert end.code in example.codes, end
    for pattern in example.says:
        assert re.search(pattern, end.stdout, re.MULTILINE), (pattern, end)


@pytest.mark.slow
@pytest.mark.parametrize("command", present(SERVERS))
def test_server(command: str, place: Namespace) -> None:
    """It serves the URL's queue on the default port, and ends in order."""
    url = next(word for word in command.split() if "//" in word)
    with ExitStack() as stack:
        serve(stack, place, command)
        end = finish(place, f"quiver {url}")
    assert end.code == 0, end


@pytest.mark.slow
def test_analyses(place: Namespace) -> None:
    for run in ("base", "next"):
        assert finish(place, f"quiver --output {run}").code == 0
    names = {
        "BASE": "base", "old-runs": "base", "old": "base",
        "DIR": "next", "run1": "next", "new-runs": "next", "new": "next",
    }  # fmt: skip
    for name, run in names.items():
        (place.directory / name).symlink_to(run)
    for command in present(ANALYSES):
        end = finish(place, command)
        assert end.code in ANALYSES[command].codes, end
        for pattern in ANALYSES[command].says:
            assert re.search(pattern, end.stdout, re.MULTILINE), (pattern, end)
        if "--html" in command:
            assert "<svg" in (place.directory / command.split()[-1]).read_text()
        if "p99>5ms" in command:
            file = place.directory / command.split()[1] / "receiver-summary.json"
            p99 = parsed(file.read_text())["latency"]["p99_us"] / 1000
            assert end.code == (99 if p99 > 5 else 0), (p99, end)


@pytest.mark.slow
def test_sweeps(place: Namespace) -> None:
    with ExitStack() as stack:
        serve(stack, place, BROKER)
        end = finish(place, SWEEP)
    assert end.code == 0, end
    for pattern in SWEPT.says:
        assert re.search(pattern, end.stdout, re.MULTILINE), (pattern, end)
    assert finish(place, RESUME).code == 0
    (place.directory / "sweep2").symlink_to("sweep1")
    end = finish(place, DRAWN)
    assert end.code == 0, end
    assert "sweep2, 99 %" in (place.directory / "pictures" / "sweep.svg").read_text()


@pytest.mark.slow
def test_conformance_of_two(place: Namespace) -> None:
    with ExitStack() as stack:
        serve(stack, place, BROKER)
        ends = [finish(place, command) for command in MATRIX]
    assert {end.code for end in ends[:2]} <= {0, 1}, ends
    assert ends[2].code == 0, ends[2]
    assert "queues by --address" in ends[1].stdout
    assert ends[2].stdout.count(" kept, ") == 2
    for name in ("matrix.html", "matrix.md"):
        assert "2.6.6/1" in (place.directory / name).read_text()


@pytest.mark.slow
def test_rate_steps(place: Namespace) -> None:
    with ExitStack() as stack:
        serve(stack, place, BROKER)
        end = finish(place, STEPPED)
    assert end.code == 0, end
    for pattern in (r"Rate steps \.+ 10k:30s,", r"Target rate \.+ 10,000 messages/s", *DELIVERED):
        assert re.search(pattern, end.stdout, re.MULTILINE), (pattern, end)
    end = finish(place, WINDOWS)
    assert end.code == 0, end
    assert "WINDOWS OF 5 s" in end.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "file"), [(WORKLOADS, PRINTED), (AGAIN, RESULT)])
def test_workloads(lines: tuple[str, ...], file: str, place: Namespace) -> None:
    """The first prints the input of the others."""
    first, *others = lines
    words = shlex.split(first)
    assert words[-2:] == [">", file]
    with ExitStack() as stack:
        serve(stack, place, BROKER)
        printed = finish(place, shlex.join(words[:-2]))
        assert printed.code == 0, printed
        (place.directory / file).write_text(printed.stdout)
        for command in others:
            end = finish(place, command)
            assert end.code == 0, end
            for pattern in (r"URL \.+ (amqp:)?//localhost/q0", *DELIVERED):
                assert re.search(pattern, end.stdout, re.MULTILINE), (pattern, end)


@pytest.mark.slow
def test_append_and_tail(place: Namespace) -> None:
    value = "{ item: nails, count: 100 }"
    with place.serving(QUEUES, PORTS["csp"]):
        assert finish(place, f"quiver-queue append csp://localhost/orders '{value}'").code == 0
        with place.start("quiver-queue tail --from 0 csp://localhost/orders") as tail:
            wait_until(lambda: value in tail.stdout_so_far(), "the entry is printed")
            tail.send_signal(signal.SIGINT)
            assert tail.wait().code == 130


@pytest.mark.slow
def test_program_of_the_queues(place: Namespace) -> None:
    """It prints the entry that it appends."""
    [lines] = [block for block in blocks("docs/queues.md") if block[0].startswith("from ")]
    file = place.directory / "program.py"
    file.write_text("\n".join(lines) + "\n")
    with place.serving(QUEUES, PORTS["csp"]):
        end = finish(place, f"python {file}")
    assert end.code == 0, end
    assert "nails" in end.stdout


@pytest.mark.parametrize("document", DOCUMENTS)
def test_make_targets_exist(document: str) -> None:
    targets = (REPOSITORY / "Makefile").read_text()
    for command in commands(document):
        words = shlex.split(command, comments=True)
        if words[0] == "make":
            goals = [word for word in words[1:] if "=" not in word and word[0] != "["]
            for goal in goals:
                assert re.search(rf"^{goal}:", targets, re.MULTILINE), command
