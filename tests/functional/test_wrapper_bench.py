"""`quiver-bench` with foreign implementations that behave and misbehave, and with our own."""

import json
import signal
from pathlib import Path

import pytest
from support.documents import parsed
from support.processes import wait_until
from wrapper_fake import fake_implementation, load  # noqa: F401 (a fixture)

SERVED = ("--include-senders", "fake", "--include-receivers", "fake", "--include-servers", "fake")
FILES = [
    "output.txt", "receiver-snapshots.csv", "receiver-summary.json", "receiver-transfers.csv.zst",
    "sender-snapshots.csv", "sender-summary.json", "sender-transfers.csv.zst",
]  # fmt: skip


def statuses(done):
    lines = [line for line in done.stdout.splitlines() if line[110:112] == ". "]
    return {line.split(" ...")[0]: line[112:] for line in lines}


def contents(directory):
    return sorted(file.name for file in directory.iterdir())


def test_every_combination_has_its_line_and_its_files(fake, tmp_path):
    out = tmp_path / "out"
    done = fake.run("bench", *SERVED, "-c", "200", "--output", str(out), FAKE_SERVER="stay")
    assert (done.returncode, done.stderr) == (0, "")
    assert statuses(done) == {"fake -> fake -> fake": "PASSED", "fake -> fake": "PASSED"}
    assert "\nTest failures: 0\n\nRESULTS\n" in done.stdout
    assert contents(out / "fake/fake/fake/pair") == FILES
    assert contents(out / "fake/none/fake/pair") == FILES
    assert "output.txt" in contents(out / "fake/fake/fake/server")
    document = load(out, "bench.json")
    assert (document["complete"], document["failures"]) == (True, 0)
    assert document["options"]["count"] == document["workload"]["count"] == 200
    served = next(one for one in document["results"] if one["server"] == "fake")
    assert served["count"] == 200
    made = {"sender": "fake", "receiver": "fake", "count": 200}
    assert served["workload"] == made | {"url": served["workload"]["url"]}
    assert load(out, "fake/fake/fake/pair/sender-summary.json")["workload"] == served["workload"]
    direct = next(one for one in document["results"] if one["server"] is None)
    assert direct["rate"] > 0
    assert direct["workload"] == made
    assert list(served["latency_ms"]) == ["50", "90", "99", "99.9", "100"]
    assert min(served["cpu_us"]["sender"], served["cpu_us"]["receiver"]) > 0
    assert served["cpu_us"]["server"] is not None
    assert (out / "bench.txt").read_text().splitlines()[5].split()[0] == "1"
    assert "fake -&gt; fake" in (out / "bench.html").read_text()


def test_every_option_reaches_both_arrows(fake, tmp_path):
    done = fake.run("bench", *SERVED, "--client-server", "-c", "20", "-d", "7s", "--rate", "1m",
                    "--body-size", "33", "--credit", "9", "--transaction-size", "4", "--durable",
                    "--set-message-id", FAKE_SERVER="stay")  # fmt: skip
    assert done.returncode == 0, done
    for role in ("sender", "receiver"):
        [(arguments, _)] = fake.calls(role)
        assert arguments[8:] == [
            "duration=7", "count=20", "rate=1000000", "body-size=33", "credit-window=9",
            "transaction-size=4", "durable=1", "set-message-id=1",
        ]  # fmt: skip
    [(server, _)] = fake.calls("server")
    assert arguments[5:7] == server[:2]
    assert server[2] == "path=q0"


def test_a_search_for_a_rate_in_each_combination(fake, tmp_path):
    out = tmp_path / "out"
    words = ("--include-senders", "pyfast", "--include-receivers", "pyfast", "--peer-to-peer")
    done = fake.run("bench", *words, "--find-rate", "p99<1ns", "--rate", "2", "-d", "1s",
                    "--output", str(out))  # fmt: skip
    assert statuses(done) == {"pyfast -> pyfast": "FAILED"}, done
    [result] = load(out, "bench.json")["results"]
    assert result["reason"].startswith("no limit was found: not even 1/s is sustained: p99 is")
    assert [step["rate"] for step in result["found_rate"]["steps"]] == [2, 2, 1, 1]
    assert result["workload"]["find-rate"] == ["p99<1ns"]
    assert (out / "pyfast/none/pyfast/pair/run-01/sender-summary.json").exists()
    refused = fake.run("bench", *words, "--find-rate", "p99<1ns", "--count", "9")
    assert (refused.returncode, "--count" in refused.stderr) == (2, True)


def test_many_ends_of_each_combination(fake, tmp_path):
    out = tmp_path / "out"
    done = fake.run("bench", *SERVED, "--client-server", "--senders", "2", "--receivers", "2",
                    "--count", "200", "--output", str(out), FAKE_SERVER="stay")  # fmt: skip
    assert statuses(done) == {"fake -> fake -> fake": "FAILED"}, done
    [result] = load(out, "bench.json")["results"]
    assert "share a queue" in result["reason"]
    done = fake.run("bench", "--include-senders", "pyfast", "--include-receivers", "pyfast",
                    "--include-servers", "pyfast", "--client-server", "--senders", "4",
                    "--receivers", "4", "--queues", "2", "--count", "2000", "--force",
                    "--output", str(out))  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    [result] = load(out, "bench.json")["results"]
    assert (result["status"], result["count"], result["unreceived"]) == ("PASSED", 2000, 0)
    assert "receiver.0-summary.json" in contents(out / "pyfast/pyfast/pyfast/pair")


@pytest.mark.parametrize("words", [("--queues", "2"), ("--receivers", "2")])
def test_uneven_sides_need_a_server(fake, words):
    done = fake.run("bench", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "needs --client-server" in done.stderr


@pytest.mark.parametrize(
    ("modes", "reason"),
    [
        ({"FAKE_SERVER": "fail"}, "the server ended by itself: exit code 1"),
        ({"FAKE_SERVER": "die", "FAKE_SENDER": "drain"}, "the server ended by itself: exit code 0"),
        ({"FAKE_SERVER": "grudge"}, "the server did not end well: exit code 3"),
        ({"FAKE_SERVER": "stay", "FAKE_SENDER": "fail"},
         "sender (fake) failed: fake: no such queue (exit code 1)"),
        ({"FAKE_SERVER": "stay", "FAKE_RECEIVER": "segv"},
         "receiver (fake) failed: killed by SIGSEGV"),
    ],
)  # fmt: skip
def test_failures_are_failures(fake, tmp_path, modes, reason):
    out = tmp_path / "out"
    done = fake.run(
        "bench", *SERVED, "--client-server", "-c", "2500", "--output", str(out), **modes
    )
    assert done.returncode == 1
    assert statuses(done) == {"fake -> fake -> fake": "FAILED"}
    lines = done.stdout.splitlines()
    start = lines.index("Test failures: 1")
    assert lines[start + 1 :] == [f"fake -> fake -> fake: {reason}"]
    document = load(out, "bench.json")
    assert document["failures"] == 1
    assert [one["reason"] for one in document["results"]] == [reason]
    assert f"FAILED: {reason}" in (out / "fake/fake/fake/pair/output.txt").read_text()


def test_a_quiet_bench_names_its_failures_and_their_files(fake, tmp_path):
    out = tmp_path / "out"
    words = ["--client-server", "--quiet", "-c", "200", "--output", str(out)]
    done = fake.run("bench", *SERVED, *words, FAKE_SERVER="fail")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "quiver-bench: error: fake -> fake -> fake: the server ended by itself: exit code 1",
        f"quiver-bench: error: 1 of 1 combinations failed; their files are in {out}",
    ]


def test_one_failure_does_not_end_the_others(fake):
    done = fake.run("bench", *SERVED, "-c", "200", FAKE_SERVER="fail")
    assert done.returncode == 1
    assert statuses(done) == {"fake -> fake -> fake": "FAILED", "fake -> fake": "PASSED"}


def test_our_own_faults_are_failures_too(monkeypatch, tmp_path, capsys):
    from quiver_fast.cli.bench import cell as bench_cell
    from quiver_fast.cli.bench import command as bench

    def broken(*_):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(bench_cell, "make_plans", broken)
    out = tmp_path / "out"
    words = ["--peer-to-peer", "--include-senders", "pyfast", "--output", str(out)]
    assert bench.main(words) == 1
    assert "pyfast -> pyfast: unexpected ZeroDivisionError: oops" in capsys.readouterr().out
    assert "Traceback" in (out / "pyfast/none/pyfast/pair/output.txt").read_text()


def test_resuming_runs_only_what_is_not_finished(fake, tmp_path):
    out = str(tmp_path / "out")
    words = ("bench", *SERVED, "--output", out)
    first = fake.run(*words, "-c", "200", "--client-server", FAKE_SERVER="fail")
    assert first.returncode == 1
    done = fake.run(*words, "-c", "200", "--resume", FAKE_SERVER="stay")
    # A failure is a result as well; it is not tried until it passes.
    assert statuses(done) == {"fake -> fake -> fake": "FAILED", "fake -> fake": "PASSED"}
    assert done.returncode == 1
    assert len(fake.calls("sender")) == 1
    again = fake.run(*words, "-c", "200", "--resume", FAKE_SERVER="stay")
    assert statuses(again) == statuses(done)
    assert len(fake.calls("sender")) == 1
    for changed in (["-c", "300"], ["-c", "200", "--streaming"], ["-c", "200", "--durable"]):
        other = fake.run(*words, *changed, "--resume")
        assert other.returncode == 2
        assert f"was begun with another {'--count' if '300' in changed else changed[-1]}" in (
            other.stderr
        )


def test_a_bench_of_before_an_option_was_added_is_resumed(fake, tmp_path):
    out = tmp_path / "out"
    words = ("bench", *SERVED, "--output", str(out), "-c", "200", "--peer-to-peer")
    assert fake.run(*words).returncode == 0
    document = parsed((out / "bench.json").read_text())
    del document["options"]["streaming"]
    (out / "bench.json").write_text(json.dumps(document))
    assert fake.run(*words, "--resume").returncode == 0
    assert fake.run(*words, "--resume", "--streaming").returncode == 2


def test_a_directory_in_use_needs_force(fake, tmp_path):
    out = tmp_path / "out"
    words = ("bench", *SERVED, "--peer-to-peer", "-c", "100", "--output", str(out))
    assert fake.run(*words).returncode == 0
    refused = fake.run(*words)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert fake.run(*words, "--force").returncode == 0


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interruption_leaves_what_is_finished(fake, tmp_path, signum, code):
    out = tmp_path / "out"
    words = ("bench", *SERVED, "-d", "10m", "--output", str(out))
    process = fake.start(*words, FAKE_SERVER="stay", FAKE_SENDER="drain", FAKE_RECEIVER="drain")
    transfers = out / "fake/fake/fake/pair/receiver-transfers.csv"
    wait_until(lambda: transfers.exists() and transfers.stat().st_size > 0, "messages arrive")
    process.send_signal(signum)
    # Before the duration is over.
    stdout, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Test failures: 0" in stdout
    document = load(out, "bench.json")
    assert (document["complete"], document["results"]) == (False, [])
    assert document["reason"] == f"interrupted by {signal.Signals(signum).name}"
    assert not (out / "fake/fake/fake/result.json").exists()


def test_json_is_one_document(fake, tmp_path):
    page = tmp_path / "page.html"
    words = ("--peer-to-peer", "-c", "100", "--json", "--html", str(page))
    done = fake.run("bench", *SERVED, *words)
    document = parsed(done.stdout)
    assert page.read_text() == Path(document["output_dir"], "bench.html").read_text()
    assert [one["name"] for one in document["results"]] == ["fake -> fake"]
    assert "Test failures: 0" in done.stderr


def test_quiet(fake):
    done = fake.run("bench", *SERVED, "--peer-to-peer", "-c", "100", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("tls", [False, True])
def test_our_own_arrows_and_server(fake, tmp_path, certificates, tls):
    pyfast = [word.replace("fake", "pyfast") for word in SERVED]
    words = [*pyfast, "--client-server", "-c", "100k", "--output", str(tmp_path / "out")]
    if tls:
        words += ["--cert", certificates.server.cert, "--key", certificates.server.key]
        words += ["--trust-store", certificates.authority]
    done = fake.run("bench", *words)
    assert done.returncode == 0, done
    [result] = load(tmp_path / "out", "bench.json")["results"]
    assert (result["count"], result["unreceived"], result["duplicate"]) == (100_000, 0, 0)
    assert result["cpu_us"]["server"] > 0
    config = load(tmp_path / "out/pyfast/pyfast/pyfast/pair", "sender-summary.json")["config"]
    assert config["scheme"] == ("amqps" if tls else "amqp")
