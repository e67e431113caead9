"""`quiver` through our own server: messages of the run, leftovers, and late messages."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.documents import parsed
from support.network import Proxy
from support.processes import free_port
from support.remote import serving
from support.server import running_server
from wrapper_fake import fake_implementation  # noqa: F401 (a fixture)

from quiver_fast import __version__
from quiver_fast.records.parser import read_transfers

# `quiver` whose receivers, not senders, connect to the port that is its first argument.
DETOUR = """
import subprocess, sys
port, start = sys.argv.pop(1), subprocess.Popen.__init__

def detour(self, words, *others, **keys):
    if "operation=receive" in words:
        words = [f"port={port}" if word.startswith("port=") else word for word in words]
    start(self, words, *others, **keys)

subprocess.Popen.__init__ = detour
from quiver_fast.cli.pair.command import main
sys.exit(main())
"""


@pytest.fixture(name="server", scope="module")
def our_server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(name="url")
def fresh_queue(server, request):
    return f"amqp://127.0.0.1:{server.port}/{re.sub('[^a-z0-9]', '-', request.node.name)}"


@pytest.fixture(name="slow")
def slow_receivers(server):
    """`quiver` that receives at most a thousand messages a second: the queue grows."""
    with Proxy(server.port, pause=0.1, every=25_000) as proxy:
        yield [sys.executable, "-c", DETOUR, str(proxy.port), "--credit", "1", "-d", "1s"]


def command(tool, *words):
    return [sys.executable, "-m", f"quiver_fast.cli.{tool}.command", *words]


def run(tool, *words):
    return ended(command(tool, *words))


def ended(words):
    return subprocess.run(words, capture_output=True, text=True, timeout=90, check=False)


def leave(url, *words):
    """Leave messages in a queue, as a run that nobody receives from does."""
    done = run("arrow", "send", url, "--quiet", *words)
    assert (done.returncode, done.stderr) == (0, "")


def measure(*words, program=None):
    """Run `quiver --json`, and return its document and what it said."""
    done = ended([*(program or command("pair")), "--json", *words])
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return parsed(done.stdout), done.stderr


def reckoning(document):
    keys = ("sent", "received", "older", "unreceived", "lost")
    return tuple(document["delivery"][key] for key in keys)


@pytest.mark.parametrize(
    ("words", "unit"),
    [
        ([], "ms"),
        ([], "us"),
        ([], "ns"),
        (["--record-format", "v2"], "us"),
        (["--time-unit", "ms"], "ns"),
        *(
            pytest.param(words, unit, marks=pytest.mark.slow)
            for words, units in (
                (["--record-format", "v2"], "ms ns"),
                (["--time-unit", "ms"], "ms us"),
            )
            for unit in units.split()
        ),
    ],
)
def test_what_was_left_is_in_no_figure(url, tmp_path, words, unit):
    leave(url, "-c", "5k", "--time-unit", unit)
    document, errors = measure(url, "-c", "2k", *words, "--output", str(tmp_path / "out"))
    assert reckoning(document) == (2000, 2000, 5000, 0, 0)
    assert document["complete"] is True
    assert document["results"]["message_count"] == 2000
    assert "5,000 received messages were left by an earlier run" in errors
    assert re.search(r"^Older messages \.+ 5,000 \(left by an earlier run\)$", errors, re.MULTILINE)
    # The same from the records: those of the last 2,000 receipts, which are ours.
    receipts = read_transfers(tmp_path / "out/receiver-transfers.csv.zst")
    assert len(receipts) == 7000
    latencies = (receipts.received - receipts.sent)[-2000:]
    ticks = {"ms": 1000, "us": 1}[receipts.time_unit]
    assert document["receiver"]["latency"]["p50_us"] == np.percentile(latencies, 50) * ticks
    rows = (tmp_path / "out/receiver-snapshots.csv").read_text().splitlines()
    assert rows[-1].split(",")[2] == "2000"


def run_in_a_row(url, runs):
    """Make runs on one queue; return the longest latency of each in microseconds."""
    found = []
    for _ in range(runs):
        document, errors = measure(url, "-d", "1s", "--rate", "5k")
        sent = document["delivery"]["sent"]
        assert reckoning(document) == (sent, sent, 0, 0, 0)
        assert "were left by an earlier run" not in errors
        found.append(document["receiver"]["latency"]["max_us"])
    return found


def test_runs_in_a_row_leave_nothing_to_each_other(url):
    run_in_a_row(url, 2)


@pytest.mark.measured
def test_runs_in_a_row_measure_the_same(url, figure):
    """Messages of an earlier run would be a second old."""
    figure("longest latency of three runs", max(run_in_a_row(url, 3)), at_most=1e6, unit="us")


@pytest.mark.parametrize("words", [[], ["--record-format", "v2"]])
def test_the_queue_is_drained_after_the_duration(url, slow, words):
    document, errors = measure(url, "--rate", "2k", *words, program=slow)
    sent = document["delivery"]["sent"]
    assert reckoning(document) == (sent, sent, 0, 0, 0)
    drain, results = document["drain"], document["results"]
    assert drain["messages"] > 0.1 * sent
    assert drain["seconds"] > 0.1
    assert results["message_count"] == sent
    assert 1 <= results["duration"] < 1 + drain["seconds"]
    # Drained messages are in no rate.
    expected = (sent - drain["messages"]) / results["duration"]
    assert results["end_to_end_rate"] == pytest.approx(expected, rel=0.01)
    assert re.search(r"^Drained \.+ [\d,]+ messages in [\d.,]+ m?s$", errors, re.MULTILINE)
    assert re.search(
        r"quiver: warning: within the \d+\.\d s of sending, [\d,]+ messages/s were sent and "
        r"[\d,]+/s received: the queue grew by [\d,]+ messages/s\n", errors,
    )  # fmt: skip


def test_without_a_drain_the_rest_is_unreceived_and_older_for_the_next(url, slow):
    document, errors = measure(url, "--rate", "20k", "--drain-timeout", "0", program=slow)
    sent, received, older, unreceived, lost = reckoning(document)
    assert (older, lost) == (0, None)
    assert unreceived == sent - received > 0.1 * sent
    assert document["complete"] is True
    unknown = "it is not known whether they are lost"
    assert f"{unreceived:,} of {sent:,} messages were not received; {unknown}\n" in errors
    following, _ = measure(url, "-c", "100")
    assert reckoning(following) == (100, 100, unreceived, 0, 0)


def test_the_drain_ends_in_time(url, slow):
    """Receiving the messages of a second takes far longer than that second."""
    document, errors = measure(url, "--rate", "60k", "--drain-timeout", "1s", program=slow)
    assert document["complete"] is True
    assert reckoning(document)[3] > 0
    assert 1 <= document["drain"]["seconds"] < 30
    assert "messages were not received" in errors


def test_a_signal_ends_the_drain(url, slow, tmp_path):
    out = tmp_path / "out"
    words = [*slow, url, "--rate", "60k", "--json", "--output", str(out)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    rows, deadline = out / "sender-snapshots.csv", time.monotonic() + 60
    # A sender of a second has its only row at its end.
    while not (rows.exists() and sum(1 for _ in rows.open()) >= 1):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    document = parsed(output)
    assert (document["complete"], document["reason"]) == (False, "interrupted by SIGINT")
    assert document["receiver"]["results"]["message_count"] > 0


def test_a_run_of_others_messages_only_has_failed(fake, url):
    leave(url, "-c", "50")
    # This sender records what it never sends.
    words = (url, "--sender", "fake", "--receiver", "pyfast", "-c", "10", "--timeout", "4")
    done = subprocess.run(
        command("pair", *words, "--json"), env=fake.environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    document = parsed(done.stdout)
    assert document["complete"] is False
    assert reckoning(document)[:3] == (10, 0, 50)
    reason = "receiver (pyfast) failed: no transfers of this run, but 50 others"
    assert document["reason"] == reason
    assert document["receiver"]["complete"] is False
    assert done.stderr.splitlines()[-1] == f"quiver: error: {reason}"


def test_the_summary_says_where_it_connected(url, server, tmp_path):
    peer = f"quiver-fast {__version__} at 127.0.0.1:{server.port}"
    for words in (("pair",), ("pair", "--senders", "2"), ("arrow", "send", "--summary")):
        done = run(*words, "-c", "10", "--output", str(tmp_path / words[-1]), url)
        assert peers_in(done) == [peer]
    with serving(tmp_path / "store") as port:
        assert peers_in(run("pair", f"csp://localhost:{port}/q0", "-c", "10")) == [
            f"127.0.0.1:{port}"
        ]
    assert peers_in(run("pair", "-c", "10")) == ["the other end"]


def peers_in(done):
    assert done.returncode == 0, done.stderr
    return re.findall(r"^Peer \.+ (.*)$", done.stdout, re.MULTILINE)


def test_csp_pairs_take_only_what_is_new(tmp_path):
    with serving(tmp_path / "store") as port:
        for _ in range(2):
            document, _ = measure(f"csp://127.0.0.1:{port}/q0", "-c", "3k")
            assert reckoning(document) == (3000, 3000, 0, 0, 0)
            assert document["receiver"]["config"]["tail_from"] == "end"
        drained, _ = measure(f"csp://127.0.0.1:{port}/q0", "-d", "1s")
        sent = drained["delivery"]["sent"]
        assert reckoning(drained) == (sent, sent, 0, 0, 0)


def test_settlement_is_shown_while_the_sender_runs(url, tmp_path):
    out = tmp_path / "out"
    done = run("pair", url, "--settlement", "--rate", "5k", "-d", "3s", "--output", str(out))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "  Settle [us]  " in lines[1]
    shown = lines[3].split()[5].replace(",", "")
    assert 0 < float(shown) < 1e6
    assert re.search(r"^Sampled \.+ \d+ messages$", done.stdout, re.MULTILINE)
    assert "\nSETTLEMENT\n\nLatency 50% ..." in done.stdout
    summary = parsed((out / "sender-summary.json").read_text())
    sent = summary["results"]["message_count"]
    assert summary["settlement"]["sampled"]["count"] == (sent + 255) // 256


def test_settlement_of_one_arrow(url):
    done = run("arrow", "send", url, "--settlement", "-c", "1k", "--summary")
    assert done.returncode == 0, done.stderr
    assert "\nSETTLEMENT\n\nLatency 50% ..." in done.stdout


def test_a_sender_that_records_no_settlement_is_named(fake):
    done = fake.run("pair", "--settlement", "-c", "10")
    assert done.returncode == 0
    assert done.stderr == (
        "quiver: warning: the sender recorded no settlement: "
        "its implementation does not do --settlement\n"
    )
    for role in ("sender", "receiver"):
        [(arguments, _)] = fake.calls(role)
        assert arguments[-1] == "settlement=1"


def test_a_sender_without_messages_could_record_no_settlement():
    done = run("pair", f"//localhost:{free_port()}/q0", "--settlement", "-c", "10")
    assert done.returncode == 1
    assert "its implementation" not in done.stderr


def run_beside_each_other(count):
    """Make runs of a second at the same time; return how much each sent."""
    words = command("pair", "-d", "1s", "--json", "--rate", "1k")
    pairs = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    found = []
    for pair in pairs:
        output, errors = pair.communicate(timeout=90)
        assert pair.returncode == 0, errors
        document = parsed(output)
        assert reckoning(document)[2:] == (0, 0, 0)
        found.append(document["delivery"]["sent"])
    return found


def test_runs_of_a_second_beside_each_other():
    assert all(0 < sent <= 1001 for sent in run_beside_each_other(3))


@pytest.mark.measured
def test_runs_of_a_second_on_a_busy_machine(figure):
    """The set-up of connections is not taken from the duration."""
    sent = run_beside_each_other(2 * (os.cpu_count() or 1) + 2)
    figure("fewest messages of a run", min(sent), at_least=900, at_most=1001)


def test_a_foreign_receiver_is_started_without_waiting(fake):
    done = fake.run("pair", "q", "-c", "10")
    assert done.returncode == 0
    [(arguments, _)] = fake.calls("receiver")
    assert not any(word.startswith(("control-fd", "run-start")) for word in arguments)
