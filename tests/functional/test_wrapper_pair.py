"""`quiver` with a foreign implementation: peer-to-peer, through a server, failures."""

import signal
from itertools import pairwise

import psutil
import pytest
from support.documents import parsed
from support.processes import wait_until
from wrapper_fake import fake_implementation, load  # noqa: F401 (a fixture)

from quiver_fast.cli.pair.table import heading, upstream_columns


def test_peer_to_peer(fake, tmp_path):
    out = tmp_path / "out"
    done = fake.run("pair", "-c", "2000", "--output", str(out))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(heading(upstream_columns("ms")) + "\n")
    assert "\nCONFIGURATION\n\nSender ................................................. fake\n" in (
        done.stdout
    )
    assert sorted(file.name for file in out.iterdir()) == [
        "receiver-snapshots.csv", "receiver-summary.json", "receiver-transfers.csv.zst",
        "sender-snapshots.csv", "sender-summary.json", "sender-transfers.csv.zst",
    ]  # fmt: skip
    delivery = load(out, "receiver-summary.json")["delivery"]
    assert delivery["method"] == "per-millisecond lower bound"
    assert (delivery["sent"], delivery["received"]) == (2000, 2000)
    assert (delivery["lost"], delivery["foreign"]) == (0, 0)
    sender, receiver = fake.calls("sender")[0][0], fake.calls("receiver")[0][0]
    assert receiver[:3] == ["connection-mode=server", "channel-mode=passive", "operation=receive"]
    assert sender[:3] == ["connection-mode=client", "channel-mode=active", "operation=send"]
    assert receiver[4:8] == sender[4:8]
    assert receiver[5] == "host=localhost"
    assert receiver[7] == "path=quiver"


def test_through_a_server_both_are_clients(fake):
    done = fake.run("pair", "amqp://h:1/q", "-c", "100")
    assert done.returncode == 0
    for role in ("sender", "receiver"):
        assert fake.calls(role)[0][0][:2] == ["connection-mode=client", "channel-mode=active"]


def test_two_runs_at_once_do_not_meet(fake):
    runs = [fake.start("pair", "-c", "500", "--json") for _ in range(3)]
    for run in runs:
        output, _ = run.communicate(timeout=40)
        delivery = parsed(output)["delivery"]
        assert (run.returncode, delivery["received"], delivery["foreign"]) == (0, 500, 0)


def test_another_port_is_tried_when_one_is_taken(fake):
    done = fake.run("pair", "-c", "100", "--quiet", FAKE_RECEIVER="busy")
    assert done.returncode == 0
    ports = {call[0][6] for call in fake.calls("receiver")}
    assert len(ports) == 2


def test_json_is_one_document(fake):
    done = fake.run("pair", "-c", "100", "--json")
    document = parsed(done.stdout)
    assert document["complete"] is True
    assert document["results"]["message_count"] == 100
    assert document["sender"]["results"]["message_count"] == 100
    assert "RESULTS" in done.stderr


def test_quiet(fake):
    done = fake.run("pair", "-c", "100", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_rows_come_every_two_seconds(fake):
    done = fake.run("pair", "-c", "4200", "q", FAKE_SENDER="drain", FAKE_RECEIVER="drain")
    assert done.returncode == 0
    rows = [line.split() for line in done.stdout.split("\n\n")[0].splitlines()[3:]]
    times = [float(row[5]) for row in rows]
    assert len(rows) >= 3
    # A busy machine makes single rows late, so they are counted over the whole run.
    assert abs(len(times[:-1]) - times[-1] / 2) <= 1
    # The run's last row may come within the tenth of a second of the period's last.
    assert all(a < b for a, b in pairwise(times[:-1]))
    assert times[-2] <= times[-1]
    assert rows[-1][6] == "4,200"
    assert all(row[0] != "-" for row in rows[:-1])


@pytest.mark.parametrize("through", [[], ["q"]])
@pytest.mark.parametrize(("role", "other"), [("sender", "receiver"), ("receiver", "sender")])
def test_one_side_fails(fake, tmp_path, role, other, through):
    out = tmp_path / "out"
    modes = {f"FAKE_{role.upper()}": "fail", f"FAKE_{other.upper()}": "drain"}
    done = fake.run("pair", *through, "--output", str(out), **modes)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert "fake: no such queue" in lines
    expected = f"quiver: error: {role} (fake) failed: fake: no such queue (exit code 1)"
    assert lines[-1].startswith(expected)
    summary = load(out, f"{role}-summary.json")
    assert summary["complete"] is False
    assert summary["results"]["message_count"] == 10


def test_the_healthy_side_is_stopped_and_kept(fake, tmp_path):
    out = tmp_path / "out"
    done = fake.run("pair", "q", "--output", str(out), FAKE_SENDER="fail", FAKE_RECEIVER="drain")
    assert done.returncode == 1
    summary = load(out, "receiver-summary.json")
    assert summary["reason"] == "stopped because the sender failed"
    assert summary["results"]["message_count"] > 0


def test_a_receiver_that_does_not_listen_ends_the_run(fake):
    done = fake.run("pair", "--timeout", "1", FAKE_RECEIVER="deaf")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "quiver: error: receiver (fake) failed: timed out: no transfers for 1 second"
    )
    assert not (fake.directory / "sender.json").exists()


def test_silence_times_out(fake):
    done = fake.run("pair", "--timeout", "1", FAKE_SENDER="silent")
    assert done.returncode == 1
    assert "timed out: no transfers for 1 second" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_sender_may_be_silent_while_the_receiver_receives(fake):
    """A broker with a long queue lets a sender wait for its last outcomes longer than that.

    The receiver needs 36 seconds, so that 30 without the CPU are needed to stop it too.
    """
    words = ("q", "--count", "180", "--timeout", "30")
    done = fake.run("pair", *words, FAKE_SENDER="wait", FAKE_RECEIVER="slow")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_reach_both_and_leave_nothing_running(fake, tmp_path, signum, code):
    out = tmp_path / "out"
    process = fake.start("pair", "--json", "--output", str(out), FAKE_SENDER="drain")
    transfers = out / "sender-transfers.csv"
    wait_until(lambda: transfers.exists() and transfers.stat().st_size > 0, "messages pass")
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signum)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in errors
    document = parsed(output)
    assert (document["complete"], document["reason"]) == (
        False, f"interrupted by {signal.Signals(signum).name}",
    )  # fmt: skip
    assert document["sender"]["results"]["message_count"] > 0
    assert not any(psutil.pid_exists(child.pid) for child in children)
    assert load(out, "sender-summary.json")["complete"] is False


def test_a_client_only_receiver_is_refused_peer_to_peer(fake):
    (fake.directory / "quiver-arrow-qpid-jms").symlink_to(fake.directory / "quiver-arrow-fake")
    done = fake.run("pair", "--receiver", "jms")
    assert done.returncode == 2
    assert "implementation 'qpid-jms' has no server mode" in done.stderr


def test_secrets_stay_out_of_everything(fake, tmp_path):
    out = tmp_path / "out"
    refused = fake.run("pair", "amqp://u:hunter2@h/q", "-c", "10", "--output", str(out))
    assert refused.returncode == 2
    assert "hunter2" not in refused.stdout + refused.stderr
    assert not out.exists()
    exposed = fake.run("pair", "amqp://u:hunter2@h/q", "-c", "10", "--expose-password", "--json",
                       "--verbose", "--output", str(out))  # fmt: skip
    assert exposed.returncode == 0
    assert "hunter2" not in exposed.stdout + exposed.stderr
    assert "amqp://u:***@h/q" in exposed.stdout
    assert not any(b"hunter2" in file.read_bytes() for file in out.iterdir())
