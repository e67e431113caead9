"""`quiver` through our own server: what is of the run, what is left, what still comes."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.remote import serving
from support.server import running_server
from wrapper_fake import fake_implementation  # noqa: F401 (a fixture)

from quiver_fast.records.parser import read_transfers

# A receiver with so little credit is slower than any sender: the queue grows.
SLOW = ("--credit", "1", "--rate", "60k", "-d", "1s")


@pytest.fixture(name="server", scope="module")
def our_server(tmp_path_factory):
    with running_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture(name="url")
def fresh_queue(server, request):
    return f"amqp://127.0.0.1:{server.port}/{re.sub('[^a-z0-9]', '-', request.node.name)}"


def command(tool, *words):
    return [sys.executable, "-m", f"quiver_fast.cli.{tool}.command", *words]


def run(tool, *words, timeout=90):
    return subprocess.run(
        command(tool, *words), capture_output=True, text=True, timeout=timeout, check=False
    )


def leave(url, *words):
    """Leave messages in a queue, as a run that nobody receives from does."""
    done = run("arrow", "send", url, "--quiet", *words)
    assert (done.returncode, done.stderr) == (0, "")


def measure(*words, code=0):
    """Run `quiver --json`, and return its document and what it said."""
    done = run("pair", "--json", *words)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout), done.stderr


def reckoning(document):
    keys = ("sent", "received", "older", "unreceived", "lost")
    return tuple(document["delivery"][key] for key in keys)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
@pytest.mark.parametrize("words", [[], ["--record-format", "v2"], ["--time-unit", "ms"]])
def test_what_was_left_is_in_no_figure(url, tmp_path, unit, words):
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


def test_runs_in_a_row_measure_the_same(url):
    for _ in range(3):
        document, errors = measure(url, "-d", "1s", "--rate", "5k")
        sent = document["delivery"]["sent"]
        assert reckoning(document) == (sent, sent, 0, 0, 0)
        assert "were left by an earlier run" not in errors
        # What an earlier run left would be a second old.
        assert document["receiver"]["latency"]["max_us"] < 1e6


@pytest.mark.parametrize("words", [[], ["--record-format", "v2"]])
def test_the_queue_is_drained_after_the_duration(url, words):
    document, errors = measure(url, *SLOW, *words)
    sent = document["delivery"]["sent"]
    assert reckoning(document) == (sent, sent, 0, 0, 0)
    drain, results = document["drain"], document["results"]
    assert drain["messages"] > 0.1 * sent
    assert drain["seconds"] > 0.1
    assert results["message_count"] == sent
    assert 1 <= results["duration"] < 1.5
    # What was drained is in no rate.
    expected = (sent - drain["messages"]) / results["duration"]
    assert results["end_to_end_rate"] == pytest.approx(expected, rel=0.01)
    assert re.search(r"^Drained \.+ [\d,]+ messages in \d+\.\d s$", errors, re.MULTILINE)
    assert re.search(
        r"quiver: warning: Sender rate [\d,]+/s exceeds receiver rate [\d,]+/s: "
        r"the queue grew by [\d,]+ messages/s\n", errors,
    )  # fmt: skip


def test_without_a_drain_the_rest_is_unreceived_and_older_for_the_next(url):
    document, errors = measure(url, *SLOW, "--drain-timeout", "0")
    sent, received, older, unreceived, lost = reckoning(document)
    assert (older, lost) == (0, 0)
    assert unreceived == sent - received > 0.1 * sent
    assert document["complete"] is True
    assert f"warning: {unreceived:,} of {sent:,} messages were not received\n" in errors
    following, _ = measure(url, "-c", "100")
    assert reckoning(following) == (100, 100, unreceived, 0, 0)


def test_the_drain_ends_in_time(url):
    document, errors = measure(url, *SLOW, "--drain-timeout", "1s", "--credit", "1", "-d", "2s")
    assert document["complete"] is True
    assert reckoning(document)[3] > 0
    assert document["drain"]["seconds"] < 15
    assert "messages were not received" in errors


def test_a_signal_ends_the_drain(url, tmp_path):
    out = tmp_path / "out"
    words = command("pair", url, *SLOW, "-d", "5s", "--json", "--output", str(out))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    rows, deadline = out / "sender-snapshots.csv", time.monotonic() + 60
    # The sender's last row has no period of two seconds before it.
    while not (rows.exists() and sum(1 for _ in rows.open()) >= 3):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130, errors
    document = json.loads(output)
    assert (document["complete"], document["reason"]) == (False, "interrupted by SIGINT")
    assert document["receiver"]["results"]["message_count"] > 0


def test_a_run_of_others_messages_only_has_failed(fake, url):
    leave(url, "-c", "50")
    # This sender records what it never sends.
    words = (url, "--sender", "fake", "--receiver", "pyfast", "-c", "10", "--timeout", "2")
    done = subprocess.run(
        command("pair", *words, "--json"), env=fake.environment, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert document["complete"] is False
    assert reckoning(document)[:3] == (10, 0, 50)
    reason = "receiver (pyfast) failed: no transfers of this run, but 50 others"
    assert document["reason"] == reason
    assert document["receiver"]["complete"] is False
    assert done.stderr.splitlines()[-1] == f"quiver: error: {reason}"


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
    summary = json.loads((out / "sender-summary.json").read_text())
    assert summary["settlement"]["sampled"]["count"] >= 50


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


def test_runs_of_a_second_on_a_busy_machine():
    """The set-up of connections is not taken from the duration."""
    words = command("pair", "-d", "1s", "--json", "--rate", "1k")
    pairs = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2 * (os.cpu_count() or 1) + 2)
    ]
    for pair in pairs:
        output, errors = pair.communicate(timeout=90)
        assert pair.returncode == 0, errors
        document = json.loads(output)
        assert reckoning(document)[2:] == (0, 0, 0)
        assert 900 <= document["delivery"]["sent"] <= 1001


def test_a_foreign_receiver_is_started_without_waiting(fake):
    done = fake.run("pair", "q", "-c", "10")
    assert done.returncode == 0
    [(arguments, _)] = fake.calls("receiver")
    assert not any(word.startswith(("control-fd", "run-start")) for word in arguments)
