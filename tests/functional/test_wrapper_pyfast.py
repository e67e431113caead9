"""`quiver` and `quiver-arrow` with our own arrow: every option, real messages over TCP."""

import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
import trustme
from support.documents import parsed
from support.processes import free_port

from quiver_fast.cli.arrow.terminal import run_rows
from quiver_fast.records.parser import read_transfers

KEYS = ("lost", "foreign", "duplicate", "reordered", "negative_latency")


def command(tool, *words):
    return [sys.executable, "-m", f"quiver_fast.cli.{tool}.command", *words]


def run(tool, *words, timeout=60, **environment):
    return subprocess.run(
        command(tool, *words),
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def measure(*words):
    """Run `quiver --json`, demand success and a perfect delivery; return the document."""
    done = run("pair", "--json", *words)
    assert done.returncode == 0, done.stderr
    document = parsed(done.stdout)
    assert document["complete"] is True
    assert [document["delivery"][key] for key in KEYS] == [0] * len(KEYS)
    return document


def start(tool, *words):
    return subprocess.Popen(
        command(tool, *words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def wait_for_listener(process, port):
    deadline = time.monotonic() + 20
    while True:
        tree = psutil.Process(process.pid).children(recursive=True)
        for child in tree:
            for connection in child.net_connections(kind="tcp"):
                if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port:
                    return
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_thousand_messages():
    document = measure("--count", "1000")
    assert document["results"]["message_count"] == 1000
    assert document["sender"]["arrow"]["accepted"] == 1000
    assert document["receiver"]["arrow"]["received"] == 1000
    assert document["sender"]["config"]["port"] == document["receiver"]["config"]["port"]


@pytest.mark.parametrize(
    "words",
    [
        ["--body-size", "0"],
        ["--body-size", "100k", "-c", "200"],
        ["--credit", "1"],
        ["--credit", "10k"],
        ["--durable"],
        ["--set-message-id"],
        ["--presettled"],
        ["--priority", "7", "--ttl", "60k", "--subject", "s", "--properties", "a=1,b=x"],
        ["--max-frame-size", "600"],
        ["--sasl-mechanisms", "ANONYMOUS"],
        ["--time-unit", "us"],
        ["--time-unit", "ns"],
        ["--rate", "2k"],
    ],
    ids=" ".join,
)
def test_options(words):
    document = measure("-c", "1000", *words)
    expected = 200 if "-c" in words else 1000
    assert document["results"]["message_count"] == expected


@pytest.mark.parametrize("revision", ["v1", "v2", "v3"])
def test_record_formats(revision, tmp_path):
    out = str(tmp_path / "out")
    document = measure("-c", "1000", "--record-format", revision, "--output", out)
    assert document["receiver"]["records"]["format"] == revision
    by_ids = revision != "v3"
    assert document["delivery"]["method"] == ("ids" if by_ids else "per-microsecond lower bound")
    for role in ("sender", "receiver"):
        transfers = read_transfers(f"{out}/{role}-transfers.csv.zst", record_format=revision)
        assert len(transfers) == 1000
        assert (transfers.ids is not None) is by_ids


def test_settlement():
    settlement = measure("-c", "1000", "--settlement")["sender"]["settlement"]
    assert settlement["all"]["count"] == 1000
    assert settlement["sampled"]["count"] == 4
    assert (settlement["unsettled"], settlement["unmatched"]) == (0, 0)


def paced():
    """Run two seconds at a rate; return its schedule and how many messages it has."""
    document = measure("-d", "2", "--rate", "1000", "--time-unit", "us")
    return document["sender"]["schedule"], document["results"]["message_count"]


def test_rate_reports_its_schedule():
    schedule, count = paced()
    assert schedule["rate"] == 1000
    # Never before its time: the clock of the records begins with that of the schedule.
    assert 0 < schedule["late_us"]["p50"] <= schedule["late_us"]["max"]
    assert 0 < count <= 2010


@pytest.mark.measured
def test_rate_is_achieved(figure):
    schedule, count = paced()
    figure("achieved rate", schedule["achieved"], at_least=990, at_most=1010, unit="/s")
    figure("messages of two seconds", count, at_least=1900, at_most=2010)


@pytest.mark.measured
def test_rate_steps_report_their_schedule(tmp_path):
    document = measure("--rate-steps", "500:1s,500..1500:1s", "--output", str(tmp_path / "out"))
    sender = document["sender"]
    assert (sender["config"]["duration"], sender["config"]["rate_steps"]) == (
        2,
        "500:1s,500..1500:1s",
    )
    assert sender["schedule"]["rate"] == pytest.approx(750, rel=0.02)
    assert sender["schedule"]["achieved"] == pytest.approx(750, rel=0.02)
    assert 1400 <= document["results"]["message_count"] <= 1510
    # The files say the same later on, and to who reads them without the run.
    found = run("analyze", str(tmp_path / "out"), "--json")
    again = parsed(found.stdout)["sender"]
    assert again["schedule"] == sender["schedule"]


def test_a_warm_up_is_in_the_records_and_in_no_figure(tmp_path):
    out = tmp_path / "out"
    # By count: the schedule, and no clock of ours, says when they are sent.
    document = measure("--warmup", "1s", "--rate", "500", "-c", "1500", "--output", str(out))
    delivery = document["delivery"]
    assert (delivery["sent"], delivery["received"]) == (1500, 1500)
    for role in ("sender", "receiver"):
        warmup, results = document[role]["warmup"], document[role]["results"]
        assert warmup["seconds"] == 1
        assert warmup["message_count"] + results["message_count"] == 1500
    rows = dict(run_rows(document))
    early, kept = warmup["message_count"], results["message_count"]
    assert (
        rows["Warm-up"] == f"{early:,} messages left out: figures are of {kept:,} received after it"
    )
    records = read_transfers(out / "sender-transfers.csv.zst")
    since = document["sender"]["warmup"]["measured_since"]
    early = sum(int(time) < since * 10**6 for time in records.sent)
    assert 500 <= early == document["sender"]["warmup"]["message_count"] <= 1000
    done = run("analyze", "--json", str(out))
    assert done.returncode == 0, done.stderr
    found = parsed(done.stdout)
    for role in ("sender", "receiver"):
        for section in ("results", "warmup", "series"):
            assert found[role][section] == document[role][section]


def test_a_run_that_ends_within_its_warm_up_fails():
    done = run("pair", "--warmup", "1m", "--duration", "2m", "-c", "100")
    assert done.returncode == 1
    assert "no transfers after the warm-up, and 100 within it" in done.stderr


def test_a_warm_up_leaves_time_to_measure():
    done = run("pair", "--warmup", "5s", "--duration", "6s")
    assert done.returncode == 2
    assert "with --warmup 5 it takes 7 s at least" in done.stderr


def test_duration():
    started = time.monotonic()
    document = measure("-d", "2")
    assert time.monotonic() - started >= 2
    counts = document["receiver"]["series"]["count"]
    assert len(document["receiver"]["series"]["second"]) == len(counts) > 0
    assert sum(counts) == document["results"]["message_count"] > 0


@pytest.mark.measured
def test_duration_is_kept(figure):
    document = measure("-d", "2")
    duration = document["results"]["duration"]
    figure("duration of two seconds", duration, at_least=1.5, at_most=3, unit="s")
    seconds = len(document["receiver"]["series"]["second"])
    figure("seconds with messages", seconds, at_least=2, at_most=4)


def table_of(seconds, out):
    """Run for so many seconds; return the rows of its table."""
    done = run("pair", "-d", seconds, "--output", str(out))
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.split("\n\n")[0].splitlines()[3:]]
    # A busy machine makes rows late.
    assert len(rows) >= 2
    return rows


def test_the_table_has_real_figures(tmp_path):
    rows = table_of("3", tmp_path / "out")
    # Two rows may be close to each other, and no CPU time may be between them.
    assert any(row[3] not in ("-", "0") for row in rows)
    summary = parsed((tmp_path / "out/receiver-summary.json").read_text())
    assert int(rows[-1][6].replace(",", "")) == summary["results"]["message_count"]


@pytest.mark.measured
def test_the_table_has_real_shares_of_the_cpu(tmp_path, figure):
    rows = table_of("5", tmp_path / "out")
    figure("receiver's CPU", min(float(row[8]) for row in rows), at_least=5, unit="%")
    # The sender may have ended before the receiver's last row.
    shares = [float(row[3]) for row in rows if row[3] != "-"]
    figure("sender's CPU", min(shares), at_least=5, unit="%")


def test_info():
    done = run("arrow", "--info")
    assert done.returncode == 0
    assert done.stdout.startswith("quiver-arrow-pyfast ")
    assert run("arrow", "impl=pyfast", "--info").stdout == done.stdout


def test_refused_connections_say_so():
    done = run("pair", f"amqp://localhost:{free_port()}/q", "-c", "10", "--quiet")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("quiver: error: ")
    assert re.search(
        # Both ends are refused; either may be the first to say so.
        r"(sender|receiver) \(pyfast\) failed: cannot connect to .*Connection refused",
        done.stderr.splitlines()[-1],
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_drain_both_ends(tmp_path, signum, code):
    out = tmp_path / "out"
    process = start("pair", "--json", "--rate", "1000", "--output", str(out))
    file, deadline = out / "receiver-transfers.csv", time.monotonic() + 20
    while not (file.exists() and file.stat().st_size > 0):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signum)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in errors
    document = parsed(output)
    assert document["complete"] is False
    assert document["reason"] == f"interrupted by {signal.Signals(signum).name}"
    for role in ("sender", "receiver"):
        summary = parsed((out / f"{role}-summary.json").read_text())
        assert summary["complete"] is False
        assert summary["results"]["message_count"] > 0


@pytest.fixture
def certificates(tmp_path):
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    return tmp_path


def exchange(url, receiver_words, sender_words, tmp_path):
    """Run a listening receiver and a sender by hand; return both results."""
    port = int(url.rsplit(":", 1)[1].split("/")[0])
    out = str(tmp_path / "out")
    receiver = start("arrow", "receive", url, "--server", "--passive", "-c", "100", "--json",
                     "--timeout", "60", "--output", out, *receiver_words)  # fmt: skip
    try:
        wait_for_listener(receiver, port)
        sender = run("arrow", "send", url, "-c", "100", "--json", "--output", out, *sender_words)
        output, errors = receiver.communicate(timeout=60)
    finally:
        receiver.kill()
    return sender, subprocess.CompletedProcess([], receiver.returncode, output, errors)


def test_tls_is_verified_by_default(certificates, tmp_path):
    url = f"amqps://localhost:{free_port()}/q"
    server = ["--cert", f"{certificates}/cert.pem", "--key", f"{certificates}/key.pem"]
    sender, receiver = exchange(url, server, [], tmp_path)
    assert (sender.returncode, receiver.returncode) == (1, 1)
    assert "certificate" in sender.stderr.splitlines()[-1]


@pytest.mark.parametrize("insecure", [False, True])
def test_tls(certificates, tmp_path, insecure):
    url = f"amqps://localhost:{free_port()}/q"
    server = ["--cert", f"{certificates}/cert.pem", "--key", f"{certificates}/key.pem"]
    client = ["--tls-insecure"] if insecure else ["--trust-store", f"{certificates}/ca.pem"]
    sender, receiver = exchange(url, server, client, tmp_path)
    assert (sender.returncode, receiver.returncode) == (0, 0), sender.stderr + receiver.stderr
    assert parsed(sender.stdout)["config"]["tls_verify"] is not insecure
    assert parsed(receiver.stdout)["results"]["message_count"] == 100


def test_passwords_reach_the_arrow_unseen(tmp_path):
    port = free_port()
    url = f"amqp://user:hunter2@localhost:{port}/q"
    receiver = start("arrow", "receive", url, "--server", "--passive", "-c", "100",
                     "--sasl-mechanisms", "PLAIN", "--output", str(tmp_path / "out"))  # fmt: skip
    wait_for_listener(receiver, port)
    for child in psutil.Process(receiver.pid).children(recursive=True):
        assert "hunter2" not in " ".join(child.cmdline())
        assert "hunter2" not in str(child.environ())
    receiver.send_signal(signal.SIGTERM)
    output, errors = receiver.communicate(timeout=20)
    assert "hunter2" not in output + errors
    for file in (tmp_path / "out").iterdir():
        assert b"hunter2" not in file.read_bytes()


def test_password_authenticates(tmp_path):
    (tmp_path / "password").write_text("hunter2\n")
    url = f"amqp://localhost:{free_port()}/q"
    words = ["--username", "user", "--sasl-mechanisms", "PLAIN"]
    words += ["--password-file", str(tmp_path / "password")]
    sender, receiver = exchange(url, words, words, tmp_path)
    assert (sender.returncode, receiver.returncode) == (0, 0), sender.stderr + receiver.stderr


def test_a_wrong_password_is_refused(tmp_path):
    for name in ("right", "wrong"):
        (tmp_path / name).write_text(f"{name}\n")
    url = f"amqp://localhost:{free_port()}/q"
    words = ["--username", "user", "--sasl-mechanisms", "PLAIN", "--password-file"]
    sender, _ = exchange(
        url, [*words, str(tmp_path / "right")], [*words, str(tmp_path / "wrong")], tmp_path
    )
    assert sender.returncode == 1
    assert "quiver-arrow: error: sender (pyfast) failed: " in sender.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P came with Python 3.11")
def test_the_current_directory_cannot_shadow_the_arrow(tmp_path):
    (tmp_path / "numpy.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "quiver_fast").mkdir()
    paths = os.pathsep.join(os.path.abspath(p) for p in sys.path if p)
    done = subprocess.run(
        [sys.executable, "-P", "-c",
         "from quiver_fast.cli.pair.command import main;"
         "raise SystemExit(main(['-c', '10', '--quiet']))"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "large", [(300, "60"), pytest.param((6000, "1"), marks=pytest.mark.slow)], ids=str
)
def test_streaming(tmp_path, large):
    """Bytes are shown and saved beside upstream's figures; a slow body is no silence."""
    output = tmp_path / "run"
    megabytes, timeout = large
    body_size = megabytes * 1_000_000
    done = run("pair", "--streaming", "--body-size", f"{megabytes}m", "--count", "2",
               "--timeout", timeout, "--output", str(output), timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].endswith("--- Bodies [MB/s] ----")
    assert re.search(r"^Throughput \.+ [\d,]+\.\d MB/s$", done.stdout, re.MULTILINE)
    for role in ("sender", "receiver"):
        summary = parsed((output / f"{role}-summary.json").read_text())
        assert summary["results"]["message_count"] == 2
        assert summary["records"]["malformed"] == 0
        assert summary["streaming"]["body_bytes"] == 2 * body_size
        assert summary["streaming"]["first_byte_latency"]["count"] == 2
        assert summary["arrow"]["bytes"] == 2 * body_size
        assert summary["config"]["streaming"] is True
        snapshots = (output / f"{role}-snapshots.csv").read_text().splitlines()
        assert sum(int(line.split(",")[8]) for line in snapshots) == 2 * body_size


def test_without_streaming_nothing_is_added():
    document = measure("--count", "10")
    for role in ("sender", "receiver"):
        assert "streaming" not in document[role]
        assert "bytes" not in document[role]["arrow"]
