"""Summaries and paths that are not what they should be: one line that names the file and why."""

import json
import os
import stat
import subprocess
import sys

import pytest
from support.documents import parsed, with_odd_values
from support.summaries import config

from quiver_fast.cli.analyze.command import main as analyze
from quiver_fast.cli.pair.command import main as measure

EPOCH = 1_700_000_000_000
PROGRAM = "import sys; from quiver_fast.cli.analyze.command import main; sys.exit(main())"


def analyse(*words, timeout=60):
    """Run the command as users do; what hangs is killed, and fails."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def error_line(done, code):
    """Return the one line on stderr."""
    assert done.returncode == code, done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("quiver-analyze: error: ")
    assert done.stdout == ""
    return line


@pytest.fixture(name="run")
def a_run(tmp_path):
    lines = "".join(f"{EPOCH + n},{EPOCH + n + 3}\n" for n in range(0, 3000, 10))
    (tmp_path / "receiver-transfers.csv").write_text(lines)
    return tmp_path


def changed(**changes):
    return json.dumps({"config": config() | changes}).encode()


SUMMARIES = {
    "a list": (b"[]", "is no summary: it is no object"),
    "null": (b"null", "is no summary: it is no object"),
    "cut": (b'{"config"', "is damaged: "),
    "empty": (b"", "is damaged: "),
    "not UTF-8": (b'{"reason": "\xff"}', "is damaged: "),
    "deep": (b"[" * 100_000, "nested too deep"),
    "deep inside": (b'{"config": ' + b"[" * 100_000, "nested too deep"),
    "no keys": (b"{}", "is no summary: it has no config, no results, nothing of one"),
    "a config without keys": (b'{"config": {}}', "config.operation is missing"),
    "a config that is none": (b'{"config": 7}', "config is 7"),
    "a word for a number": (changed(count="many"), 'config.count is "many"'),
    "infinity": (
        changed(duration=float("inf")),
        "is damaged: Infinity is no number of a measurement",
    ),
    "a negative number": (changed(credit_window=-1), "config.credit_window is -1"),
    "an operation": (changed(operation="sleep"), 'config.operation is "sleep"'),
    "no end": (changed(ends={"members": 0}), "config.ends.members is 0"),
    "more ends than there can be": (
        changed(ends={"members": 10**12}),
        "config.ends.members is 1000000000000",
    ),
    "no queue": (changed(ends={"queues": 0}), "config.ends.queues is 0"),
    "a count of an end": (
        b'{"arrow": {"ends": {"counts": [5, "x"]}}}',
        "arrow.ends.counts is a list",
    ),
    "a start": (changed(run_start="now"), 'config.run_start is "now"'),
    "complete": (b'{"complete": "yes"}', 'complete is "yes"'),
    "a reason": (b'{"reason": []}', "reason is a list"),
    "a step": (b'{"clock_step": {"milliseconds": -2}}', "clock_step is an object"),
    "a host's use": (b'{"host_use": {"busy": 1}}', "host_use is an object"),
    "a course": (
        b'{"arrow": {"schedule": {"late_us": null, "over_time": {"seconds": 0}}}}',
        "arrow.schedule is an object",
    ),
    "parts of delays": (
        b'{"arrow": {"schedule": {"late_us": null, "late_by_us": {"credit": 1}}}}',
        "arrow.schedule is an object",
    ),
    "a schedule": (b'{"arrow": {"schedule": {"late_us": {}}}}', "arrow.schedule is an object"),
}


@pytest.mark.parametrize(("text", "why"), SUMMARIES.values(), ids=SUMMARIES)
def test_a_summary_that_is_none(run, text, why):
    place = run / "receiver-summary.json"
    place.write_bytes(text)
    line = error_line(analyse(run), 1)
    assert f"{place} is " in line
    assert why in line


def test_a_huge_summary(run):
    place = run / "receiver-summary.json"
    with place.open("wb") as file:
        file.truncate(1 << 40)
    line = error_line(analyse(run), 1)
    assert f"{place} is no summary: it has 1,099,511,627,776 bytes" in line


@pytest.mark.parametrize("ends", [(), ("--senders", "2", "--receivers", "2")], ids=["pair", "ends"])
def test_no_value_of_a_summary_is_trusted(tmp_path, ends, capsys):
    """Each value in turn is a list, or is not there: an error or a figure, no traceback."""
    words = ["--count", "40", "--rate", "1k", *ends, "--output", str(tmp_path / "run")]
    assert measure([*words, "--quiet"]) == 0
    for place in (tmp_path / "run").glob("*-summary.json"):
        text = place.read_text()
        for changed in with_odd_values(text, (["x"], ...)):
            place.write_text(changed)
            assert analyze([str(tmp_path / "run")]) in (0, 1), changed
        place.write_text(text)
    capsys.readouterr()


@pytest.mark.parametrize("name", ["receiver-summary.json", "sender-transfers.csv"])
def test_a_pipe_in_the_place_of_a_file(run, name):
    """To open it would wait for a writer."""
    os.mkfifo(run / name)
    assert stat.S_ISFIFO((run / name).stat().st_mode)
    assert f"{run / name} is a named pipe, not a file" in error_line(analyse(run), 1)
    assert "named pipe" in error_line(analyse(run / name), 1) or name.endswith("json")


def test_directories_in_the_place_of_files(run):
    (run / "receiver-summary.json").mkdir()
    assert "receiver-summary.json is a directory, not a file" in error_line(analyse(run), 1)
    (run / "receiver-summary.json").rmdir()
    # One that is only named so is searched like any other.
    (run / "sender-transfers.csv").mkdir()
    assert analyse(run, "--json").returncode == 0


def test_links_are_not_followed(run, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (run / "a").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (run / "c").symlink_to(run / "d")
    (run / "d").symlink_to(run / "c")
    done = analyse(run, "--json")
    assert done.returncode == 0, done.stderr
    assert parsed(done.stdout)["receiver"]["results"]["message_count"] == 300
    assert "no such file" in error_line(analyse(run / "c"), 2)


def test_a_loop_of_directories_is_one_line(run):
    """Two links to their own directory are 2^40 paths for who follows them."""
    (run / "deep").mkdir()
    for name in ("a", "b"):
        (run / "deep" / name).symlink_to(run, target_is_directory=True)
    for words in ([run], [run / "**"]):
        assert f" is a loop: it leads back to {run}" in error_line(analyse(*words), 1)
    done = analyse(run / "**" / "*.csv", "--json")
    assert parsed(done.stdout)["receiver"]["results"]["message_count"] == 300


def test_what_is_not_there(tmp_path):
    assert "no such file" in error_line(analyse(tmp_path / "no*"), 2)
    assert "no records" in error_line(analyse(tmp_path), 2)
    (tmp_path / "receiver-transfers.csv").symlink_to(tmp_path / "nothing")
    assert "receiver-transfers.csv: No such file" in error_line(analyse(tmp_path), 1)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_may_not_be_read(run):
    (run / "secret").mkdir(mode=0)
    assert "secret: Permission denied" in error_line(analyse(run), 1)


BAD_LINES = {
    "another unit": (b"%d,%d\n" % (EPOCH * 1000, EPOCH * 1000), "its time is in us, but"),
    "2^63": (b"%d,9223372036854775808\n" % EPOCH, "it has a time of 2^63 or more"),
}


@pytest.mark.parametrize(("line", "why"), BAD_LINES.values(), ids=BAD_LINES)
def test_a_bad_line_is_named_with_its_reason(run, line, why):
    path = run / "receiver-transfers.csv"
    path.write_bytes(path.read_bytes() + line * 4)
    done = analyse(run, "--json", "--quiet")
    assert done.returncode == 0
    (warning,) = done.stderr.splitlines()
    assert f"{path}: 4 lines are not records; the first is line 301: " in warning
    assert f"({why}" in warning
    found = parsed(done.stdout)
    assert found["receiver"]["records"]["malformed"] == 4
    assert found["receiver"]["results"]["message_count"] == 300


def test_lines_without_an_id(tmp_path):
    """Four of them were four sends and four losses."""
    path = tmp_path / "sender-transfers.csv"
    path.write_bytes(b"1,%d\n" % EPOCH + b",5\n" * 4)
    done = analyse(path, "--json")
    assert "the first is line 2: ,5 (its id is empty)" in done.stderr
    found = parsed(done.stdout)
    assert found["sender"]["results"]["message_count"] == 1
    assert found["sender"]["records"]["malformed"] == 4
