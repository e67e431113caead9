"""What a person sees: the commands on a terminal of several widths, and off it."""

import os
import subprocess
import sys

import pytest
from support.terminal import Terminal


def environment(**changes):
    # The terminal knows its size; a runner of tests in parallel says another in COLUMNS.
    ours = ("NO_COLOR", "COLUMNS", "LINES")
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return kept | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"} | changes


def quiver(*arguments):
    script = "import sys; from quiver_fast.cli import commands; sys.exit(commands.pair())"
    return [sys.executable, "-c", script, *arguments]


@pytest.mark.parametrize("columns", [40, 70, 80, 140])
def test_the_table_fits_the_terminal(columns, tmp_path):
    seen = Terminal(columns).run(
        quiver("--count", "1000", "--rate", "1000", "--output", str(tmp_path)), environment()
    )
    assert seen.returncode == 0, seen.lines
    heading = seen.find("Received/s")
    headline = seen.find("messages/s")
    rows = [row for row in seen.lines[heading + 1 : headline] if row]
    # Numbers end where their names end: nothing was wrapped.
    assert {len(row) for row in rows} == {len(seen.lines[heading])}, "\n".join(seen.lines)
    assert not seen.cursor_hidden
    assert "Running" not in "\n".join(seen.lines)
    assert b"Running" in seen.raw
    assert heading < headline < seen.find("RESULTS")
    assert "p50" in seen.lines[headline] or columns < 70
    assert seen.styles[seen.find("1,000 sent, 1,000 received")] == {"green"}


def test_a_resized_window_has_a_new_heading(tmp_path):
    terminal = Terminal(120)

    def narrow(raw):
        # The heading and the first row have been shown: the window gets narrow before the second.
        if raw.partition(b"Received/s")[2].count(b"\r\n") >= 2 and not resized:
            resized.append(True)
            terminal.resize(60)

    resized = []
    seen = terminal.run(
        quiver("--count", "3000", "--rate", "1000", "--output", str(tmp_path)), environment(),
        narrow,
    )  # fmt: skip
    assert seen.returncode == 0, seen.lines
    assert seen.raw.count(b"Received/s") == 2


@pytest.mark.parametrize(
    ("changes", "options"),
    [({"NO_COLOR": "1"}, []), ({"TERM": "dumb"}, []), ({}, ["--format", "upstream"])],
)
def test_upstreams_text_where_it_is_wanted(changes, options, tmp_path):
    arguments = ["--count", "100", "--output", str(tmp_path), *options]
    seen = Terminal(140).run(quiver(*arguments), environment(**changes))
    assert seen.returncode == 0, seen.lines
    assert seen.lines[0].startswith("---------------------- Sender ---")
    assert b"\x1b" not in seen.raw
    # The rows end with an empty line; there are two where the machine was slow.
    assert seen.lines[seen.find("CONFIGURATION") - 1] == ""
    assert "Running" not in "\n".join(seen.lines)


def test_pipes_get_upstreams_text(tmp_path):
    ended = subprocess.run(
        quiver("--count", "100", "--output", str(tmp_path)),
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout.startswith("---------------------- Sender ---")
    assert "\x1b" not in ended.stdout + ended.stderr


def test_errors_come_last_and_whole(tmp_path):
    url = "amqp://127.0.0.1:1/q0"
    seen = Terminal(80).run(quiver(url, "--output", str(tmp_path)), environment())
    assert seen.returncode == 1
    told = [text for text in seen.lines if text]
    assert told[-1].startswith("quiver: error: ") or told[-2].startswith("quiver: error: ")
    assert not seen.cursor_hidden
    assert "Received/s" not in "\n".join(seen.lines)


def test_ascii_terminals_get_ascii(tmp_path):
    seen = Terminal(100).run(
        quiver("--count", "1000", "--rate", "1000", "--output", str(tmp_path)),
        environment(LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0"),
    )
    assert seen.returncode == 0, seen.lines
    assert seen.raw.isascii()
    assert seen.find("Received/s")
