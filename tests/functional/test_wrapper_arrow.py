"""`quiver-arrow` with a foreign implementation: files, failures, signals."""

import re
import signal
import subprocess
import sys

import psutil
import pytest
from support.documents import parsed
from support.processes import wait_until
from support.summary_lines import number_field
from wrapper_fake import fake_implementation, load  # noqa: F401 (a fixture)

from quiver_fast.records.parser import read_transfers


def test_a_run_leaves_upstreams_files(fake, tmp_path):
    out = tmp_path / "out"
    done = fake.run("arrow", "send", "q", "-c", "1000", "--output", str(out))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sorted(file.name for file in out.iterdir()) == [
        "sender-snapshots.csv", "sender-summary.json", "sender-transfers.csv.zst",
    ]  # fmt: skip
    summary = load(out, "sender-summary.json")
    assert summary["results"]["message_count"] == 1000
    assert (summary["complete"], summary["reason"], summary["exit_code"]) == (True, None, 0)
    assert summary["config"]["output_dir"] == str(out)
    assert re.fullmatch(r"quiver-sender-[0-9a-f]+", summary["config"]["id"])
    assert len(read_transfers(out / "sender-transfers.csv.zst")) == 1000


def test_contract_arguments_arrive_in_upstreams_order(fake):
    fake.run("arrow", "receive", "amqp://u@h:1/q", "-c", "5", "-d", "2m", "--id", "me",
             "--server", "--passive", "--verbose")  # fmt: skip
    arguments, verbose = fake.calls("receiver")[0]
    assert arguments == [
        "connection-mode=server", "channel-mode=passive", "operation=receive", "id=me",
        "scheme=amqp", "host=h", "port=1", "path=q", "duration=120", "count=5", "rate=0",
        "body-size=100", "credit-window=1000", "transaction-size=0", "durable=0",
        "set-message-id=0", "username=u",
    ]  # fmt: skip
    assert verbose == "1"


def test_quiet_runs_do_not_set_verbose(fake):
    fake.run("arrow", "send", "q", "-c", "5")
    assert fake.calls("sender")[0][1] is None


def test_summary_and_json(fake):
    shown = fake.run("arrow", "receive", "q", "-c", "500", "--summary")
    assert shown.stdout.startswith("\nCONFIGURATION\n\nReceiver ....")
    assert number_field("Count", 500, "messages") in shown.stdout.splitlines()
    both = fake.run("arrow", "receive", "q", "-c", "500", "--summary", "--json")
    assert parsed(both.stdout)["results"]["message_count"] == 500
    assert "CONFIGURATION" in both.stderr
    quiet = fake.run("arrow", "receive", "q", "-c", "500", "--summary", "--quiet")
    assert (quiet.stdout, quiet.stderr) == ("", "")


def test_info(fake):
    assert fake.run("arrow", "--info").stdout == "fake arrow 1.0\n"


def test_prelude_comes_before_the_command(fake):
    prelude = f"env {sys.executable} -c 'import os,sys; os.execv(sys.argv[1],sys.argv[1:])'"
    done = fake.run("arrow", "send", "q", "-c", "5", "--prelude", prelude)
    assert done.returncode == 0
    assert len(fake.calls("sender")) == 1


def test_snapshots_count_every_record_and_end_with_real_figures(fake, tmp_path):
    done = fake.run("arrow", "receive", "q", "-c", "3000", "--output", str(tmp_path / "out"),
                    FAKE_RECEIVER="burn")  # fmt: skip
    assert done.returncode == 0
    lines = (tmp_path / "out/receiver-snapshots.csv").read_text().splitlines()
    rows = [[int(field) for field in line.split(",")] for line in lines]
    assert all(len(row) == 8 for row in rows)
    assert rows[-1][2] == 3000
    assert sum(row[3] for row in rows) == 3000
    assert sum(row[1] for row in rows) == rows[-1][0] - (rows[0][0] - rows[0][1])
    assert sum(row[6] for row in rows) == rows[-1][5]
    assert 1000 <= rows[-1][5] < 10_000
    assert rows[-1][7] > 64 << 20


@pytest.mark.parametrize(
    ("mode", "timeout", "reason"),
    [
        ("fail", "10", "fake: no such queue (exit code 1)"),
        ("segv", "10", "killed by SIGSEGV"),
        ("hang", "2", "timed out: no transfers for 2 seconds"),
    ],
)
def test_failures_keep_a_partial_summary(fake, tmp_path, mode, timeout, reason):
    out = tmp_path / "out"
    done = fake.run("arrow", "send", "q", "-c", "50", "--timeout", timeout, "--output", str(out),
                    FAKE_SENDER=mode)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"quiver-arrow: error: sender (fake) failed: {reason}"
    assert "Traceback" not in done.stderr
    summary = load(out, "sender-summary.json")
    assert summary["results"]["message_count"] == 10
    assert (summary["complete"], summary["reason"]) == (False, reason)
    assert len(read_transfers(out / "sender-transfers.csv.zst")) == 10


def test_the_arrows_own_words_are_passed_through(fake):
    done = fake.run("arrow", "send", "q", "-c", "50", FAKE_SENDER="fail")
    assert done.stderr.splitlines()[0] == "fake: no such queue"


def test_no_transfers_is_a_failure(fake, tmp_path):
    out = tmp_path / "out"
    done = fake.run("arrow", "send", "q", "--timeout", "1", "--output", str(out),
                    FAKE_SENDER="silent")  # fmt: skip
    assert done.returncode == 1
    assert load(out, "sender-summary.json")["results"]["message_count"] == 0


def test_junk_lines_are_counted_and_shown(fake, tmp_path):
    out = tmp_path / "out"
    done = fake.run("arrow", "send", "q", "-c", "20", "--output", str(out), FAKE_SENDER="junk")
    assert done.returncode == 0
    assert done.stderr == (
        "quiver-arrow: warning: sender: 1 line is not a record; the first is line 7: junk\n"
    )
    assert load(out, "sender-summary.json")["records"]["malformed"] == 1


def wait_for_ten_records(out):
    file = out / "sender-transfers.csv"
    wait_until(lambda: file.exists() and file.read_bytes().count(b"\n") >= 10, "ten records")


# A wrapper that gives arrows another grace time, which is the first of its arguments.
GRACE = """
import sys
from quiver_fast import process
process.STOP_GRACE = float(sys.argv.pop(1))
from quiver_fast.cli.arrow.command import main
sys.exit(main())
"""


def start_stubborn(fake, out, grace):
    """Start a wrapper with so many seconds of grace for an arrow that ignores signals."""
    words = [sys.executable, "-c", GRACE, str(grace), "send", "q", "--impl", "fake"]
    process = subprocess.Popen(
        [*words, "--output", str(out)], env=fake.variables("arrow", {"FAKE_SENDER": "stubborn"}),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for_ten_records(out)
    return process


@pytest.mark.parametrize(("signum", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("mode", ["drain", "hang"])
def test_signals_end_with_a_partial_summary(fake, tmp_path, signum, code, mode):
    out = tmp_path / "out"
    process = fake.start("arrow", "send", "q", "--output", str(out), FAKE_SENDER=mode)
    wait_for_ten_records(out)
    process.send_signal(signum)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == code
    assert "Traceback" not in errors
    summary = load(out, "sender-summary.json")
    assert summary["results"]["message_count"] >= 10
    assert (summary["complete"], summary["reason"]) == (
        False, f"interrupted by {signal.Signals(signum).name}",
    )  # fmt: skip


def test_a_second_signal_ends_a_stubborn_arrow(fake, tmp_path):
    out = tmp_path / "out"
    process = start_stubborn(fake, out, grace=600)
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) == 1
    process.send_signal(signal.SIGINT)
    wait_until((fake.directory / "signalled").exists, "the arrow has the first signal")
    process.send_signal(signal.SIGINT)
    # Long before the grace time is over.
    process.communicate(timeout=60)
    assert process.returncode == 130
    assert not psutil.pid_exists(children[0].pid)
    assert load(out, "sender-summary.json")["complete"] is False


def test_a_stubborn_arrow_is_killed_after_the_grace_time(fake, tmp_path):
    process = start_stubborn(fake, tmp_path / "out", grace=0.5)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143


def test_a_full_directory_is_left_alone(fake, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/sender-summary.json").write_text("precious")
    done = fake.run("arrow", "send", "q", "-c", "5", "--output", str(tmp_path / "out"))
    assert done.returncode == 2
    assert (tmp_path / "out/sender-summary.json").read_text() == "precious"
    forced = fake.run("arrow", "send", "q", "-c", "5", "--force", "--output", str(tmp_path / "out"))
    assert forced.returncode == 0
    assert load(tmp_path / "out", "sender-summary.json")["complete"] is True


def test_what_cannot_be_started_is_an_error(fake):
    done = fake.run("arrow", "send", "q", "--prelude", "/nonexistent/tool")
    assert done.returncode == 1
    assert done.stderr == (
        "quiver-arrow: error: cannot start '/nonexistent/tool': No such file or directory\n"
    )
